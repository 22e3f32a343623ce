"""The pages of the first week: the program trains, and the failures are those that hpcdist prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from hpcdist.schedulers.job import JobState
from hpcdist.schedulers.slurm.queries import _ADVICE
from tests.docs.pages import CHECKOUT, DOCS, block


@pytest.mark.extended
def test_the_program_trains_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("train.py").write_text(block("first ddp"))
    words = ["init", "-y", "--framework", "pytorch", "--site", "local", "-o", "ddp.yml"]
    assert CliRunner().invoke(main, words).exit_code == 0
    done = CliRunner().invoke(main, ["submit", "ddp.yml", "--wait", "--set", "batch.launcher=processes"])
    assert done.exit_code == 0, done.output
    log = Path("runs/ddp-1/logs/job.out").read_text()
    assert sorted(re.findall(r"rank \d of 2: .*", log)) == [
        "rank 0 of 2: 2 ranks added up",
        "rank 1 of 2: 2 ranks added up",
    ]


COMMANDS = re.findall(
    r"^\| [^`|]+ \| `([^`]+python train\.py)`", (DOCS / "tutorial/pytorch.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_python_of_the_page_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    words = ["init", "-y", "--framework", "pytorch", "--site", "testbed", "--nodes", "2", "-o", "ddp.yml"]
    done = CliRunner().invoke(main, [*words, "--command", command])
    assert (done.exit_code, done.stderr) == (0, "")


def test_messages_of_the_failures_are_those_that_are_printed() -> None:
    page = (DOCS / "how-to/failures.md").read_text()
    folders = ("hpcdist", "templates")
    files = [file for folder in folders for file in (CHECKOUT / folder).rglob("*.*") if file.is_file()]
    sources = "".join(file.read_bytes().decode(errors="replace") for file in files)
    said = (
        "was the first to fail, with exit code",
        "the kernel killed a process for lack of memory (exit code ",
        "killed by signal ",
        "and {{ job.places.gpus_told }} are needed",
        "srun gave no PMI",
        "; is the disk full?",
        "was changed or cut short",
        "; is its file system mounted there?",
        " refused the job: ",
    )
    assert [text for text in said if text not in sources] == []
    assert [text for text in said if "{" not in text and text.strip() not in page] == []


def test_each_reason_that_is_explained_has_its_line() -> None:
    page = (DOCS / "how-to/failures.md").read_text()
    assert [reason for reason in _ADVICE if f"`{reason}`" not in page] == []


def test_each_state_is_in_the_glossary() -> None:
    page = (DOCS / "reference/glossary.md").read_text()
    [line] = re.findall(r"^\| state \| (.*) \|$", page, re.MULTILINE)
    others = {JobState.UNSUBMITTED, JobState.SUSPENDED, JobState.PREEMPTED}
    assert [state for state in JobState if state not in others and state.value not in line] == []


def test_the_front_page_has_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("train.yml").write_text(block("front"))
    done = CliRunner().invoke(main, ["check", "train.yml"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: train.yml: 8 tasks by srun, 2 nodes, 8 GPUs")
