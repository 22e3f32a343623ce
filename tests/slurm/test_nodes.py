"""A node that crashed is left out of later jobs, on a real Slurm."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS
from tests.slurm.partitions import administer
from tests.slurm.process import until
from tests.slurm.quota import slowed
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]


def node_of(user: User, run: str) -> str:
    """The node on which a run's job has begun."""
    user.await_log(run, "up")
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    return (job / "nodes").read_text().strip()


def test_a_node_that_crashed_twice_is_left_out_until_it_is_forgotten(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    batch: dict[str, Any] = {"partition": "a100", "requeue": False}
    crash = {"run": {"cmd": "echo up; sleep 600"}, "batch": {**batch, "directives": ["--nodelist=n1"]}}
    for run in ("crash-1", "crash-2"):
        assert user.hpcdist("submit", user.write("crash", crash)).returncode == 0
        assert node_of(user, run) == "n1"
        cluster.crash("n1")
        assert user.hpcdist("wait", run).returncode != 0
        assert user.json("status", run)[0]["state"] == "node_fail"
        cluster.restore("n1")
    [found] = user.json("nodes")
    assert (found["node"], found["site"], found["is_suspect"]) == ("n1", "testbed", True)
    assert [(one["kind"], one["run"]) for one in found["evidence"]] == [
        ("lost", "crash-2"),
        ("lost", "crash-1"),
    ]

    other = {"run": {"cmd": "echo up"}, "batch": {**batch, "exclude_bad_nodes": True}}
    file = user.write("other", other)
    assert "excluded nodes: n1 (hpcdist nodes)\n" in user.hpcdist("plan", file).stdout
    done = user.hpcdist("submit", file, "--wait")
    assert (done.returncode, "warning: excluded as suspect: n1 (1.00: lost " in done.stderr) == (0, True)
    assert node_of(user, "other-1") == "n2"

    assert user.hpcdist("nodes", "forget", "n1").stdout == "forgotten: n1\n"
    assert user.json("nodes") == []
    done = user.hpcdist("submit", file, "--wait", "--set", "batch.exclude_nodes=[n2]")
    assert (done.returncode, "suspect" in done.stderr) == (0, False)
    assert node_of(user, "other-2") == "n1"

    done = user.hpcdist("submit", file, "--set", "batch.exclude_nodes=[nowhere]")
    assert done.returncode == 5
    assert "Invalid node name" in done.stderr
    assert "`hpcdist nodes forget NAME`" in done.stderr


TRAIN = """\
import os, pathlib, time
from hpcdist_tracking import log_metrics
rank = os.environ["HPCDIST_RANK"]
pathlib.Path("met").mkdir(exist_ok=True)
def meet(step):
    pathlib.Path(f"met/{step}.{rank}").touch()
    while not all(os.path.exists(f"met/{step}.{other}") for other in range(4)):
        time.sleep(0.005)
meet(0)
for step in range(1, 33):
    begun = time.monotonic()
    sum(range(1_000_000))  # some periods of the quota
    log_metrics(step=step, compute_seconds=time.monotonic() - begun, all_ranks=True)
    meet(step)
if rank == "2":
    raise SystemExit(7)
time.sleep(30)
"""
"""Synchronous steps of real work, the same on each node; a rank fails when all have done theirs."""


def test_a_node_with_less_cpu_and_the_first_task_to_fail_are_named(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    (user.directory / "train.py").write_text(TRAIN)
    environment = {"replicas": {"n_workers": 3, "per_node": 1}}
    batch = {"partition": "gpu"}
    command = {"run": {"cmd": "python3 train.py"}, "environment": environment, "batch": batch}
    file = user.write("slow", {"framework": "pytorch", **command})
    assert user.hpcdist("submit", file).returncode == 0
    until((user.directory / "met" / "1.1").exists, "the training to begin")
    with slowed(cluster, "n2", 0.02):
        assert user.hpcdist("wait", "slow-1").returncode == 7
    found = user.json("describe", "slow-1")
    slowness, failure = found["slowness"], found["first_failure"]
    assert (slowness["by"], [each["host"] for each in slowness["slow"]]) == ("compute_seconds", ["n2"])
    assert slowness["slow"][0]["excess"] > 1, slowness["text"]
    assert (failure["rank"], failure["host"], failure["code"]) == (2, "n3", 7)
    evidence = re.compile(
        r"rank 1 on n2 is slower than its peers by \d+%: compute_seconds is \S+, "
        r"that of the other 3 ranks \S+ \(medians of the last \d+ records\)"
    )
    assert evidence.search(user.hpcdist("describe", "slow-1").stdout)
    assert user.hpcdist("report", "slow-1").returncode == 0
    assert evidence.search((user.directory / "report.html").read_text())
    [node] = user.json("nodes")
    assert (node["node"], [one["kind"] for one in node["evidence"]]) == ("n2", ["slow"])


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[Path]:
    """A folder of a group with both users, in which what they make belongs to the group."""
    root = partial(cluster.run, user="root", check=True)
    folder = cluster.settings.directory / "lab"
    root(["bash", "-c", 'echo lab:x:21100:hu1,hu2 >>/etc/group; install -d -g lab -m 2770 "$0"', folder])
    yield folder
    root(["bash", "-c", 'sed -i /^lab:/d /etc/group; rm -r "$0"', folder])


def test_two_users_share_a_ledger_in_which_neither_loses_lines(cluster: Cluster, lab: Path) -> None:
    ledger, config = lab / "nodes.jsonl", lab / "config.yml"
    config.write_text(f"nodes_ledger: {ledger}\n")
    env = {"HPCDIST_CONFIG": str(config)}
    folders = [Path(tempfile.mkdtemp(dir=cluster.home(name), prefix="lab-")) for name in USERS]
    for name, folder in zip(USERS, folders, strict=True):
        os.chown(folder, USERS[name], USERS[name])
    one, two = users = [User(cluster, folder, name) for name, folder in zip(USERS, folders, strict=True)]
    batch = {"partition": "a100", "requeue": False, "directives": ["--nodelist=n1"]}
    for user in users:
        file = user.write(f"of-{user.name}", {"run": {"cmd": "echo up; sleep 600"}, "batch": batch})
        assert user.hpcdist("submit", file, env=env).returncode == 0
        assert node_of(user, f"of-{user.name}-1") == "n1"
    cluster.crash("n1")
    for user in users:
        assert user.hpcdist("wait", f"of-{user.name}-1", env=env).returncode != 0
        [ended] = user.json("status", f"of-{user.name}-1")
        assert (ended["state"], "n1" in ended["reason"]) == ("node_fail", True)
    words: list[str | Path] = [PYTHON, "-m", "hpcdist", "nodes"]
    at_once = [
        cluster.popen(words, user=user.name, cwd=user.directory, env=ENVIRONMENT | env) for user in users * 3
    ]
    assert [process.communicate(timeout=100)[1] for process in at_once] == [""] * 6
    for user in users:
        [node] = json.loads(user.hpcdist("nodes", "--json", env=env).stdout)
        assert node["node"] == "n1"
        assert sorted((each["kind"], each["run"]) for each in node["evidence"]) == [
            ("lost", "of-hu1-1"),
            ("lost", "of-hu2-1"),
        ]
    known, shown = ledger.read_text(), ledger.stat()
    assert (stat.S_IMODE(shown.st_mode), shown.st_gid) == (0o660, 21100)
    assert two.hpcdist("nodes", "forget", "n1", env=env).stdout == "forgotten: n1\n"
    assert ledger.read_text().startswith(known)
    assert one.hpcdist("nodes", "--json", env=env).stdout.strip() == "[]"

    secret = one.directory / "secret"
    cluster.run(["bash", "-c", "echo mine >secret"], cwd=one.directory, check=True)
    cluster.run(["bash", "-c", "mv $0 $0.old; ln -s $1 $0", ledger, secret], user="hu2", check=True)
    done = one.hpcdist("nodes", env=env)
    assert (done.returncode, f"warning: {ledger}: it is a symbolic link; " in done.stderr) == (0, True)
    assert secret.read_text() == "mine\n"


def test_followers_that_wait_do_without_a_node_that_went_bad(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    lost = 'echo "lost $SLURM_JOB_ID $(date +%s) $(uname -n)" >>"$HPCDIST_RUN_DIR/events"'
    command = f"{lost}; echo ran on $(uname -n); [ $HPCDIST_ATTEMPT = 1 ] || sleep 600"
    restart = {"by": "follow", "max": 1, "notice": "1m"}
    experiment = {"environment": {"restart": restart}, "run": {"cmd": command}, "batch": {"walltime": "10m"}}
    done = user.hpcdist("submit", user.write("chain", experiment))
    assert done.returncode == 0, done.stderr
    user.await_log("chain-1", "ran on")
    [job] = (workdir / "runs/chain-1/jobs").iterdir()
    administer(cluster, "scancel", "--batch", "--signal=URG", job.name)  # as the clock before the limit
    assert user.hpcdist("wait", "chain-1").returncode == 0, user.log("chain-1")
    first, second = re.findall(r"ran on (\S+)", user.hpcdist("logs", "chain-1").stdout)
    assert first != second
