"""What was imported, written and read again is the same, whatever it was before."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Path, errors_in
from hpcdist.cli.experiment.import_ import origins
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.writing import write
from hpcdist.importers.polyaxon import as_native
from hpcdist.loading import load
from hpcdist.loading.load import Native

FILES = sorted(
    file for file in File(__file__).parent.glob("*/*.yml") if not file.name.endswith(".expected.yml")
)


def again(native: Native) -> Native:
    text = write(as_native(native.document.data), origins(native))
    return load.to_native(source.parse(text, native.document.file, several=True))


def outcome(native: Native) -> Experiment | set[tuple[Path, str]]:
    """Return the experiment, or what keeps it from being one: inputs without a param."""
    try:
        return load.checked(native).experiment
    except ConfigError as error:
        return {(problem.path, problem.message) for problem in errors_in(error.problems)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_native_stays_native(file: File) -> None:
    native = load.to_native(source.load(file, several=True))
    once = again(native)
    assert once.problems == ()
    assert once.document.data == native.document.data
    assert once.document.data == once.foreign.data
    assert outcome(once) == outcome(native)


FOREIGN = {
    "azure": r"""
type: command
command: |
  x
  $[[--a ${{inputs.a}}]] \ b
  -c\ -d
inputs: {a: 1}
""",
    "azure_script": r"""
type: command
command: |
  # don't
  x\ -a \
  - b
  cat <<E
  - a
  E
""",
    "gradient": r"""
name: a
container: a/b
machineType: C4
command: |
  python x.py
  --lr 1 \ -y
""",
    "mlrun": r"""
kind: job
metadata: {name: a}
spec: {image: i, command: x.py, args: ['a\ -b', "c\n--d"]}
""",
    "kubeflow": r"""
apiVersion: kubeflow.org/v1
kind: TFJob
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: tensorflow, image: "tensorflow/tensorflow:1.4", command: [x, '{{a}}\ -b', "c\n--d"]}
""",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_commands_that_polyaxon_joins_keep_their_meaning(text: str) -> None:
    native = load.to_native(source.parse(text, "f.yml", several=True))
    once = again(native)
    assert once.problems == ()
    assert isinstance(outcome(native), Experiment)
    assert outcome(once) == outcome(native)
