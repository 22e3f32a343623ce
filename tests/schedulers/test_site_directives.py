"""Directives that a site requires are in every job: an experiment may repeat them, and not change them."""

from __future__ import annotations

import pytest

from hpcdist.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Directive, Word
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Directives, Site
from tests.sites import shipped_site

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
def test_directives_that_variables_need_cannot_be_overridden(flag: str) -> None:
    asked = plan(site_directives=NETWORK, extra_directives=(f"{flag}=single_node_vni",))
    assert refusal(asked, site()) == (
        f"batch.directives: {flag}=single_node_vni conflicts with --network=disable_rdzv_get ({WHY}); "
        "remove it, or change that key in a site file of your own"
    )


def test_duplicate_site_directives_are_written_once() -> None:
    machine = demanding("slurm", "--network=disable_rdzv_get", "--hint=nomultithread")
    asked = plan(
        PLAIN, site_directives=NETWORK, extra_directives=("--hint nomultithread", "--netw=disable_rdzv_get")
    )
    assert added(asked, machine) == [("--network", "disable_rdzv_get"), ("--hint", "nomultithread")]


def test_contradictory_site_directives_are_refused() -> None:
    assert refusal(plan(site_directives=NETWORK), demanding("slurm", "--network=no_vni")) == (
        "site testbed requires both --network=no_vni (site testbed: directives.mandatory) and "
        f"--network=disable_rdzv_get ({WHY}); keep one of them in the site file"
    )


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
def test_directives_in_conflict_with_the_sites(scheduler: str, demanded: str, other: str, told: str) -> None:
    assert refusal(plan(PLAIN, extra_directives=(other,)), demanding(scheduler, demanded)) == (
        f"batch.directives: {told} conflicts with {demanded} (site testbed: directives.mandatory); "
        "remove it, or change that key in a site file of your own"
    )
