"""Files of other tools where an experiment is asked for: ``--from`` and ``--name``."""
# ruff: noqa: E501 - files are compared as they are written

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist

PYTORCH: Final = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: [{name: pytorch, command: [echo, NAME]}]}}}}}
"""
BOTH: Final = "---\n".join(PYTORCH.replace("NAME", name) for name in ("one", "two"))


@pytest.fixture(autouse=True)
def _both(folder: Path) -> None:
    (folder / "both.yml").write_text(BOTH)


def test_name_selects_one_job_of_several(hpcdist: Hpcdist, wording: Wording) -> None:
    verbs = ("check", "plan", "render", "explain")
    results = [hpcdist(verb, "both.yml", "--site", "local", "--name", "two") for verb in verbs]
    [(code, unread)] = {(result.code, result.err) for result in results}
    assert code == 0
    refusals = [hpcdist(verb, "both.yml", "--site", "local") for verb in verbs]
    [(code, out, several)] = {(refused.code, refused.out, refused.err) for refused in refusals}
    assert (code, out) == (2, "")
    wording(unread + several)


def test_from_sets_the_format(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "both.yml", "--from", "mlrun", "--name", "two")
    assert (result.code, result.out) == (2, "")
    result = hpcdist("check", "both.yml", "--from", "kubeflow", "--name", "two")
    assert (result.code, result.out) == (0, "ok: both.yml: 1 task by mpirun, 1 node (site local)\n")


def test_an_unknown_format(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("plan", "both.yml", "--from", "kubflow")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_the_format_is_recorded_with_the_run(real: Hpcdist, folder: Path) -> None:
    options = ("--site", "local", "--from", "kubeflow", "--name", "two", "--wait")
    assert real("submit", "both.yml", *options).code == 0
    kept = folder / "runs" / "two-1"
    assert (kept / "experiment.yml").read_text() == BOTH
    assert json.loads((kept / "options.json").read_text()) == ["--from", "kubeflow", "--name", "two"]


GRADIENT = (
    "experiments", "run", "singlenode", "--name", "digits", "--machineType", "C3", "--apiKey", "s3cret",
    "--command", "python train.py --lr 0.1", "--optionsFile", "more.yml",
)  # fmt: skip


def test_a_command_line_of_gradient_is_submitted(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "more.yml").write_text("workspace: none\nexperimentEnv: {SEED: 7}\ncommand: other\n")
    options = ("--site=local", "--runs-dir=r", "--set", "batch.walltime=1h", "--from=gradient")
    result = hpcdist("submit", "--dry-run", "--json", *options, "--", "gradient", *GRADIENT)
    assert result.code == 0, result.err
    made = json.loads(result.out)
    assert made["files"]["experiment.yml"] == (
        'name: digits\nmachineType: C3\napiKey: "(not kept)"\ncommand: python train.py --lr 0.1\n'
        "optionsFile: more.yml\n# more.yml:\n# workspace: none\n# experimentEnv: {SEED: 7}\n# command: other\n"
    )
    changes = ["--set", "batch.walltime=1h", "--from", "gradient"]
    assert json.loads(made["files"]["options.json"]) == changes
    assert "SEED=7" in made["files"]["job.sh"]
    assert "python train.py --lr 0.1" in made["files"]["job.sh"]
    assert "s3cret" not in result.out + result.err
    checked = hpcdist("check", *options[:1], *options[2:], "--", *GRADIENT)
    assert (checked.code, checked.out.partition(": ")[2].partition(":")[0]) == (
        0, "a command line of gradient",
    )  # fmt: skip


def test_several_words_need_the_tool_of_their_command_line(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("check", "a.yml", "b.yml")
    assert result.code == 2
    wording(result.err)


def test_problems_of_a_command_line_are_those_of_its_tool(hpcdist: Hpcdist, wording: Wording) -> None:
    words = ("experiments", "run", "singlenode", "--optionsFile", "missing.yml")
    result = hpcdist("check", "--site=local", "--from=gradient", "--", *words)
    assert result.code == 2
    wording(result.err)
