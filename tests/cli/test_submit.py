"""``hpcdist submit`` that is broken off, cannot print, or is at work several times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.chaos import slurm

from .conftest import argv

SBATCH = "#!/bin/bash\n: >asked\nexec sleep 60\n"


def test_ctrl_c_during_sbatch_warns_that_the_job_may_exist(folder: Path) -> None:
    (folder / "sbatch").write_text(SBATCH)
    (folder / "sbatch").chmod(0o755)
    words = (
        "submit",
        "ranks.yml",
        "--site=toy",
        "--site-path=sites",
        "--set=batch={site: toy, launcher: srun, walltime: 1h}",
    )
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv(words), env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        deadline = time.monotonic() + 120
        while not (folder / "asked").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (
        130,
        "",
        "note: the job of ranks-1 may exist; do not submit it again: check with `hpcdist status ranks-1`\n",
    )


SUBMIT: Final = argv(["submit", "once.yml", "--site-path=sites"])
FULL: Final = ">/dev/full"


@pytest.fixture
def toy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an experiment, and a batch system."""
    monkeypatch.setenv("PATH", f"{slurm.make(folder / 'slurm')}:{os.environ['PATH']}")
    (folder / "sites" / "toy.yaml").write_text(slurm.SITE)
    (folder / "once.yml").write_text("name: once\nrun: {cmd: 'true'}\nbatch: {site: toy, walltime: 1h}\n")
    return folder / "slurm"


def bash(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which ``"$@"`` submits."""
    words = ("bash", "-c", script, "bash", *SUBMIT)
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("where", "why"),
    [
        (FULL, "No space left on device"),
        (">&-", "Bad file descriptor"),
        ("--json >/dev/full", "No space left on device"),
        ("| true; exit ${PIPESTATUS[0]}", "Broken pipe"),
    ],
)
def test_an_unprintable_id_is_reported_on_stderr(toy: Path, where: str, why: str) -> None:
    done = bash(f'"$@" {where}')
    (job,) = slurm.jobs(toy)
    begin = (
        f"error: standard output cannot be written ({why}), but once-1 is submitted; it is job {job}, in `"
    )
    assert (done.returncode, done.stdout, done.stderr.startswith(begin)) == (74, "", True), done.stderr
    assert len(done.stderr.splitlines()) == 1
    again = bash('"$@"')
    assert (again.returncode, again.stdout.partition(" on ")[0]) == (0, f"once-1: job {job}")
    assert f"as job {job}, run once-1; its submission was interrupted" in again.stderr
    assert slurm.jobs(toy) == [job]
    assert bash('"$@"').stdout.startswith("once-2: job ")


def test_repeating_submit_until_it_succeeds_makes_one_job(toy: Path) -> None:
    script = 'out=/dev/full; until "$@" >"$out"; do ((++n < 3)) || out=answer; done'
    bash(script)
    (job,) = slurm.jobs(toy)
    assert Path("answer").read_text().startswith(f"once-1: job {job} on site toy")


def test_neither_a_full_stdout_nor_a_full_stderr_stops_a_submission(toy: Path) -> None:
    assert bash(f'"$@" {FULL} 2>/dev/full').returncode == 74
    assert len(slurm.jobs(toy)) == 1
    assert bash('"$@" 2>/dev/full').returncode == 0
    assert len(slurm.jobs(toy)) == 1


def test_concurrent_submissions_make_one_job_each(toy: Path) -> None:
    done = bash('for i in {1..6}; do "$@" & done; wait')
    assert sorted(re.findall(r"(?m)^once-\d+: job (\d+) ", done.stdout)) == slurm.jobs(toy), done.stderr
    assert len(slurm.jobs(toy)) == 6
    assert "interrupted" not in done.stderr


@pytest.mark.parametrize("words", ["check", "render", "plan", "explain", "--version", "--help", "submit -h"])
def test_an_unwritable_stdout_is_an_error_message(toy: Path, words: str) -> None:
    options = "once.yml --site-path=sites" if words in ("check", "render", "plan", "explain") else ""
    done = bash(f"{sys.executable} -m hpcdist {words} {options} {FULL}")
    assert (done.returncode, done.stderr) == (
        74,
        "error: standard output cannot be written: No space left on device\n",
    )
    assert bash(f"{sys.executable} -m hpcdist {words} {options} {FULL} 2>/dev/full").returncode == 74
    assert slurm.jobs(toy) == []
