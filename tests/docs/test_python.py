"""The pages' programs in Python are run as they stand."""

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
SMALL = """\
params: {lr: 0.25}
tracking: {metrics: {loss: "loss=([0-9.]+)"}}
run: {cmd: "echo loss={{ lr }}; echo model > $HPCDIST_OUTPUTS/model"}
batch: {site: local}
"""
PLANNED = """\
warning: train.yml:4:25: environment.replicas.n_workers: worker 0 has no GPU, the master has 1, and they do \
the same work; write `default_worker: {resources: {gpu: {requests: 1}}}`
4 tasks by srun, 1 node, 1 GPU (site testbed)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder in which the experiments lie, without settings of a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    for name in ("HPCDIST_SITE", "HPCDIST_RUNS_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.yml").write_text(TRAIN)
    (tmp_path / "small.yml").write_text(SMALL)
    return tmp_path


def run(*names: str) -> dict[str, object]:
    """Run these blocks one after the other, as one program."""
    found: dict[str, object] = {"__name__": "__main__"}  # of which cloudpickle takes functions as values
    for name in names:
        exec(block(name), found)  # noqa: S102 - the page's own words
    return found


def test_a_plan_and_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("python")
    assert capsys.readouterr() == (PLANNED, "")
    assert "#SBATCH --time=02:00:00\n" in str(names["script"])


def test_every_problem_is_there_without_a_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.yml").write_text("framework: pytorhc\nrun: {}\n")
    with pytest.raises(SystemExit) as caught:
        run("python")
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["error", "train.yml:1:12"],
        ["error", "train.yml:2:1"],
    ]
    assert capsys.readouterr() == ("", "")


def test_several_machines_and_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    run("python changed")
    assert capsys.readouterr() == ("testbed: 4 tasks, nodes: 1\nuniversity: 4 tasks, nodes: 1\n", "")
    run("python define")
    assert capsys.readouterr() == ("8 tasks by srun, 2 nodes, 8 GPUs (site testbed)\n", "")


def test_a_run_from_its_submission_to_its_outputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("python submit")
    model = folder / "runs/small-1/outputs/model"
    said = f"small-1 0 0.25\n{model} 6\nsmall-2 completed\n['small-1', 'small-2']\n"
    assert capsys.readouterr() == (said, "")
    run("python async")
    said = "small-3 completed {'loss': 0.1}\nsmall-4 completed {'loss': 0.2}\n"
    assert capsys.readouterr() == (said, "")


def test_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    run("python sweep")
    assert capsys.readouterr().out.splitlines() == [
        "completed",
        "1 {'lr': 0.1} {'loss': 0.1}",
        "2 {'lr': 0.2} {'loss': 0.2}",
    ]


def test_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("python call", "python call each")
    assert (capsys.readouterr(), found["results"]) == (("0.2\n", ""), [0.2, 0.4])


def test_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    run("python tutorial", "python tutorial run", "python tutorial cluster")
    shown = capsys.readouterr()
    assert (shown.out.splitlines()[:5], shown.err) == (
        [
            "2 tasks by processes, 1 node (site local)",
            "()",
            "hello-1 completed",
            "rank 0 of 2",
            "rank 1 of 2",
        ],
        "",
    )
    assert "#SBATCH --nodes=2" in shown.out
