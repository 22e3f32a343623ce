"""A value that overrides another is reported at its own origin, and not at the line that it replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.base.source import parse
from hpcdist.loading import load, preferences
from tests.importers.job_files import FILES
from tests.wording import Wording

NATIVE = """\
name: x
tags: [a, b]
framework: horovod
params: {lr: 0.1}
inputs: [{name: lr, type: float, maximum: 1}]
environment:
  env_vars: {A: b}
  replicas:
    n_workers: 2
    worker: [{index: 1, resources: {cpu: {requests: 2}}}]
horovod: {autotune: true}
run: {cmd: x}
batch: {walltime: 1h, nodes: 3}
"""
GRADIENT, AZURE, KUBEFLOW = FILES["gradient"], FILES["azure_job"], FILES["kubeflow_pytorch"]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (NATIVE, "name", "a b"),
        (NATIVE, "tags", "3"),
        (NATIVE, "tags[1]", "{c: d}"),
        (NATIVE, "framework", "[horovod]"),
        (NATIVE, "framework", "horovdo"),
        (NATIVE, "environment", "x"),
        (NATIVE, "environment.env_vars", "x"),
        (NATIVE, "environment.replicas.n_workers", "many"),
        (NATIVE, "environment.replicas.worker[0].index", "x"),
        (NATIVE, "environment.replicas.worker[0].resources.cpu.requests", "-1"),
        (NATIVE, "environment.resources", "{gpu: {requests: some}}"),
        (NATIVE, "horovod.autotune", "perhaps"),
        (NATIVE, "horovod", "{autotun: true}"),
        (NATIVE, "run.cmd", "[a, {b: c}]"),
        (NATIVE, "batch.walltime", "long"),
        (NATIVE, "batch.nodes", "0"),
        (NATIVE, "params.lr", "high"),
        (NATIVE, "unheard", "1"),
        (GRADIENT, "workerCount", "many"),
        (GRADIENT, "batch.walltime", "long"),
        (AZURE, "resources.instance_count", "many"),
        (AZURE, "batch.walltime", "long"),
        (KUBEFLOW, "environment.replicas.n_workers", "many"),
        (KUBEFLOW, "batch.nodes", "many"),
    ],
)
def test_a_setting_that_does_not_fit_is_reported_at_the_option(text: str, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(parse(text, "e.yml"), settings=[(key, value)])
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert {str(problem.place) for problem in errors} == {f"--set {key}={value}"}


@pytest.mark.parametrize("value", ["high", "2", "[1, 2]", "{a: b}", "true"])
def test_a_param_that_does_not_fit_is_reported_at_the_option(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(parse(NATIVE, "e.yml"), params={"lr": value})
    assert {str(problem.place) for problem in caught.value.problems} == {f"-p lr={value}"}


def test_a_preference_that_does_not_fit_is_reported_in_its_file(tmp_path: Path) -> None:
    own = tmp_path / "config.yml"
    own.write_text("defaults:\n  walltime: long\n  mail: {user: me, events: [now]}\n")
    with pytest.raises(ConfigError) as caught:
        preferences.read({"HPCDIST_CONFIG": str(own)})
    assert [
        (item.place and item.place.file, item.place and item.place.line) for item in caught.value.problems
    ] == [(str(own), 2)]


def test_a_file_that_a_setting_makes_unrecognisable_is_not_blamed(wording: Wording) -> None:
    text = "version: 1\nworker: {container: a/b, machine-type: P4000, command: c}\n"
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(parse(text, "e.yml"), settings=[("worker", "x")])
    wording(str(caught.value))
