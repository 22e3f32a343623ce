"""Files of other tools where an experiment is asked for: ``--from`` and ``--name``."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from .conftest import Hpcdist

PYTORCH: Final = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: [{name: pytorch, command: [echo, NAME]}]}}}}}
"""
BOTH: Final = "---\n".join(PYTORCH.replace("NAME", name) for name in ("one", "two"))
UNREAD: Final = "warning: both.yml:2:7: kind: this PyTorchJob 'one' has no effect on a batch machine: only PyTorchJob 'two' is run\n"


@pytest.fixture(autouse=True)
def _both(folder: Path) -> None:
    (folder / "both.yml").write_text(BOTH)


@pytest.mark.parametrize("verb", ["check", "plan", "render", "explain"])
def test_name_selects_one_job_of_several(hpcdist: Hpcdist, verb: str) -> None:
    result = hpcdist(verb, "both.yml", "--site", "local", "--name", "two")
    assert (result.code, result.err) == (0, UNREAD)
    refused = hpcdist(verb, "both.yml", "--site", "local")
    assert (refused.code, refused.out) == (2, "")
    assert "this file contains 2 jobs: PyTorchJob 'one' (line 1), PyTorchJob 'two' (line 6)" in refused.err


def test_from_sets_the_format(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "both.yml", "--from", "mlrun", "--name", "two")
    assert (result.code, result.out) == (2, "")
    result = hpcdist("check", "both.yml", "--from", "kubeflow", "--name", "two")
    assert (result.code, result.out) == (0, "ok: both.yml: 1 task by mpirun, 1 node (site local)\n")


def test_an_unknown_format(hpcdist: Hpcdist) -> None:
    result = hpcdist("plan", "both.yml", "--from", "kubflow")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: there is no importer 'kubflow'; did you mean 'kubeflow'?\n"


def test_the_format_is_recorded_with_the_run(real: Hpcdist, folder: Path) -> None:
    options = ("--site", "local", "--from", "kubeflow", "--name", "two", "--wait")
    assert real("submit", "both.yml", *options).code == 0
    kept = (folder / "runs" / "two-1" / "experiment.yml").read_text()
    assert kept == f'{BOTH}# submitted with ["--from", "kubeflow", "--name", "two"]\n'
