"""Submitting exactly once on a real Grid Engine, whatever dies when."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.sge.users import SITE, GridUser
from tests.slurm.cluster import Completed
from tests.slurm.users import PYTHON

pytestmark = [pytest.mark.real, pytest.mark.extended]

KILLS_ITS_PARENT = '/usr/bin/qsub "$@" >/dev/null; kill -9 $PPID'
KILLS_ITS_PARENT_FIRST = "kill -9 $PPID"
LOSES_THE_ANSWER = """
    /usr/bin/qsub "$@" >/dev/null
    echo "Unable to run job: {said}" >&2
    exit 1
"""


def submit(user: GridUser, env: dict[str, str] | None = None, *options: str) -> Completed:
    if not (user.directory / "once.yml").exists():
        user.write("once", {"run": {"cmd": "sleep 600"}})
    return user.hpcdist("submit", "once.yml", *options, env=env)


def record(user: GridUser, run: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((user.directory / "runs" / run / "record.json").read_text())
    return found


def test_killed_between_qsub_and_record(user: GridUser) -> None:
    assert submit(user, user.with_command("qsub", KILLS_ITS_PARENT)).returncode != 0
    assert record(user, "once-1")["phase"] == "submitting"
    assert user.jobs() == 1
    assert user.state("once-1") in ("pending", "running")
    assert record(user, "once-1")["phase"] == "accepted"
    again = submit(user)
    assert (again.returncode, "its submission was interrupted" in again.stderr) == (0, True), again.stderr
    assert (record(user, "once-1")["phase"], user.jobs()) == ("submitted", 1)


def test_killed_before_qsub_did_anything(user: GridUser) -> None:
    assert submit(user, user.with_command("qsub", KILLS_ITS_PARENT_FIRST)).returncode != 0
    assert (record(user, "once-1")["phase"], user.jobs()) == ("submitting", 0)
    assert user.state("once-1") in ("unknown", "unsubmitted")
    assert user.jobs() == 0


def test_a_waiting_job_whose_answer_was_lost_is_found_by_its_token(user: GridUser) -> None:
    user.write("once", {"run": {"cmd": "sleep 600"}, "batch": {"directives": ["-h"]}})
    said = "failed receiving gdi request response for mid=1 (got syncron message receive timeout error)."
    done = submit(user, user.with_command("qsub", LOSES_THE_ANSWER.format(said=said)))
    assert done.returncode == 0, done.stderr
    assert (record(user, "once-1")["phase"], user.jobs()) == ("submitted", 1)
    assert user.hpcdist("cancel", "once-1").returncode == 0
    assert (user.state("once-1"), user.jobs()) == ("cancelled", 0)


def test_a_refusal_is_certain_and_tells_why(user: GridUser) -> None:
    done = submit(user, None, "--set=batch.constraint=nosuch=1")
    assert done.returncode == 5, done.stderr
    assert "correct `batch.constraint`" in done.stderr
    assert (record(user, "once-1")["phase"], user.jobs()) == ("refused", 0)


def test_another_job_that_has_got_the_id_is_left_alone(user: GridUser) -> None:
    """The run's own job is found by its token while there is one; then the state is unknown."""
    assert submit(user).returncode == 0
    assert submit(user, None, "--again").returncode == 0
    own, other = user.job("once-1"), user.job("once-2")
    mine = user.directory / "runs" / "once-1" / "record.json"
    mine.write_text(json.dumps({**record(user, "once-1"), "job_id": other}))
    assert user.state("once-1") in ("pending", "running")
    assert user.job("once-1") == own
    assert user.hpcdist("cancel", "once-1").returncode == 0
    user.hpcdist("wait", "once-1")  # a job that runs is deleted in a moment
    assert (user.state("once-1"), user.jobs()) == ("cancelled", 1)
    mine.write_text(json.dumps({**record(user, "once-1"), "job_id": other, "ended": None}))
    assert user.state("once-1") == "unknown"
    user.hpcdist("cancel", "once-1")
    assert user.state("once-2") in ("pending", "running")


def test_a_host_without_grid_engine(tmp_path: Path) -> None:
    (tmp_path / "once.yml").write_text("version: 1\nrun: {cmd: 'true'}\n")
    words: list[str | Path] = [PYTHON, "-m", "hpcdist", "submit", "once.yml", "--site", SITE]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, "`qsub`" in done.stderr) == (5, True), done.stderr


def test_a_site_of_pbs_makes_no_job(user: GridUser) -> None:
    """This qsub, too, takes a script with ``-v`` alone, and passes over its lines of ``#PBS``."""
    done = submit(user, {"HPCDIST_SITE": "pbs"})
    assert (done.returncode, user.jobs()) == (5, 0), done.stderr
    assert "this is the qsub of Grid Engine: choose its site with --site" in done.stderr
    assert record(user, "once-1")["phase"] == "refused"
