"""The commands that start programs inside running jobs; those of LSF and Flux are by their manuals alone."""

from __future__ import annotations

import pytest

from hpcdist.errors import SchedulerError
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.inside import Nodes, StartsInside

TWO = Nodes("12", ("n1", "n4"), (0, 3))
OPTIONS = (
    "--quiet",
    "--overlap",
    "--nodes=2",
    "--ntasks=2",
    "--ntasks-per-node=1",
    "--nodelist=n1,n4",
    "--mem=0",
)
STEP = [*OPTIONS, "uname", "-n"]


def argv(name: str, nodes: Nodes, *, terminal: bool = False) -> list[tuple[str, ...]]:
    scheduler = schedulers.get(name)
    assert isinstance(scheduler, StartsInside)
    return [command.argv for command in scheduler.inside(nodes, ("uname", "-n"), terminal=terminal)]


def test_slurm_starts_one_step_on_all_nodes() -> None:
    assert argv("slurm", TWO) == [("srun", "--jobid=12", *STEP)]


def test_a_step_of_an_element_asks_for_its_own_number() -> None:
    ((bash, flag, text, name, element, *words),) = argv("slurm", TWO._replace(job="12_3"))
    assert (bash, flag, name, element, words) == ("bash", "-c", "hpcdist", "12_3", STEP)
    assert 'squeue -h -j "$1" -o %A' in text


def test_a_step_of_a_component_names_its_place_in_the_job() -> None:
    assert argv("slurm", TWO._replace(job="12+1")) == [("srun", "--jobid=12", "--het-group=1", *STEP)]


@pytest.mark.parametrize(
    ("name", "terminal", "expected"),
    [
        ("slurm", True, ("srun", "--jobid=12", *OPTIONS, "--pty", "uname", "-n")),
        ("lsf", True, ("lsrun", "-P", "-m", "n1", "uname", "-n")),
        ("lsf", False, ("lsrun", "-m", "n1", "uname", "-n")),
        ("flux", False, ("flux", "proxy", "12", "flux", "exec", "--quiet", "--rank=0,3", "uname", "-n")),
        ("local", False, ("uname", "-n")),
    ],
)
def test_the_first_command(name: str, terminal: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001
    assert argv(name, TWO, terminal=terminal)[0] == expected


@pytest.mark.parametrize(("name", "title"), [("pbs", "PBS"), ("sge", "Grid Engine")])
def test_a_batch_system_without_a_way_in_is_named(name: str, title: str) -> None:
    with pytest.raises(
        SchedulerError, match=f"{title} starts nothing in a running job from outside it.*ssh n1"
    ):
        argv(name, TWO)
