"""What the directives of all batch systems have in common.

A site requires some and forbids others, and an experiment adds its own; what hpcdist writes itself is set by
a field of the experiment, never by a directive.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import Path, PlanError, Problem, did_you_mean, unknown
from hpcdist.plan.model import JobSpec, Plan, PreparedJob
from hpcdist.plan.values import Directive, Origin
from hpcdist.site.model import Site

# --- The header of a script: its output files and requests, quoted as its scheduler reads them

_RUN_DIRECTORY = Origin("rule", "run directory")


def double_quoted(text: str) -> str:
    r"""Return the text in double quotes, where ``\`` and ``"`` need a ``\``."""
    inner = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{inner}"'


class HeaderSyntax(NamedTuple):
    """How one scheduler's lines are written."""

    prefix: str
    """What makes a line a directive."""
    plain: re.Pattern[str]
    """A value that needs no quotes."""
    output: str
    """The flag for the job's output."""
    in_run_dir: tuple[str, str]
    """The output file in the run directory, of a job and of an element of an array."""
    without_run_dir: tuple[str, str] | None
    """The same without a run directory, behind the job's name; None to leave it to the scheduler."""
    quote: Callable[[str], str | None] = double_quoted
    """Puts any other value in quotes; None if quotes cannot hold it."""
    cannot_hold: str = ""
    """Text that quotes cannot hold."""
    verbatim: frozenset[str] = frozenset()
    """Flags that take several words, without quotes."""
    first: tuple[tuple[str, Origin], ...] = ()
    """Lines of every job."""
    directory: Callable[[str], str] = str
    """Writes the path of the run directory for the flag ``output``."""
    is_array: Callable[[Plan], bool] = lambda plan: plan.request.array is not None
    """Whether the scheduler makes an array of the job."""
    component: str = ""
    """The line between the components of a heterogeneous job."""


