"""``hpcdist sites init``: write a site file from a survey of this machine."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from socket import getfqdn
from typing import Final, NamedTuple

import click

from hpcdist.cli.experiment import new_file
from hpcdist.cli.messages import note
from hpcdist.cli.site.site_text import HostFacts, site_text
from hpcdist.errors import ConfigError, Problem, SchedulerError, did_you_mean
from hpcdist.host import ownership, resources
from hpcdist.host.command import Runner
from hpcdist.loading import machine
from hpcdist.schedulers.surveyors import Answers, surveyors
from hpcdist.site.survey import Survey
from hpcdist.words import RUN_NAME, RUN_NAME_FORM

_MACHINE_VARIABLES: Final = ("LMOD_SYSTEM_NAME", "NERSC_HOST", "SYSTEMNAME")
"""Variables in which centres name their machines: TACC and OLCF, NERSC, JSC."""


_NOT_INTERFACES: Final = ("lo", "bonding_masters")


class LoginNode(NamedTuple):
    """Access to the surveyed machine; tests pass their own."""

    runner: Runner
    now: Callable[[], float]
    host: Callable[[], str] = getfqdn
    user: Callable[[], str] = ownership.own_name
    environment: Mapping[str, str] = os.environ
    devices: Path = Path("/sys/class")


def init(
    name: str, scheduler: str | None, output: str | None, site_path: tuple[str, ...], node: LoginNode
) -> None:
    """Survey the machine and write the file.

    Raises:
        ConfigError: if the name is invalid, there is no batch system, or the file exists.
        SchedulerError: if the batch system reports neither nodes nor queues.
    """
    if not RUN_NAME.fullmatch(name):
        raise ConfigError(Problem(f"{name!r} is not a valid site name", hint=RUN_NAME_FORM))
    file = new_file.chosen(output or str(resources.site_folders(site_path)[0] / f"{name}.yaml"))
    survey = run_survey(scheduler or machine.batch_system(node.environment) or _no_batch_system(), node)
    if not (survey.kinds or survey.partitions):
        raise SchedulerError(*_nothing(survey))
    text = site_text(name, survey, host_facts(node))
    new_file.write(file, text)
    if file:
        click.echo(f"wrote {file}")
    for item in survey.failures:
        note(f"not available: {item.command}: {item.why}")
    for queue in survey.skipped if not survey.partitions else ():
        note(f"left out: {queue.name}: {queue.why}")
    for warning in survey.warnings:
        note(warning)
    if file:
        _print_next_steps(name, file, known=file.parent in resources.site_folders(site_path))


def run_survey(scheduler: str, node: LoginNode) -> Survey:
    """Query a batch system until its surveyor has no further commands.

    Raises:
        ConfigError: if there is no surveyor for it.
    """
    if scheduler not in surveyors:
        message = f"scheduler {scheduler!r} cannot be surveyed"
        raise ConfigError(Problem(message, hint=did_you_mean(scheduler, surveyors.names())))
    surveyor, user = surveyors.get(scheduler), node.user()
    answers = Answers()
    while commands := surveyor.ask(user, answers):
        answers = Answers((*answers.completed, *map(node.runner.run, commands)))
    return surveyor.read(user, answers)


def _nothing(survey: Survey) -> Iterator[Problem]:
    """Yield why no file is written."""
    yield from (Problem(f"not available: {item.command}: {item.why}") for item in survey.failures)
    message = f"{survey.title} reports neither nodes nor queues, so no file was written"
    hint = "run it again where its commands work, or copy a site of `hpcdist sites list`"
    yield Problem(message, hint=hint)


def host_facts(node: LoginNode) -> HostFacts:
    """Return the facts about this machine that need no batch system."""
    interfaces = tuple(name for name in _entries(node.devices / "net") if name not in _NOT_INTERFACES)
    variables = ((name, node.environment.get(name, "")) for name in _MACHINE_VARIABLES)
    return HostFacts(
        host=node.host().rstrip(".").lower(),
        today=dt.datetime.fromtimestamp(node.now()).astimezone().date().isoformat(),
        variables=tuple((name, value) for name, value in variables if value),
        interfaces=interfaces,
        network=_network(node.devices, interfaces),
    )


def _network(devices: Path, interfaces: tuple[str, ...]) -> str | None:
    """Return the kind of network by the devices of this host, which compute nodes may not share.

    The device names are those of the drivers: cxi (Slingshot), efa, hfi1 (Omni-Path), mlx5 (InfiniBand or
    RoCE, as its port's ``link_layer`` says).
    """
    cards = _entries(devices / "infiniband")
    if _entries(devices / "cxi") or any(name.startswith("hsn") for name in interfaces):
        return "slingshot"
    for prefix, network in (("efa", "efa"), ("hfi1", "omni-path")):
        if any(card.startswith(prefix) for card in cards):
            return network
    layers = [_first_line(devices / "infiniband" / card / "ports" / "1" / "link_layer") for card in cards]
    return "infiniband" if "InfiniBand" in layers else "roce" if "Ethernet" in layers else None


def _entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def _first_line(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _no_batch_system() -> str:
    message = "no batch system was detected on this machine"
    raise ConfigError(Problem(message, hint=f"choose one with --scheduler: {', '.join(surveyors.names())}"))


def _print_next_steps(name: str, file: Path, *, known: bool) -> None:
    site = name if known else str(file)
    click.echo("check and complete it, then run:")
    click.echo(f"  hpcdist sites check {site}\n  hpcdist render EXP --site {site}")
