"""Files of the shape of other projects' searches, every key of which they have: nothing has to be changed."""

from __future__ import annotations

from typing import Final

import pytest

from hpcdist.base import source
from hpcdist.loading import load

GROUP: Final = r"""---
version: 1
kind: group
logging:
  level: INFO
framework: tensorflow
build:
  backend: native
  image: 'example/image:1.0-py3'
  build_steps:
    - pip install example-client
    - pip install example
hptuning:
  concurrency: 3
  matrix:
    rate:
      linspace: '0.5:2.5:3'
    layer:
      values:
        - wide
        - deep
params:
  batch: 32
  steps: 50
run:
  cmd:  python train.py --batch={{ batch }} \
                        --rate={{ rate }} \
                        --steps={{ steps }} \
                        --layer={{ layer }}
"""

DECLARED: Final = r"""---
version: 1

kind: group

hptuning:
  concurrency: 2
  random_search:
    n_experiments: 4

  matrix:
    rate:
      linspace: 0.5:2.5:3
    layer:
      values: [wide, deep]

declarations:
  batch: 32

build:
  image: example/image:1.0-py3
  build_steps:
    - pip3 install --no-cache-dir -U example-client

run:
  cmd:  python3 train.py --batch={{ batch }} \
                         --rate={{ rate }} \
                         --layer={{ layer }}
"""

COMPONENT: Final = """
component:
  version: 1.1
  kind: component
  name: typed
  description: an experiment with inputs
  tags: [tests]
  inputs:
  - {name: units, type: int, value: 8, isOptional: true}
  - {name: rate, type: float, value: 0.5, isOptional: true}
  - {name: layer, type: str, value: wide, isOptional: true}
  - {name: rounds, type: int}
  outputs:
  - {name: loss, type: float}
  run:
    kind: job
    init:
    - git: {url: "https://git.example.org/project"}
    container:
      image: example/image
      workingDir: "{{ globals.artifacts_path }}/project"
      command: [python3, train.py]
      args: ["--units={{ units }}", "--rate={{ rate }}", "--layer={{ layer }}", "--rounds={{ rounds }}"]
"""

BAYES: Final = f"""
version: 1.1
kind: operation
matrix:
  kind: bayes
  concurrency: 2
  maxIterations: 3
  numInitialRuns: 6
  metric:
    name: loss
    optimization: minimize
  utilityFunction:
    acquisitionFunction: ucb
    kappa: 2.0
    gaussianProcess:
      kernel: matern
      lengthScale: 2.0
      nu: 1.5
      numRestartsOptimizer: 0
  params:
    rate:
      kind: linspace
      value: 0.5:2.5:3
    layer:
      kind: choice
      value: [wide, deep]
    rounds:
      kind: choice
      value: [1, 2]
{COMPONENT}"""

HYPERBAND: Final = f"""
version: 1.1
kind: operation
matrix:
  kind: hyperband
  concurrency: 4
  maxIterations: 4
  eta: 2
  resource:
    name: rounds
    type: int
  resume: False
  metric:
    name: loss
    optimization: minimize
  params:
    rate:
      kind: uniform
      value: [0, 1]
    units:
      kind: choice
      value: [4, 8]
    layer:
      kind: pchoice
      value: [[wide, 0.3], [deep, 0.6]]
{COMPONENT}"""

MAPPING: Final = f"""
version: 1.1
kind: operation
matrix:
  kind: mapping
  values:
  - rate: 0.25
    layer: wide
    rounds: 2
  - rate: 0.5
    rounds: 3
{COMPONENT}"""

AZURE: Final = """\
$schema: https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json
type: sweep
trial:
  code: src
  command: >-
    python train.py
    --table ${{inputs.table}}
    --rate ${{search_space.rate}}
    --layer ${{search_space.layer}}
    --shift ${{search_space.shift}}
  environment: azureml:example-cpu:3
inputs:
  table:
    type: uri_file
    path: /data/table.csv
compute: azureml:some-cluster
sampling_algorithm: random
search_space:
  rate:
    type: uniform
    min_value: 0.5
    max_value: 0.75
  layer:
    type: choice
    values: ["wide", "deep"]
  shift:
    type: uniform
    min_value: 0.5
    max_value: 1
objective:
  goal: minimize
  primary_metric: loss
limits:
  max_total_trials: 7
  max_concurrent_trials: 3
  timeout: 3600
display_name: example-sweep
experiment_name: example-sweep
description: A sweep of the shape of an example.
"""


@pytest.mark.parametrize(
    ("text", "trials", "at_once", "begin"),
    [
        (GROUP, 6, 3, "python train.py --batch=32 "),
        (DECLARED, 4, 2, "python3 train.py --batch=32 "),
        (BAYES, 6, 2, "python3 train.py --units=8 "),
        (HYPERBAND, 10, 4, "python3 train.py --units="),
        (MAPPING, 2, None, "python3 train.py --units=8 --rate=0.25 --layer='wide' --rounds=2"),
        (AZURE, 7, 3, "python train.py --table '/data/table.csv' --rate 0."),
    ],
)
def test_it_has_its_trials_without_a_change(text: str, trials: int, at_once: int | None, begin: str) -> None:
    done = load.load_experiment(source.parse(text, "search.yml"))
    search = done.experiment.hptuning
    assert search
    assert (len(done.trials), search.concurrency) == (trials, at_once)
    first = done.trials[0].command.splitlines()[-1]
    assert first[: len(begin)] == begin
    assert len({trial.command for trial in done.trials}) == trials


def test_a_trial_of_a_list_has_the_default_of_an_input_that_it_lacks() -> None:
    done = load.load_experiment(source.parse(MAPPING, "search.yml"))
    command = "python3 train.py --units=8 --rate=0.5 --layer='wide' --rounds=3"
    assert done.trials[1].command.splitlines()[-1] == command
