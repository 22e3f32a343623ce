"""``hpcdist shell`` on this machine, and where there is no allocation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hpcdist.runs import rundir
from tests.wording import Wording

from .conftest import RANKS, Hpcdist, run_real


@pytest.fixture
def real() -> Hpcdist:
    """Run a command line as its user does: what it starts has its files."""
    return run_real


def test_a_command_has_the_job_and_launches_its_program(real: Hpcdist, folder: Path) -> None:
    text = RANKS.replace("run:\n", "  env_vars: {ODD: \"a 'b'\"}\nrun:\n")
    (folder / "ranks.yml").write_text(text.replace("of $WORLD_SIZE", "of $WORLD_SIZE $EXTRA"))
    script = (
        'echo "$ODD $HPCDIST_RUN_DIR"; EXTRA=x launch; launch sh -c "exit 3" >ended; echo "code $?"; exit 7'
    )
    done = real("shell", "ranks.yml", "--", "bash", "-c", script)
    first, *ranks, last = done.out.splitlines()
    assert (done.code, first, last) == (7, f"a 'b' {folder}/runs/ranks-1", "code 3")
    assert sorted(ranks) == [f"{rank}: rank {rank} of 3 x" for rank in range(3)]
    assert "note: ranks-1 waits for 3 tasks by processes, 1 node on site local; Ctrl-C gives up\n" in done.err
    (report,) = json.loads(real("status", "ranks-1", "--json").out)
    assert (report["state"], report["exit_code"]) == ("failed", 7)


def test_without_a_command_it_reads_its_input(real: Hpcdist, folder: Path) -> None:
    done = real("shell", "ranks.yml", stdin="echo $HPCDIST_JOB_ID; exit 5\n")
    assert (done.code, done.out.strip()) == (5, rundir.RunDirectory(folder / "runs/ranks-1").record().job_id)
    done = real("resume", "ranks-1")
    assert (done.code, done.err) == (
        2,
        "error: ranks-1 was a shell: there is nothing to resume; `hpcdist shell FILE` opens another one\n",
    )


@pytest.mark.extended
def test_it_is_not_the_submission_of_the_experiment(real: Hpcdist, folder: Path) -> None:
    digests = set()
    for words in (
        ["submit", "ranks.yml", "--wait"],
        ["shell", "ranks.yml", "--", "true"],
        ["shell", "ranks.yml", "--", "id"],
    ):
        assert real(*words).code == 0
    for number in (1, 2, 3):
        digests.add(rundir.RunDirectory(folder / f"runs/ranks-{number}").record().digest)
    assert len(digests) == 3


SLURM = {"site": "slurm", "account": "a", "walltime": "1h"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("hptuning", {"matrix": {"lr": {"values": [1, 2]}}}), ("batch", {"array": "1-2", **SLURM})],
    ids=["search", "array"],
)
def test_several_jobs_have_no_shell(
    hpcdist: Hpcdist, folder: Path, key: str, value: object, wording: Wording
) -> None:
    several = yaml.safe_load(RANKS) | {"batch": SLURM, key: value}
    (folder / "several.yml").write_text(yaml.safe_dump(several))
    done = hpcdist("shell", "several.yml")
    assert done.code == 3
    wording(done.err)
    assert not (folder / "runs").exists()


def test_an_allocation_that_was_refused(
    real: Hpcdist, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, text in (
        ("salloc", 'echo "salloc: error: Invalid qos" >&2; exit 1'),
        ("squeue", "exit 0"),
        ("sacct", "exit 0"),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    (folder / "one.yml").write_text("run: {cmd: 'true'}\nbatch: {site: slurm, account: a, walltime: 1h}\n")
    done = real("shell", "one.yml", "--", "true")
    assert (done.code, done.out) == (5, "")
    assert "salloc: error: Invalid qos" in done.err
    assert (
        "error: salloc ended with exit code 1, and there was no allocation; its own messages are above"
        in done.err
    )
    (report,) = json.loads(real("status", "one-1", "--json").out)
    assert report["state"] == "unsubmitted"
