"""Under newer Slurms, of Debian's stable and unstable, tasks land as planned and trainings go on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.slurm import test_plain
from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.partitions import administer
from tests.slurm.process import until
from tests.slurm.release import newest
from tests.slurm.test_exactly_once import LOSES_THE_ANSWER, with_command
from tests.slurm.test_shapes import SHAPES, all_land_as_planned, needs, shape
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long]

FOUR = shape(needs(cpu=8), 7)
"""Tasks on nodes of both switches."""
IN_BLOCKS = ("one-task", "two-cpu-tasks", "four-gpus-one-node", "two-on-each-of-four")
"""The plug-in for blocks gives no job two nodes of different blocks, only one, or both blocks."""

LIFE = """\
trap 'echo "heard by $HPCDIST_RANK in $HPCDIST_ATTEMPT"' USR1
echo "up $HPCDIST_RANK in $HPCDIST_ATTEMPT"
while [ "$HPCDIST_ATTEMPT" = 0 ] || [ ! -e over ]; do sleep 0.1; done
"""
"""A program that says what it hears, and ends in its second attempt."""


@pytest.fixture(scope="module", params=[])
def newer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster with the Slurm of a release, and with a topology."""
    release, topology = request.param
    release = newest() if release == "newest" else release
    # KillWait is that of Slurm: a script must be in the queue again before it is killed.
    place = tmp_path_factory.mktemp("newer")
    with Cluster.boot(place, release=release, topology=topology, kill_wait=300) as cluster:
        directory = cluster.workdir()
        site = yaml.safe_load((CHECKOUT / "site_configs" / "testbed.yaml").read_text())
        site |= {"name": "newer", "launchers": {}}  # these packages have no PMIx
        (directory / "newer.yaml").write_text(yaml.safe_dump(site))
        yield User(cluster, directory)


@pytest.mark.parametrize("newer", [("newest", "tree")], indirect=True, ids=" ".join)
def test_two_shapes(newer: User) -> None:
    shapes = {
        name: {"framework": "pytorch", "environment": environment}
        for name, environment in (
            ("two-on-each-of-four", FOUR),
            ("five-gpus-uneven", SHAPES["five-gpus-uneven"]),
        )
    }
    all_land_as_planned(newer, shapes, "srun", exclusive=True, site="./newer.yaml")
    test_plain.all_land_as_planned(newer, shapes, "srun", exclusive=True, site="./newer.yaml")


@pytest.mark.extended
@pytest.mark.parametrize(
    "newer",
    [(release, topology) for release in ("trixie", "sid") for topology in ("flat", "tree", "block")],
    indirect=True,
    ids=" ".join,
)
def test_shapes(newer: User) -> None:
    is_block = newer.cluster.settings.topology == "block"
    shapes = {
        name: {"framework": "pytorch", "pytorch": {"launch": "env"}, "environment": environment}
        for name, environment in {**SHAPES, "two-on-each-of-four": FOUR}.items()
        if not is_block or name in IN_BLOCKS
    }
    all_land_as_planned(newer, shapes, "srun", exclusive=True, site="./newer.yaml")
    test_plain.all_land_as_planned(newer, shapes, "srun", exclusive=True, site="./newer.yaml")


@pytest.mark.extended
@pytest.mark.parametrize("newer", [("sid", "tree"), ("sid", "block")], indirect=True, ids=" ".join)
@pytest.mark.parametrize("per_node", [1, 2])
def test_ranks_meet_at_the_first_of_them(newer: User, per_node: int) -> None:
    replicas = {"n_workers": 2 * per_node - 1, "per_node": per_node}
    experiment = {
        "framework": "pytorch",
        "environment": {"resources": {"cpu": {"requests": 1}}, "replicas": replicas},
        "run": {"cmd": "echo rank $RANK on $(uname -n) meets at $MASTER_ADDR"},
        "batch": {"site": "./newer.yaml"},
    }
    nodes = {"tree": "n2,n3", "block": "n2,n4"}[
        newer.cluster.settings.topology
    ]  # of two switches, of one block
    log = test_plain.by_hand(newer, f"meet-{per_node}", experiment, f"--nodelist={nodes}")
    until(lambda: log.exists() and log.read_text().count("rank ") == 2 * per_node, "all ranks to say so")
    found = re.findall(r"rank (\d+) on (\S+) meets at (\S+)", log.read_text())
    first = next(host for rank, host, _ in found if rank == "0")
    assert {(host in nodes.split(","), address) for _, host, address in found} == {(True, first)}, found


@pytest.mark.extended
@pytest.mark.parametrize("newer", [("trixie", "flat"), ("sid", "flat")], indirect=True, ids=" ".join)
def test_a_lost_answer_a_signal_a_limit_and_a_requeue(newer: User) -> None:
    experiment = {
        "framework": "pytorch",
        "pytorch": {"launch": "env"},
        "environment": {**shape(needs(cpu=1), 1), "restart": {}},
        "run": {"cmd": LIFE},
        "batch": {"site": "./newer.yaml", "walltime": "10m"},
    }
    said = "Socket timed out on send/recv operation"
    lost = with_command(newer, "sbatch", LOSES_THE_ANSWER.format(said=said))
    done = newer.hpcdist("submit", newer.write("life", experiment), env=lost)
    assert done.returncode == 0, done.stderr
    [found] = newer.json("status", "life-1")

    def hear(attempt: int) -> None:
        until(lambda: newer.log("life-1").count(f" in {attempt}") == 2, "both ranks to be up")
        newer.cluster.run(["scancel", "--signal", "USR1", found["job_id"]], user=newer.name, check=True)
        until(lambda: newer.log("life-1").count(f" in {attempt}") == 4, "both ranks to hear the signal")

    newer.await_log("life-1", "up")
    hear(0)
    administer(newer.cluster, "scontrol", "update", f"JobId={found['job_id']}", "EndTime=now")
    until(lambda: ("requeued", "143") in newer.events("life-1"), "the job to be in the queue again")
    administer(newer.cluster, "scontrol", "update", f"JobId={found['job_id']}", "TimeLimit=10")  # it is 1 now
    hear(1)
    (newer.directory / "over").touch()
    assert newer.hpcdist("wait", "life-1").returncode == 0
    assert [(what, value) for what, value in newer.events("life-1") if what in {"started", "requeued"}] == [
        ("started", "0"),
        ("requeued", "143"),
        ("started", "1"),
    ]
