"""Jobs with servers: they end with those that they serve, well or badly."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]

SERVE = """
case $HPCDIST_ROLE in
ps | evaluator) while :; do sleep 1; done ;;
esac
"""


def experiment(command: str, **section: Any) -> dict[str, Any]:
    """Write a master, two workers, two parameter servers and an evaluator."""
    gpu = {"resources": {"gpu": {"requests": 1}}}
    replicas = {"n_workers": 2, "n_ps": 2, "default_worker": gpu, "evaluator": {}}
    return {
        "framework": "tensorflow",
        "tensorflow": {"ends_with": "workers"} | section,
        "environment": gpu | {"replicas": replicas},
        "run": {"cmd": SERVE + command},
    }


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_the_job_ends_well_with_its_last_worker(user: User, launcher: str) -> None:
    command = "sleep $((HPCDIST_INDEX * 3)); echo done $HPCDIST_ROLE $HPCDIST_INDEX"
    file = user.write("well", experiment(command) | {"batch": {"launcher": launcher}})
    done = user.hpcdist("submit", file, "--wait")
    log = user.log("well-1")
    assert done.returncode == 0, done.stderr + log
    assert all(f"done {who}" in log for who in ("master 0", "worker 0", "worker 1"))
    assert "hpcdist: master and worker ended well; ending those that served\n" in log


def test_workers_that_serve_end_with_the_master(user: User) -> None:
    command = "[[ $HPCDIST_ROLE == master ]] || while :; do sleep 1; done"
    done = user.hpcdist("submit", user.write("chief", experiment(command, ends_with="master")), "--wait")
    assert done.returncode == 0, done.stderr + user.log("chief-1")


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_failed_worker_ends_the_job_with_its_exit_code(user: User, launcher: str) -> None:
    command = "[[ $HPCDIST_ROLE$HPCDIST_INDEX != worker1 ]] || exit 5"
    file = user.write("badly", experiment(command) | {"batch": {"launcher": launcher}})
    begun = time.monotonic()
    done = user.hpcdist("submit", file, "--wait")
    assert done.returncode == 5
    assert "hpcdist: rank 2 on n1 was the first to fail, with exit code 5" in user.log("badly-1")
    assert time.monotonic() - begun < 300  # not the ten minutes of its time limit


def test_a_master_that_ends_well_on_term_does_not_hide_a_failed_worker(user: User) -> None:
    # A long sleep that missed its signal would outlive its shell, and keep the step open by its output: this
    # cluster's proctrack/linuxproc finds no orphans.
    command = """
if [[ $HPCDIST_ROLE == master ]]; then trap 'echo saved; exit 0' TERM; while :; do sleep 1; done; fi
sleep 1
[[ $HPCDIST_ROLE$HPCDIST_INDEX != worker0 ]] || exit 6
while :; do sleep 1; done
"""
    done = user.hpcdist("submit", user.write("saves", experiment(command)), "--wait")
    assert done.returncode == 6, done.stderr + user.log("saves-1")


def test_a_failed_server_ends_the_job_too(user: User) -> None:
    command = "sleep 300"
    file = user.write("server", experiment(command))
    text = file.read_text().replace("ps | evaluator)", "ps) exit 9 ;;\n  evaluator)")
    file.write_text(text)
    done = user.hpcdist("submit", file, "--wait")
    assert done.returncode == 9, done.stderr + user.log("server-1")
