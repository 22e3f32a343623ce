"""Directives that a site requires are in every job: an experiment may repeat them, and not change them."""

from __future__ import annotations

import msgspec
import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Directive, Origin, Word
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.sge import SGE
from hpcdist.site.model import Directives, Site
from hpcdist.site.settings import Sge
from tests.sites import shipped_site
from tests.wording import Wording

from .plans import group, plan, site

WHY = Origin("site", "frontier", "fabric.together.0", "alt_read needs the driver's get protocol off")
NETWORK = (Word(text="--network=disable_rdzv_get", origin=WHY),)


PLAIN = group(memory=None, gpus=0, gpus_per_task=0)


def added(asked: Plan, machine: Site) -> list[tuple[str, str | None]]:
    """Return the flags that stand behind those that every such job has."""
    return [
        (line.flag, line.value) for line in _lines(asked, machine)[len(_lines(plan(PLAIN), _bare(machine))) :]
    ]


def _lines(asked: Plan, machine: Site) -> tuple[Directive, ...]:
    return schedulers.get(machine.scheduler).directives(asked, machine)


def _bare(machine: Site) -> Site:
    return site(scheduler=machine.scheduler, lsf=machine.lsf, sge=machine.sge)


def demanding(scheduler: str, *texts: str) -> Site:
    return site(scheduler=scheduler, directives=Directives(mandatory=texts), sge=shipped_site("sge").sge)


def refusal(asked: Plan, machine: Site) -> str:
    with pytest.raises(PlanError) as error:
        _lines(asked, machine)
    return str(error.value)


@pytest.mark.parametrize("flag", ["--network", "--netw"])
def test_directives_that_variables_need_cannot_be_overridden(flag: str, wording: Wording) -> None:
    asked = plan(site_directives=NETWORK, extra_directives=(f"{flag}=single_node_vni",))
    wording(refusal(asked, site()))


def test_duplicate_site_directives_are_written_once() -> None:
    machine = demanding("slurm", "--network=disable_rdzv_get", "--hint=nomultithread")
    asked = plan(
        PLAIN, site_directives=NETWORK, extra_directives=("--hint nomultithread", "--netw=disable_rdzv_get")
    )
    assert added(asked, machine) == [("--network", "disable_rdzv_get"), ("--hint", "nomultithread")]


def test_contradictory_site_directives_are_refused(wording: Wording) -> None:
    wording(refusal(plan(site_directives=NETWORK), demanding("slurm", "--network=no_vni")))


def test_every_part_of_a_heterogeneous_job_has_it_once() -> None:
    asked = plan(
        group(),
        group(node=2, rank=8),
        site_directives=NETWORK,
        extra_directives=("--network=disable_rdzv_get",),
    )
    found = [line.group for line in _lines(asked, site()) if line.flag == "--network"]
    assert found == [0, 1]


@pytest.mark.parametrize(
    ("scheduler", "demanded", "beside"),
    [
        ("pbs", ["-l filesystems=home"], ["-l software=1", "-p 10"]),
        ("pbs", ["-W group_list=a"], ["-W run_count=1"]),
        ("lsf", ["-f 'a > b'"], ["-f 'c > d'"]),
        ("lsf", ["-f 'a > b'", "-f 'c > d'"], ["-sla gold"]),
        ("flux", ["--setattr=rdzv_get_en=0"], ["--setattr=other=1", "-S third=2"]),
        ("flux", ["--setopt=mpibind=off", "--setopt=a=1"], ["-o b=2"]),
        ("sge", ["-l a=1"], ["-l b=1", "-R y"]),
    ],
)
def test_directives_compatible_with_the_sites(scheduler: str, demanded: list[str], beside: list[str]) -> None:
    found = added(plan(PLAIN, extra_directives=tuple(beside)), demanding(scheduler, *demanded))
    assert len(found) == len(demanded) + len(beside)


@pytest.mark.parametrize(
    ("scheduler", "demanded", "other", "told"),
    [
        ("pbs", "-l filesystems=home", "-l filesystems=eagle", "-l filesystems=eagle"),
        ("lsf", "-sla gold", "-sla iron", "-sla iron"),
        ("flux", "--setattr=rdzv_get_en=0", "-S rdzv_get_en=1", "-S rdzv_get_en=1"),
        ("sge", "-l a=1", "-l b=1,a=2", "-l a=2"),
    ],
)
def test_directives_in_place_of_the_sites(scheduler: str, demanded: str, other: str, told: str) -> None:
    """What a site wants of every job is its users' to change, and no other line of theirs is lost."""
    found = _lines(plan(PLAIN, extra_directives=(other,)), demanding(scheduler, demanded))
    [line] = [line for line in found if line.origin.notes]
    assert line.origin.notes == (f"instead of {demanded} of the site",)
    assert told.endswith(str(line.value))
    assert demanded not in [f"{one.flag}={one.value}" for one in found]


def test_resource_without_a_value_is_refused(wording: Wording) -> None:
    asked = plan(PLAIN, extra_directives=("-l filesystems=",))
    wording(refusal(asked, demanding("pbs", "-l filesystems=home")))


def test_option_of_a_plug_in_may_have_an_underscore() -> None:
    machine = site(directives=Directives(known=("--gpu_cmode",)))
    asked = plan(PLAIN, extra_directives=("--gpu_cmode=shared",))
    assert added(asked, machine) == [("--gpu_cmode", "shared")]


SIZED = group(memory=None, even=True)
BY_TYPE = "-l {node_type}={nodes}"


@pytest.mark.parametrize(
    ("scheduler", "text", "added", "removed"),
    [
        ("sge", BY_TYPE, [("-l a100", "2")], ["-l gpu", "-pe"]),
        (
            "slurm",
            "--rsc=p={tasks}:t={cpus_per_task}:g={gpus}",
            [("--rsc", "p=8:t=8:g=4")],
            ["--cpus-per-task", "--gres", "--nodes", "--ntasks-per-node"],
        ),
        ("pbs", "-l select={nodes}", [("-l select", "2")], ["-l place", "-l select"]),
        ("lsf", "-n {tasks}", [("-n", "8")], ["-R", "-gpu", "-n"]),
        (
            "flux",
            "--nodes={nodes}",
            [],
            ["--cores-per-slot", "--gpus-per-slot", "--nslots"],
        ),
    ],
)
def test_nodes_are_requested_in_the_sites_own_way(
    scheduler: str, text: str, added: list[tuple[str, str]], removed: list[str]
) -> None:
    machine = site(scheduler=scheduler, sge=Sge(environments={"32": "a"}, gpu_fractions=True))
    own = msgspec.structs.replace(machine, directives=Directives(size=(text,), known=("--rsc",)))
    usual, found = ({(line.flag, line.value) for line in _lines(plan(SIZED), one)} for one in (machine, own))
    assert (sorted(found - usual), sorted(flag for flag, _ in usual - found)) == (added, removed)
    assert [str(line.origin) for line in _lines(plan(SIZED), own)][-1] == "site testbed: directives.size"


def test_job_that_the_sites_own_way_cannot_request_is_refused(wording: Wording) -> None:
    machine = site(directives=Directives(size=("--rsc=m={memory}M",), known=("--rsc",)))
    wording(refusal(plan(SIZED, SIZED), machine))


def test_unknown_name_in_a_sites_own_way_is_a_problem(wording: Wording) -> None:
    machine = site(scheduler="sge", directives=Directives(size=(BY_TYPE, "-l {type}={nodes}")))
    wording(map(str, SGE.directive_problems(machine)))
