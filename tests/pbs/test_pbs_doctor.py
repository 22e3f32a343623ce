"""`hpcdist doctor --job` under PBS: a job like any other, on one host and on two."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Completed, PbsUser, Person


def job(done: Completed) -> dict[str, str]:
    """Return how each thing is that the job has shown."""
    found = json.loads(done.stdout or "[]")
    own = (item for item in found if item["group"] in ("job", "network"))
    return {item["name"]: item["status"] for item in own}


ALONE = ("job", "records", "names", "connectivity", "clock")


@pytest.mark.extended
def test_on_one_host(person: Person) -> None:
    done = person.hpcdist("doctor", "--job", "1", "--json")
    assert job(done) == dict.fromkeys(ALONE, "ok"), done.stderr + done.stdout


@pytest.mark.extended
@pytest.mark.real
def test_on_two_hosts_each_task_with_a_gpu(user: PbsUser) -> None:
    done = user.hpcdist("doctor", "--job", "--gpus", "1", "--json")
    ways = [f"all-reduce by {way}" for way in ("sockets", "torch", "mpi4py", "horovod")]
    assert job(done) == dict.fromkeys((*ALONE, *ways), "ok"), done.stderr + done.stdout
    assert re.search(r"2 tasks by mpirun, 2 nodes, 2 GPUs: n1 n2 \(job ", user.log("doctor-1"))
