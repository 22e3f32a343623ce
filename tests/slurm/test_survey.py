"""A site file made on the cluster by `hpcdist sites init` plans the examples as they are, and runs one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.usefixtures("examples")]


def test_the_site_that_init_writes_plans_the_examples_and_runs_one(user: User) -> None:
    made = user.hpcdist("sites", "init", "here", "-o", "here.yaml")
    assert (made.returncode, made.stderr) == (0, "")
    checked = user.hpcdist("sites", "check", "here.yaml")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "ok: here.yaml\n", "")
    for example in ("quickstart", "horovod_digits"):
        planned = user.hpcdist("plan", f"examples/{example}.yml", "--site", "here.yaml")
        assert (planned.returncode, planned.stderr) == (0, "")
        assert "constraint" not in planned.stdout  # without GPUs, no kind of them is asked for
    done = user.hpcdist("submit", "examples/quickstart.yml", "--site", "here.yaml", "--wait")
    log = user.log("quickstart-1")
    assert done.returncode == 0, done.stderr + log
    accuracy = re.search(r"test accuracy ([\d.]+)", log)
    assert accuracy, log
    assert float(accuracy[1]) > 0.9


@pytest.mark.extended
def test_the_accounts_of_a_user_are_seen_where_there_is_accounting(
    accounting_cluster: Cluster, workdir: Path
) -> None:
    made = User(accounting_cluster, workdir).hpcdist("sites", "init", "here", "-o", "-")
    assert (made.returncode, made.stderr) == (0, "")
    assert "partitions:\n  gpu: {nodes: {a100: 2, v100: 2}}\n" in made.stdout
