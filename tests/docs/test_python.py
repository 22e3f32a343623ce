"""The page's programs in Python are run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import block

TRAIN = """\
framework: pytorch
params: {lr: 0.5}
environment:
  replicas: {n_workers: 3}
  resources: {gpu: {requests: 1}}
run: {cmd: "python train.py --lr {{ lr }}"}
batch: {account: lab}
"""
PLANNED = """\
warning: train.yml:4:25: environment.replicas.n_workers: worker 0 has no GPU, the master has 1, and they do \
the same work; write `default_worker: {resources: {gpu: {requests: 1}}}`
4 tasks by srun, 1 node, 1 GPU (site testbed)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder in which the experiment lies, without settings of a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    monkeypatch.delenv("HPCDIST_SITE", raising=False)
    (tmp_path / "train.yml").write_text(TRAIN)
    return tmp_path


def test_a_plan_and_its_script_by_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(block("python"), names)  # noqa: S102 - the page's own words
    assert capsys.readouterr() == (PLANNED, "")
    assert "#SBATCH --time=02:00:00\n" in str(names["script"])


def test_every_problem_is_there_without_a_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.yml").write_text("framework: pytorhc\nrun: {}\n")
    with pytest.raises(SystemExit) as caught:
        exec(block("python"), {})  # noqa: S102 - the page's own words
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["error", "train.yml:1:12"],
        ["error", "train.yml:2:1"],
    ]
    assert capsys.readouterr() == ("", "")


def test_its_steps_for_several_machines(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python steps"), {})  # noqa: S102 - the page's own words
    assert capsys.readouterr() == ("testbed: 4 tasks, nodes: 1\nuniversity: 4 tasks, nodes: 1\n", "")
