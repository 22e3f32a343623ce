"""Tasks land as planned under newer Slurms, of Debian's stable and unstable, whatever connects the nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.release import newest
from tests.slurm.test_shapes import SHAPES, all_land_as_planned, needs, shape
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long]

FOUR = shape(needs(cpu=8), 7)
"""Tasks on nodes of both switches."""
IN_BLOCKS = ("one-task", "two-cpu-tasks", "four-gpus-one-node", "two-on-each-of-four")
"""The plug-in for blocks gives no job two nodes of different blocks, only one, or both blocks."""


@pytest.fixture(scope="module", params=[])
def newer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster with the Slurm of a release, and with a topology."""
    release, topology = request.param
    release = newest() if release == "newest" else release
    with Cluster.boot(tmp_path_factory.mktemp("newer"), release=release, topology=topology) as cluster:
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
