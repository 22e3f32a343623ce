"""Submitting exactly once on the real Slurm, whatever dies when."""

from __future__ import annotations

import json
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Completed
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = pytest.mark.real

KILLS_ITS_PARENT = '/usr/bin/sbatch "$@" >/dev/null; kill -9 $PPID'
KILLS_ITS_PARENT_FIRST = "kill -9 $PPID"
LOSES_THE_ANSWER = """
    /usr/bin/sbatch "$@" >/dev/null
    echo "sbatch: error: Batch job submission failed: {said}" >&2
    exit 1
"""
TWO_HUNDRED = """
import sys
from click.testing import CliRunner
from hpcdist.cli import main
for number in range(200):
    done = CliRunner().invoke(main, ["submit", "held.yml", "--again"])
    assert done.exit_code == 0, done.output
"""

KILLS = """
import sys
from pathlib import Path
from tests.chaos import kills, slurm
print(*kills.kills(12, 5, Path(sys.argv[1]), slurm.REAL).wrong, sep="\\n", end="")
"""


def with_command(user: User, name: str, script: str) -> dict[str, str]:
    """Put a command of one's own before Slurm's; return the environment that finds it."""
    folder = user.directory / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/bash\n" + textwrap.dedent(script).strip() + "\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{ENVIRONMENT['PATH']}"}


def jobs(user: User) -> int:
    """How many jobs Slurm has made in this test, ended ones included."""
    done = user.cluster.run(["squeue", "-h", "-t", "all", "-o", "%Z"], user="root", check=True)
    return done.stdout.split().count(str(user.directory))


def submit(user: User, env: dict[str, str] | None = None, *options: str) -> Completed:
    if not (user.directory / "once.yml").exists():
        user.write("once", {"run": {"cmd": "sleep 600"}})
    return user.hpcdist("submit", "once.yml", *options, env=env)


def record(user: User, run: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((user.directory / "runs" / run / "record.json").read_text())
    return found


def test_killed_between_sbatch_and_record(user: User) -> None:
    assert submit(user, with_command(user, "sbatch", KILLS_ITS_PARENT)).returncode != 0
    assert record(user, "once-1")["phase"] == "submitting"
    assert jobs(user) == 1
    (status,) = user.json("status")
    assert (status["state"] in ("pending", "running"), status["phase"]) == (True, "accepted")
    again = submit(user)
    assert (again.returncode, again.stdout.split(" on ")[0]) == (0, f"once-1: job {status['job_id']}")
    assert "its submission was interrupted" in again.stderr
    assert (record(user, "once-1")["phase"], jobs(user)) == ("submitted", 1)
    assert (submit(user).returncode, jobs(user)) == (0, 2)


def test_an_sbatch_that_is_slow_to_begin_dies_with_its_hpcdist(user: User) -> None:
    slow = '(sleep 1; kill -9 $PPID) & sleep 4; exec /usr/bin/sbatch "$@"'
    assert submit(user, with_command(user, "sbatch", slow)).returncode != 0
    time.sleep(5)
    assert jobs(user) == 0


@pytest.mark.extended
def test_kills_at_random_moments(user: User) -> None:
    words: list[str | Path] = [PYTHON, "-c", KILLS, user.directory]
    done = user.cluster.run(words, cwd=CHECKOUT, env=ENVIRONMENT, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_killed_before_sbatch_did_anything(user: User) -> None:
    assert submit(user, with_command(user, "sbatch", KILLS_ITS_PARENT_FIRST)).returncode != 0
    assert (record(user, "once-1")["phase"], jobs(user)) == ("submitting", 0)
    (status,) = user.json("status")
    assert status["state"] in ("unknown", "unsubmitted")
    assert jobs(user) == 0


@pytest.mark.parametrize(
    "said",
    ["Socket timed out on send/recv operation", "Connection reset by peer", "Unexpected message received"],
)
def test_an_answer_that_got_lost(user: User, said: str) -> None:
    done = submit(user, with_command(user, "sbatch", LOSES_THE_ANSWER.format(said=said)))
    assert done.returncode == 0, done.stderr
    assert (record(user, "once-1")["phase"], jobs(user)) == ("submitted", 1)
    assert user.hpcdist("cancel", "once-1").returncode == 0


def test_a_refusal_is_certain_and_tells_why(user: User) -> None:
    done = submit(user, None, "--set=batch.constraint=nosuch")
    assert done.returncode == 5, done.stderr
    assert "correct `batch.constraint`" in done.stderr
    assert (record(user, "once-1")["phase"], jobs(user)) == ("refused", 0)


@pytest.mark.extended
def test_two_hundred_jobs_cost_one_squeue(user: User) -> None:
    user.write("held", {"run": {"cmd": "true"}, "batch": {"directives": ["--hold"]}})
    user.cluster.run(
        [PYTHON, "-c", TWO_HUNDRED], cwd=user.directory, env=ENVIRONMENT, check=True, timeout=300
    )
    counted = with_command(user, "squeue", 'echo >>squeue.calls; exec /usr/bin/squeue "$@"')
    done = user.hpcdist("status", "--json", env=counted)
    assert done.returncode == 0, done.stderr
    assert [one["state"] for one in json.loads(done.stdout)] == ["pending"] * 200
    assert (user.directory / "squeue.calls").read_text() == "\n"


def test_a_host_without_slurm(tmp_path: Path) -> None:
    (tmp_path / "once.yml").write_text("version: 1\nrun: {cmd: 'true'}\n")
    words: list[str | Path] = [PYTHON, "-m", "hpcdist", "submit", "once.yml", "--site", "testbed"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, "`sbatch`" in done.stderr) == (5, True), done.stderr
