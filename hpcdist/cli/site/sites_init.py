"""``hpcdist sites init``: a site file from what can be seen here."""

from __future__ import annotations

import datetime as dt
import getpass
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from socket import getfqdn
from typing import Final, NamedTuple

import click

from hpcdist.cli.experiment import new_file
from hpcdist.cli.site.site_text import Here, site_text
from hpcdist.cli.tell import note
from hpcdist.errors import ConfigError, Problem, SchedulerError, did_you_mean
from hpcdist.host import resources
from hpcdist.host.command import Runner
from hpcdist.loading import machine
from hpcdist.schedulers.surveyors import Answers, surveyors
from hpcdist.site.survey import Survey
from hpcdist.words import RUN_NAME, RUN_NAME_FORM

_NAMES_OF_MACHINES: Final = ("LMOD_SYSTEM_NAME", "NERSC_HOST", "SYSTEMNAME")
"""Variables by which centres name their machines: TACC and OLCF, NERSC, JSC."""


_NO_INTERFACES: Final = ("lo", "bonding_masters")


class LoginNode(NamedTuple):
    """The machine that is looked at; tests hand in one of their own."""

    runner: Runner
    now: Callable[[], float]
    host: Callable[[], str] = getfqdn
    user: Callable[[], str] = getpass.getuser
    environment: Mapping[str, str] = os.environ
    devices: Path = Path("/sys/class")


def init(
    name: str, scheduler: str | None, output: str | None, site_path: tuple[str, ...], node: LoginNode
) -> None:
    """Look around, and write the file.

    Raises:
        ConfigError: for a name that no site can have, without a batch system, or where the file exists.
        SchedulerError: where the batch system shows nothing of its machine.
    """
    if not RUN_NAME.fullmatch(name):
        raise ConfigError(Problem(f"{name!r} cannot be the name of a site", hint=RUN_NAME_FORM))
    file = new_file.chosen(output or str(resources.site_folders(site_path)[0] / f"{name}.yaml"))
    survey = look(scheduler or machine.batch_system(node.environment) or _none(), node)
    if not (survey.kinds or survey.parts):
        raise SchedulerError(*_nothing(survey))
    text = site_text(name, survey, here(node))
    new_file.write(file, text)
    if file:
        click.echo(f"wrote {file}")
    for item in survey.unseen:
        note(f"not seen: {item.command}: {item.why}")
    for queue in survey.left_out if not survey.parts else ():
        note(f"left out: {queue.name}: {queue.why}")
    for warning in survey.warnings:
        note(warning)
    if file:
        _say_what_is_next(name, file, known=file.parent in resources.site_folders(site_path))


def look(scheduler: str, node: LoginNode) -> Survey:
    """Ask a batch system until nothing is left to ask.

    Raises:
        ConfigError: where nobody knows how to ask it.
    """
    if scheduler not in surveyors:
        message = f"nothing can be seen of scheduler {scheduler!r}"
        raise ConfigError(Problem(message, hint=did_you_mean(scheduler, surveyors.names())))
    surveyor, user = surveyors.get(scheduler), node.user()
    answers = Answers()
    while commands := surveyor.ask(user, answers):
        answers = Answers((*answers.completed, *map(node.runner.run, commands)))
    return surveyor.read(user, answers)


def _nothing(survey: Survey) -> Iterator[Problem]:
    """Yield why there is nothing to write."""
    yield from (Problem(f"not seen: {item.command}: {item.why}") for item in survey.unseen)
    message = f"{survey.title} shows neither nodes nor queues, so no file was written"
    hint = "try again where and when its commands answer; `hpcdist sites list` shows files to copy"
    yield Problem(message, hint=hint)


def here(node: LoginNode) -> Here:
    """Return what this machine shows by itself."""
    interfaces = tuple(name for name in _entries(node.devices / "net") if name not in _NO_INTERFACES)
    variables = ((name, node.environment.get(name, "")) for name in _NAMES_OF_MACHINES)
    return Here(
        host=node.host().rstrip(".").lower(),
        today=dt.datetime.fromtimestamp(node.now()).astimezone().date().isoformat(),
        variables=tuple((name, value) for name, value in variables if value),
        interfaces=interfaces,
        network=_network(node.devices, interfaces),
    )


def _network(devices: Path, interfaces: tuple[str, ...]) -> str | None:
    """Return what the devices look like: those of this host, which may not be those of the nodes.

    The names are those that the drivers give: cxi (Slingshot), efa, hfi1 (Omni-Path), mlx5 (InfiniBand or
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


def _none() -> str:
    message = "no batch system is set up here"
    raise ConfigError(Problem(message, hint=f"name one by --scheduler: {', '.join(surveyors.names())}"))


def _say_what_is_next(name: str, file: Path, *, known: bool) -> None:
    site = name if known else str(file)
    click.echo("read it, complete it, then:")
    click.echo(f"  hpcdist sites check {site}\n  hpcdist render EXP --site {site}")