def header(syntax: HeaderSyntax, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
    """Yield each line with its origin.

    Raises:
        PlanError: for a value, or a path of the run directory, that no directive can hold.
    """
    yield from ((f"{syntax.prefix}{text}", origin) for text, origin in syntax.first)
    path = _output(syntax, plan, run_dir)
    output = Directive(flag=syntax.output, value=path, origin=_RUN_DIRECTORY)
    component = 0
    for directive in (output, *plan.directives) if path else plan.directives:
        if directive.group != component:
            component = directive.group
            yield (
                f"{syntax.prefix}{syntax.component}",
                Origin("rule", "different nodes are components of their own"),
            )
        yield f"{syntax.prefix}{directive_text(syntax, directive)}", directive.origin


def _output(syntax: HeaderSyntax, plan: Plan, run_dir: str | None) -> str | None:
    """Return where the output goes."""
    kind = 1 if syntax.is_array(plan) else 0
    if not run_dir:
        return f"{plan.identity.name}{syntax.without_run_dir[kind]}" if syntax.without_run_dir else None
    number, name = plan.identity.number, syntax.in_run_dir[kind]
    if plan.sweep and plan.sweep.pack:
        name = name.replace("job-", "node-", 1)  # job-17.out belongs to a trial
    own = name if number == 1 else name.replace("logs/", f"logs/{number}-", 1)
    return f"{syntax.directory(run_dir)}/{own}"


def directive_text(syntax: HeaderSyntax, directive: Directive) -> str:
    """Return the text behind the prefix: ``-q x``, ``-l walltime=01:00:00``, ``--nodes=2``.

    Raises:
        PlanError: for a value that no directive can hold.
    """
    if directive.value is None:
        return directive.flag
    flag, _, name = directive.flag.partition(" ")
    text = f"{name}={directive.value}" if name else directive.value
    if not text.isprintable():
        raise _unfit(directive, "a line break or a control character")
    written = text if syntax.plain.fullmatch(text) or flag in syntax.verbatim else syntax.quote(text)
    if written is None:
        raise _unfit(directive, syntax.cannot_hold)
    return f"{flag}{'=' if flag.startswith('--') else ' '}{written}"


def _unfit(directive: Directive, what: str) -> PlanError:
    return PlanError(
        Problem(f"{directive.flag} cannot hold {what}: {directive.value!r} ({directive.origin})")
    )


# --- Excluded nodes, and constraints that name nodes already

_NODES: Final = re.compile(r"\b(?:h|host|hname|hostname)\s*(?:[=!]?=|:)")


def names_nodes(constraint: str | None) -> bool:
    """Return whether a constraint names nodes, in the words of Grid Engine, LSF or Flux."""
    return bool(_NODES.search(constraint or ""))


# --- A site's own way to request nodes (`directives.size`), for all batch systems: its lines, with numbers
#
# Sources of such ways: ``-l node_f=2`` (TSUBAME4), ``--rsc p=4:t=8:c=8`` (Kyoto's camphor).

_KEY: Final = "directives.size"
_NAME: Final = re.compile(r"\{(\w+)\}")
_NAMES: Final[Mapping[str, str]] = {
    "nodes": "nodes",
    "node_type": "node_type",
    "partition": "site_partition",
    "tasks": "tasks",
    "tasks_per_node": "tasks_per_node",
    "cpus_per_task": "cpus_per_task",
    "cpus": "cpus",
    "gpus": "gpus",
    "memory": "memory",
}
"""What is replaced in a line, and the field of the group of nodes."""


def size_lines(job: JobSpec, site: Site) -> Iterator[tuple[str, Origin]]:
    """Yield the lines that request the nodes of such a job, with their origin."""
    values = _values(job)
    for text in site.directives.size:
        yield _NAME.sub(lambda name: str(values[name[1]]), text), Origin("site", site.name, _KEY)


def _values(job: JobSpec) -> Mapping[str, object]:
    group = job.placement.groups[0]
    found = {name: getattr(group, field) for name, field in _NAMES.items()}
    return found | {"nodes": group.nodes}


def size_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield why these lines cannot request the nodes of such a job."""
    if site.directives.size and len(job.placement.groups) > 1:
        message = f"site {site.name} requests nodes of one kind for a job (`{_KEY}`), and these need others"
        yield Problem(message, ("environment", "replicas"), "give all replicas the same resources")
    missing = {
        name for text in site.directives.size for name in _NAME.findall(text) if _values(job)[name] is None
    }
    for name in sorted(missing):
        message = f"site {site.name} requests nodes by their {name} (`{_KEY}`), which is not known here"
        path = ("environment", "resources", "memory") if name == "memory" else ("batch", "partition")
        yield Problem(message, path, "set it")


def unknown_names(site: Site) -> Iterator[Problem]:
    """Yield the unknown placeholders in a site file."""
    for index, text in enumerate(site.directives.size):
        for name in _NAME.findall(text):
            if name not in _NAMES:
                yield unknown("name", name, _NAMES, ("directives", "size", index))


# --- What the directives of all batch systems have in common

Pair = tuple[str, str | None]
"""A flag and its value, None for a bare flag."""

Line = tuple[str, str | None, str | Origin]
"""A flag, its value (None for a bare flag) and its field of the plan, or its origin."""

_PATH = ("batch", "directives")
_MANDATORY: Final = "directives.mandatory"

_ALWAYS: Final = frozenset({"name", "environment.replicas", "environment.replicas.per_node", "batch.nodes"})
"""The fields of flags that every job has."""


class DirectiveSyntax(NamedTuple):
    """How one scheduler's directives are written, on one site."""

    scheduler: str
    form: str
    """How to write a directive, for a message."""
    read: Callable[[str], Sequence[Pair]]
    """Splits a text into pairs; none if it is no directive."""
    fields: Mapping[str, str]
    """The flags that hpcdist writes itself, and the field to use instead."""
    reserved: Mapping[str, str]
    """Other flags that only hpcdist may set, and why."""
    free: frozenset[str] = frozenset()
    """The flags of ``fields`` that are allowed where hpcdist writes none."""
    repeats: Mapping[str, str] = {}
    """Flags that may be repeated for several names (``--setopt=NAME=X``), and their long forms."""
    abbreviates: bool = False
    """Whether the scheduler accepts abbreviated flags."""
    others: frozenset[str] | None = None
    """All other flags; None if they are unknown."""
    without_effect: Mapping[str, str] = {}
    """The flags that have no effect on this site, and why."""
    sentinel: re.Pattern[str] | None = None
    """How a directive in any line of the script begins; None if only the header is read."""
    value_problems: Callable[[DirectiveSyntax, Sequence[Directive]], Iterable[Problem]] = lambda *_: ()
    """Finds the values that the scheduler refuses."""

    def path(self, flag: str) -> tuple[str, ...]:
        """Return the field of the experiment for this flag."""
        return tuple(self.fields[flag].split(".")) if flag in self.fields else _PATH


def options(short: Mapping[str, str]) -> Callable[[str], Sequence[Pair]]:
    """Return a parser of ``--flag=value``, ``--flag``, ``-f value``; ``short``: the long forms of ``-f``."""

    def read(text: str) -> Sequence[Pair]:
        try:
            first, *rest = shlex.split(text)  # removes quotes, as sbatch and flux batch do
        except ValueError:
            return ()
        flag, equals, value = first.partition("=")
        known = re.fullmatch(r"--[a-z][a-z0-9_-]+|-[A-Za-z]", flag)
        if not known or len(rest) > (0 if equals else 1):
            return ()
        return ((short.get(flag, flag), value if equals else next(iter(rest), None)),)

    return read


def own_directives(
    job: JobSpec, lines: Iterable[Line], number: int = 0, defaults: Mapping[str, Origin] = {}
) -> list[Directive]:
    """Return the lines of a group of nodes with their origins: the field's, else the group's."""
    usual = job.placement.groups[number].origin
    return [
        Directive(
            flag=flag,
            value=value,
            origin=field
            if isinstance(field, Origin)
            else job.origins.get(field) or defaults.get(field, usual),
            group=number,
        )
        for flag, value, field in lines
    ]


def added_directives(
    syntax: DirectiveSyntax, job: JobSpec, site: Site, own: Sequence[Directive], problems: Sequence[Problem]
) -> tuple[Directive, ...]:
    """Return what the site requires and what the experiment adds to hpcdist's own lines.

    They may repeat the flag of an own line if it may be repeated and hpcdist does not reserve it.

    Raises:
        PlanError: with these problems and those of the lines.
    """
    found = list(problems)
    once = [line for line in own if line.flag in syntax.fields or line.flag not in syntax.repeats]
    added = tuple(_further(syntax, job, site, once, found))
    found += _forbidden(syntax, [*own, *added], site)
    found += syntax.value_problems(syntax, [*own, *added])
    if found:
        raise PlanError(*found)
    return added


def _further(
    syntax: DirectiveSyntax, job: JobSpec, site: Site, own: Sequence[Directive], problems: list[Problem]
) -> Iterator[Directive]:
    """Yield what the site requires and what the experiment adds; collect problems in ``problems``.

    The experiment's value replaces one of ``directives.mandatory``, but not one of settings that are
    correct only together.
    """
    if wrong := [*size_problems(job, site)]:
        problems += wrong
        return
    values = {line.flag: line.value for line in own}
    required: dict[str, Directive] = {}
    for text, origin in site_directives(job, site):
        for line in _read(syntax, text, origin, problems):
            other = required.get(_key(syntax, line))
            if problem := _unknown(syntax, line, site) or _contradictory(
                syntax, text, line, values, other, site
            ):
                problems.append(problem)
            elif line.flag not in values and other is None:
                required[_key(syntax, line)] = line
    yield from _with_own(syntax, job, site, values, required, problems)


def _with_own(  # noqa: PLR0913, PLR0917 - what a line may contradict
    syntax: DirectiveSyntax,
    job: JobSpec,
    site: Site,
    values: Mapping[str, str | None],
    required: dict[str, Directive],
    problems: list[Problem],
) -> Iterator[Directive]:
    """Yield the site's directives with the experiment's values, then those that it adds."""
    added: list[Directive] = []
    origin = job.origins.get("directives", Origin("key", "batch.directives"))
    found = (line for text in job.request.extra_directives for line in _read(syntax, text, origin, problems))
    for line in found:
        other = _required_by_site(syntax, line, required)
        if line.flag.startswith("-l ") and line.value == "":
            problems.append(Problem(f"{line.flag}= has no value", _PATH, "write it, or remove this"))
        elif problem := _reserved(syntax, line.flag, values) or _unknown(syntax, line, site):
            problems.append(problem)
        elif other is None:
            added.append(line)
        elif other.value != line.value and other.origin.key == _MANDATORY:
            instead = line.origin.with_note(f"instead of {_written(other.flag, other.value)} of the site")
            required[_key(syntax, other)] = replace(other, value=line.value, origin=instead)
        elif other.value != line.value:
            problems.append(_conflicting(line, other))
    yield from (*required.values(), *added)


def site_directives(job: JobSpec, site: Site) -> Iterator[tuple[str, Origin]]:
    """Yield each directive that the site requires of this job, with its origin."""
    yield from size_lines(job, site)
    yield from ((text, Origin("site", site.name, _MANDATORY)) for text in site.directives.mandatory)
    yield from ((word.text, word.origin) for word in job.request.site_directives)


def _key(syntax: DirectiveSyntax, line: Directive) -> str:
    """Return the part that must be unique: the flag, or the name in ``--setopt=NAME=X``."""
    if line.flag not in syntax.repeats:
        return line.flag
    return f"{syntax.repeats[line.flag]} {(line.value or '').partition('=')[0]}"


def _required_by_site(
    syntax: DirectiveSyntax, line: Directive, required: Mapping[str, Directive]
) -> Directive | None:
    """Return the site's directive with the same flag, which may be abbreviated in the line."""
    whole = {*syntax.fields, *syntax.reserved, *(syntax.others or ())}
    if line.flag not in whole and _key(syntax, line) not in required:
        return next((other for other in required.values() if _is_short(syntax, line.flag, other.flag)), None)
    return required.get(_key(syntax, line))


def site_directive_problems(syntax: DirectiveSyntax, site: Site) -> Iterator[Problem]:
    """Yield the problems of the directives in a site file that no job can satisfy, each at its place."""
    texts: list[tuple[Path, str]] = [
        (("directives", "mandatory", index), text) for index, text in enumerate(site.directives.mandatory)
    ]
    for number, group in enumerate(site.fabric.together):
        place = ("fabric", "together", number, "directives")
        texts += [((*place, index), text) for index, text in enumerate(group.directives)]
    yield from unknown_names(site)
    texts += [(("directives", "size", index), text) for index, text in enumerate(site.directives.size)]
    for path, text in texts:
        found: list[Problem] = []
        for line in _read(syntax, text, Origin("site", site.name), found):
            problem = _unknown(syntax, line, site) or (path[1] != "size" and _always_set(syntax, line.flag))
            found += [problem] if problem else []
        yield from (problem._replace(path=path) for problem in found)


def _always_set(syntax: DirectiveSyntax, flag: str) -> Problem | None:
    """Return a problem for a flag that every job sets; a site may require others (``--mem=0``)."""
    if flag in syntax.reserved:
        return Problem(f"{flag} is set by hpcdist", hint=syntax.reserved[flag])
    if syntax.fields.get(flag) in _ALWAYS:
        return Problem(
            f"{flag} is set by hpcdist", hint=f"remove it: an experiment sets it by `{syntax.fields[flag]}`"
        )
    return None


def _contradictory(  # noqa: PLR0913, PLR0917 - both that it may be held against
    syntax: DirectiveSyntax,
    text: str,
    line: Directive,
    own: Mapping[str, str | None],
    other: Directive | None,
    site: Site,
) -> Problem | None:
    """Return a problem for a line of the site that contradicts the plan, or an earlier line of the site."""
    if line.flag in own and own[line.flag] != line.value:
        written = _written(line.flag, own[line.flag])
        message = f"site {site.name} requires {text}, but the plan has {written}"
        return Problem(message, syntax.path(line.flag))
    if other is not None and other.value != line.value:
        written = _written(other.flag, other.value)
        message = f"site {site.name} requires both {written} ({other.origin}) and {text} ({line.origin})"
        return Problem(message, (), "keep one of them in the site file")
    return None


def _conflicting(line: Directive, other: Directive) -> Problem:
    """Return a problem for a line that conflicts with the site's: a scheduler applies only one."""
    own, theirs = _written(line.flag, line.value), _written(other.flag, other.value)
    message = f"{own} conflicts with {theirs} ({other.origin})"
    return Problem(message, _PATH, "remove it, or change that key in a site file of your own")


def _forbidden(syntax: DirectiveSyntax, lines: Sequence[Directive], site: Site) -> Iterator[Problem]:
    """Yield a problem for each flag that the site forbids."""
    for flag in sorted({line.flag for line in lines} & set(site.directives.forbidden)):
        origin = next(line.origin for line in lines if line.flag == flag)
        yield Problem(f"site {site.name} refuses {flag} ({origin})", syntax.path(flag))


def embedded_directives(syntax: DirectiveSyntax, job: PreparedJob) -> Iterator[Problem]:
    """Yield each text of the user or of the site in which the scheduler would find a directive."""
    texts: list[tuple[Path, str, str]] = [(("run", "cmd"), "the command", job.identity.command)]
    # The first line of a value stands behind the name of its variable.
    texts += [
        (("environment", "env_vars", item.name), item.name, item.value.partition("\n")[2])
        for item in job.environment.variables
    ]
    texts += [((), str(step.origin), step.command) for step in job.steps]
    texts += [((), str(word.origin), word.text) for word in job.environment.setup]
    for path, name, text in texts:
        found = next((line for line in text.splitlines() if _is_directive(syntax, line)), None)
        if found is not None:
            message = f"{syntax.scheduler} would take a line of {name} for a directive: {found.strip()!r}"
            hint = "write it in `batch.directives`, or put another word in front of it on its line"
            yield Problem(message, path, hint)


def _is_directive(syntax: DirectiveSyntax, line: str) -> bool:
    return syntax.sentinel is not None and syntax.sentinel.match(line) is not None


def _read(syntax: DirectiveSyntax, text: str, origin: Origin, problems: list[Problem]) -> Iterator[Directive]:
    pairs = syntax.read(text)
    if not pairs:
        problems.append(Problem(f"{text!r} is not a directive of {syntax.scheduler}", _PATH, syntax.form))
    for flag, value in pairs:
        yield Directive(flag=flag, value=value, origin=origin)


def is_requested_by_user(job: JobSpec, field: str) -> bool:
    """Return whether the experiment sets the field, not the site for all its jobs."""
    return field not in job.origins or job.origins[field].kind != "site"


def _written(flag: str, value: str | None) -> str:
    if value is None:
        return flag
    return f"{flag}{'=' if ' ' in flag or flag.startswith('--') else ' '}{value}"


def _reserved(syntax: DirectiveSyntax, flag: str, own: Mapping[str, str | None]) -> Problem | None:
    """Return a problem for a flag that hpcdist sets, with the field to use instead."""
    if flag in syntax.free and flag not in own:
        return None
    for known, field in syntax.fields.items():
        if flag == known or (flag not in syntax.fields and _is_short(syntax, flag, known)):
            return Problem(f"{flag} is set by hpcdist", _PATH, f"use `{field}`")
    for known, reason in syntax.reserved.items():
        if flag == known or _is_short(syntax, flag, known):
            return Problem(f"{flag} is set by hpcdist", _PATH, reason)
    return None


def _unknown(syntax: DirectiveSyntax, line: Directive, site: Site) -> Problem | None:
    """Return a problem for a flag that the scheduler does not have, or not on this site."""
    flag = line.flag.partition(" ")[0]
    theirs = line.origin.kind == "site"
    path, origin = ((), f" ({line.origin})") if theirs else (_PATH, "")
    if flag in syntax.without_effect:
        return Problem(f"{flag} has no effect here{origin}", path, syntax.without_effect[flag])
    if syntax.others is None:
        return None
    flags = {known.partition(" ")[0] for known in (*syntax.fields, *syntax.reserved, *syntax.others)}
    if flag in flags or flag in site.directives.known:
        return None
    hint = did_you_mean(flag, flags, otherwise=syntax.form)
    hint += "; one that this site's own has belongs in `directives.known` of the site file"
    return Problem(f"{syntax.scheduler} has no flag {flag}{origin}", path, hint)


def _is_short(syntax: DirectiveSyntax, flag: str, known: str) -> bool:
    return syntax.abbreviates and known.startswith(flag)


# --- Keys that a batch system does not have


def refused_keys(job: JobSpec, table: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    """Yield a problem for each key of ``batch`` in the table that is set; the table has messages and hints.

    ``elastic`` is that key of ``horovod``.
    """
    for key, (message, hint) in table.items():
        if job.completion.elastic if key == "elastic" else getattr(job.request, key):
            yield Problem(message, ("horovod" if key == "elastic" else "batch", key), hint)


# --- Mail, as PBS and Grid Engine write it

MAIL_POINTS: Final = {"begin": "b", "end": "e", "fail": "ae", "all": "abe", "none": ""}
"""A job that fails by itself ends (``e``): only an abort by the batch system is ``a``."""


def mail_points(events: Iterable[str]) -> str:
    """Return the value of ``-m``."""
    points = {letter for event in events for letter in MAIL_POINTS.get(event.lower(), "")}
    return "".join(sorted(points)) or "n"


def mail_problems(job: JobSpec, scheduler: str, known: Iterable[str] = MAIL_POINTS) -> Iterator[Problem]:
    """Yield the events at which a batch system sends no mail."""
    for event in job.request.mail.events if job.request.mail else ():
        if event.lower() not in known:
            message = f"{scheduler} sends no mail at {event!r}"
            yield Problem(message, ("batch", "mail", "events"), f"known: {', '.join(known)}")
