"""Whatever the launcher, every task is where the plan says: launch lines are read as their manuals say."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist.errors import PlanError
from hpcdist.launchers import launchers
from hpcdist.placement import Crowd, by_node, place
from hpcdist.plan import Placement, Plan
from hpcdist.pool import Need
from hpcdist.site import LauncherOptions
from tests.launchers.maps import MODELS, launch_of, printf
from tests.schedulers import plans
from tests.test_placement import BIG, jobs

SCHEDULERS: Final = {"pals": "pbs", "flux": "flux", "processes": "local"}


def planned(name: str, placement: Placement) -> Plan:
    """Return a plan whose launch line is the launcher's own part."""
    launcher = launchers.get(name)
    plan = replace(
        plans.PLAN,
        placement=placement,
        launcher=name,
        scheduler=SCHEDULERS.get(name, "slurm"),
        hostfile_line=launcher.hostfile_line,
    )
    return replace(plan, launch=launcher.words(plan, LauncherOptions()))


def refused(name: str, placement: Placement) -> bool:
    """Whether the launcher cannot do it: that it cannot is documented, and nothing else is refused."""
    unlike = len(list(placement.tasks_per_node())) > 1
    return {
        "flux": unlike,
        "ibrun": unlike or not placement.is_even,
        "pals": unlike,
        "processes": placement.nodes > 1,
    }.get(name, False)


def test_every_launcher_that_starts_tasks_has_a_model() -> None:
    """jsrun has its own checker; horovodrun-elastic has no fixed tasks."""
    assert sorted(MODELS) == sorted(set(launchers.names()) - {"jsrun", "horovodrun-elastic"})


EIGHT: Final = place([Crowd("worker", 0, 8, Need(1, 4, 0), BIG, "exp.yml")])


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("pals", "--ppn 4", "--ppn 8"),
        ("srun", "--ntasks-per-node=4 ", "--distribution=cyclic "),
        ("flux", "--nodes=2", "--nodes=1"),
        ("flux", "--ntasks=8", "--ntasks=7"),
        ("ibrun", "-o 0", "-o 2"),
        ("mpirun", "-np 8", "-np 9"),
        ("mpirun", "--map-by slot", "--map-by node"),
        ("hydra", "-n 8", "-n 6"),
    ],
)
def test_a_wrong_line_is_noticed(name: str, right: str, wrong: str) -> None:
    plan = planned(name, EIGHT)
    expected = [(rank // 4, rank % 4) for rank in range(8)]
    launch = launch_of(plan, plans.SITE)
    assert MODELS[name](launch) == expected
    line = " ".join(launch.words)
    assert right in line
    try:
        found = MODELS[name](launch._replace(words=line.replace(right, wrong).split()))
    except AssertionError:
        return
    assert found != expected


@pytest.mark.parametrize("pattern", sorted({launchers.get(name).hostfile_line for name in MODELS}))
def test_a_line_of_the_host_file_is_what_bash_prints(pattern: str) -> None:
    done = subprocess.run(
        ["bash", "-c", 'printf "$1" node0 4', "bash", pattern], capture_output=True, text=True, check=True
    )
    assert done.stdout == printf(pattern, "node0", 4)


@pytest.mark.parametrize("name", sorted(MODELS))
@given(jobs(), st.booleans(), st.booleans())
def test_every_task_is_where_the_plan_says(
    name: str,
    crowds: Sequence[Crowd],
    spread: bool,  # noqa: FBT001 - drawn
    torchrun: bool,  # noqa: FBT001 - drawn
) -> None:
    placement = place(crowds, spread=spread)
    placement = by_node(placement) if torchrun else placement
    if refused(name, placement):
        with pytest.raises(PlanError):
            planned(name, placement)
        return
    plan = planned(name, placement)
    assert MODELS[name](launch_of(plan, plans.SITE)) == [
        (task.node, task.local_rank) for task in placement.tasks
    ]
