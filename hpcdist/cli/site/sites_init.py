"""``hpcdist sites init``: write a site file from a survey of this machine."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from socket import getfqdn
from typing import Final, NamedTuple

import click
import yaml

from hpcdist.base import ownership, resources
from hpcdist.base.command import Runner
from hpcdist.base.errors import ConfigError, Problem, SchedulerError, did_you_mean
from hpcdist.base.words import RUN_NAME, RUN_NAME_FORM
from hpcdist.cli.experiment import new_file
from hpcdist.cli.messages import note, one_line
from hpcdist.loading import machine
from hpcdist.schedulers.surveyors import SurveyAnswers, surveyors
from hpcdist.site.survey import Fact, NodeKind, PartitionInfo, Survey

# --- A survey as the text of a site file: known values, and comments on how to find the others

_WIDTH: Final = 118
_ORDER: Final = (
    "launcher", "launchers", "node_types", "partitions", "default_partition", "whole_nodes", "request_memory",
    "walltime", "gpus", "account",
)  # fmt: skip
_AMD: Final = re.compile(r"mi\d+\w*", re.IGNORECASE)


class HostFacts(NamedTuple):
    """Facts about this machine: ``host`` is its full name, ``network`` is guessed from its devices.

    ``variables`` are set by the centre and identify the machine; ``today`` is ``YYYY-MM-DD``.
    """

    host: str
    today: str
    variables: tuple[tuple[str, str], ...] = ()
    interfaces: tuple[str, ...] = ()
    network: str | None = None


def site_text(name: str, survey: Survey, host: HostFacts) -> str:
    """Return the text of the file, which is a valid site."""
    return "\n".join(_lines(name, survey, host)) + "\n"


def _lines(name: str, survey: Survey, host: HostFacts) -> Iterator[str]:
    yield from _comment(
        f"Written by `hpcdist sites init {name}` on {host.host}, {host.today}, from {survey.title}."
    )
    yield "# A line that begins with `#` and a key has an unknown value: correct the value and remove the #."
    yield from (
        line for item in survey.failures for line in _comment(f"Not available: `{item.command}`: {item.why}")
    )
    yield from (line for warning in survey.warnings for line in _comment(f"Warning: {warning}"))
    yield f"name: {_yaml(name)}"
    yield f"description: {_yaml(f'{survey.title}, as seen from {host.host}')}"
    yield "status: unverified"
    yield f"scheduler: {survey.scheduler}"
    yield from _sections(survey)
    yield from _unknown(
        "see the centre's documentation for the modules that jobs load and for variables such as NCCL's",
        "modules: []",
        "setup: []",
    )
    yield from _fabric(host)
    yield from _detect(host)
    yield from _sources(survey, host)


def _sections(survey: Survey) -> Iterator[str]:
    facts = {fact.key: fact for fact in survey.facts}
    for key in (*_ORDER, *(key for key in facts if key not in _ORDER)):
        if key == "node_types":
            yield from _node_types(survey)
        elif key == "partitions":
            yield from _partitions(survey)
        elif key in facts:
            yield from _fact(facts[key], {item.command for item in survey.failures})


def _fact(fact: Fact, failures: Collection[str]) -> Iterator[str]:
    command = f"`{fact.source}`" if fact.source else ""
    remarks = (
        [f"{command}: {fact.remarks[0]}", *fact.remarks[1:]] if command and fact.remarks else [*fact.remarks]
    )
    if fact.source in failures:
        remarks = [f"{command} gave no answer", *fact.remarks]
    if fact.value is None and command and not remarks:
        remarks = [f"{command} does not report it"]
    yield from (line for remark in remarks for line in _comment(remark))
    yield f"# {fact.key}: {fact.example}" if fact.value is None else f"{fact.key}: {_yaml(fact.value)}"


def _node_types(survey: Survey) -> Iterator[str]:
    if not survey.kinds:
        yield from _unknown(
            "no nodes were reported: each replica gets its own node",
            "node_types: {NAME: {cpus: 64, memory: 256G, gpus: 4}}",
        )
        return
    yield from _comment(f"`{survey.sources[0]}`: groups of equal nodes; memory in MiB")
    yield "node_types:"
    for kind in survey.kinds:
        features = f" # features: {one_line(', '.join(kind.features))}" if kind.features else ""
        yield f"  {_yaml(kind.name)}: {_yaml(_node_type(kind, survey.memory))}{features}"


def _node_type(kind: NodeKind, memory: str) -> dict[str, object]:
    known = {
        "cpus": kind.cpus,
        memory: kind.memory,
        "gpus": kind.gpus,
        "gpu_type": kind.gpu_type,
        "library": "rccl" if _AMD.fullmatch(kind.gpu_type or "") else None,
        "constraint": kind.constraint,
    }
    return {key: value for key, value in known.items() if value is not None}


def _partitions(survey: Survey) -> Iterator[str]:
    if not survey.partitions:
        yield from _unknown("no partitions were reported", "partitions: {NAME: {nodes: {NODE_TYPE: NUMBER}}}")
        yield from _left_out(survey)
        return
    yield from _comment(f"`{survey.sources[1]}`")
    yield "partitions:"
    shares = any((fact.key, fact.value) == ("request_memory", "share") for fact in survey.facts)
    for part in survey.partitions:
        remarks = f" # {one_line('; '.join(part.remarks))}" if part.remarks else ""
        yield f"  {_yaml(part.name)}: {_yaml(_partition(part, shares=shares))}{remarks}"
    yield from _left_out(survey)


def _left_out(survey: Survey) -> Iterator[str]:
    yield from (line for item in survey.skipped for line in _comment(f"left out: {item.name}: {item.why}"))


def _partition(part: PartitionInfo, *, shares: bool) -> dict[str, object]:
    known: dict[str, object] = {"nodes": dict(part.nodes)}
    known |= {"max_nodes": part.max_nodes} if part.max_nodes is not None else {}
    known |= {"max_walltime": str(part.max_walltime)} if part.max_walltime else {}
    whole = {"whole_nodes": True} | ({"request_memory": True} if shares else {})
    return known | (whole if part.whole_nodes else {})


def _fabric(host: HostFacts) -> Iterator[str]:
    names = ", ".join(host.interfaces) or "none"
    seen = f"interfaces of {host.host}: {names}"
    yield from _unknown(
        f"{seen}; compute nodes may have others (`ip -br link` in a job)", f"fabric: {_yaml(_likely(host))}"
    )


def _likely(host: HostFacts) -> dict[str, str]:
    fast = [name for name in host.interfaces if name.startswith(("hsn", "ib"))]
    interface = (fast or [*host.interfaces] or ["ib0"])[0]
    return ({"network": host.network} if host.network else {}) | {"interface": interface}


def _detect(host: HostFacts) -> Iterator[str]:
    if host.variables:
        yield from _comment("set here; remove it if other machines set it to the same value")
        yield f"detect: {_yaml({'env': {key: re.escape(value) for key, value in host.variables}})}"
    elif "." in host.host:
        yield from _comment(f"the full name of this host, {host.host}, with any number in place of its own")
        yield f"detect: {_yaml({'fqdn': [_pattern(host.host)]})}"
    else:
        yield from _unknown(
            f"{host.host} is not a full host name, so it does not identify this machine (`hostname -f`)",
            r"detect: {fqdn: ['login\d+\.machine\.centre\.org']}",
        )


def _pattern(host: str) -> str:
    first, _, rest = host.partition(".")
    numbered = re.sub(r"\d+", r"\\d+", re.escape(first))
    return f"{numbered}\\.{re.escape(rest)}"


def _sources(survey: Survey, host: HostFacts) -> Iterator[str]:
    keys: dict[str, list[str]] = {}
    if survey.kinds:
        keys.setdefault(survey.sources[0], []).append("node_types")
    if survey.partitions:
        keys.setdefault(survey.sources[1], []).append("partitions")
    for fact in survey.facts:
        if fact.source and fact.value is not None:
            keys.setdefault(fact.source, []).append(fact.key)
    yield "sources:"
    own = [fact.key for fact in survey.facts if not fact.source and fact.value is not None]
    own += ["detect"] if host.variables or "." in host.host else []
    keys |= {"defaults of hpcdist sites init": own} if own else {}
    for command, of in keys.items():
        source = {"where": f"{command} on {host.host}", "read": host.today, "of": of} | (
            {"by": "third party"} if of is own else {}
        )
        yield f"  - {_yaml(source)}"


def _unknown(why: str, *examples: str) -> Iterator[str]:
    yield from _comment(why)
    yield from (f"# {example}" for example in examples)


def _comment(text: str) -> Iterable[str]:
    """Break a text into comment lines, none of which can end the comment."""
    line = "#"
    for word in one_line(text).split():
        if len(line) + len(word) + 1 > _WIDTH and line != "#":
            yield line
            line = "#  "
        line += f" {word}"
    yield line


def _yaml(value: object) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(
        value if not isinstance(value, Mapping) else dict(value),
        default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=False,
    )  # fmt: skip
    return text.removesuffix("...\n").strip()


# --- ``hpcdist sites init``

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
    answers = SurveyAnswers()
    while commands := surveyor.ask(user, answers):
        answers = SurveyAnswers((*answers.completed, *map(node.runner.run, commands)))
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
