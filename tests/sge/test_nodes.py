"""Jobs of a real Grid Engine do without nodes: those of the experiment, and bad ones between attempts."""

from __future__ import annotations

import re

import pytest

from tests.sge.users import GridUser

pytestmark = [pytest.mark.real, pytest.mark.extended]

HOSTS = ("n1", "n2", "n3")
LOSE = 'echo "lost $JOB_ID $(date +%s) $(uname -n)" >>"$HPCDIST_RUN_DIR/events"'


def where(user: GridUser, run: str) -> list[str]:
    """Return the nodes on which its program ran."""
    return re.findall(r"ran on (\S+)", user.log(run))


def test_a_job_does_without_nodes_of_the_experiment(user: GridUser) -> None:
    for one in HOSTS:
        others = ",".join(name for name in HOSTS if name != one)
        file = user.write(one, {"run": {"cmd": "echo ran on $(uname -n)"}})
        done = user.hpcdist("submit", file, "--wait", "--set", f"batch.exclude_nodes=[{others}]")
        assert (done.returncode, where(user, f"{one}-1")) == (0, [one]), done.stderr


def test_a_job_that_is_put_into_the_queue_again_does_without_bad_nodes(user: GridUser) -> None:
    command = f"echo ran on $(uname -n); [ $HPCDIST_ATTEMPT = 2 ] || {{ {LOSE}; exit 1; }}"
    experiment = {"environment": {"restart": {"no_progress": 0}}, "run": {"cmd": command}}
    done = user.hpcdist("submit", user.write("again", experiment), "--wait")
    assert (done.returncode, sorted(where(user, "again-1"))) == (0, [*HOSTS]), user.log("again-1")
    assert "may be bad ones" not in user.log("again-1")
