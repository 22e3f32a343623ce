"""The data of a report about each run: from its directory, without other users' files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from markupsafe import Markup

from hpcdist.base.errors import HpcdistError, bytes_text
from hpcdist.base.units import Walltime
from hpcdist.plan import folding
from hpcdist.plan.folding import Gap, counted
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Placement, Task
from hpcdist.runs import attempts, code_record, event_states, failures, logs, rundir
from hpcdist.runs.code_record import CodeRecord
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.schedulers.job import JobState
from hpcdist.script import explained
from hpcdist.tracking import outputs
from hpcdist.tracking.outputs import Output
from hpcdist.tracking.series import RecordedMetrics

# --- How much a report shows of each run: its size is bounded for any number of runs

T = TypeVar("T")

MOST_RUNS: Final = 500
MOST_ITEMS: Final = 1000
"""Runs and elements of arrays."""

MOST_SERIES: Final = 2000
MOST_PLOTS: Final = 300
LONGEST_NAME: Final = 200
"""The most characters of a metric's or param's name, which occurs in several places."""

_TASKS: Final = 10_000
_TRIALS: Final = 20_000
_CELLS: Final = 12_000
_POINTS: Final = 100_000
POINTS_OF_A_SERIES: Final = 2000
_FEWEST_POINTS: Final = 40
_CHARACTERS: Final = 2_400_000
_CHARACTERS_OF_A_RUN: Final = 200_000

OVERHEAD: Final = 60
"""The characters of markup in a line of a table, in addition to its text."""


@dataclass(frozen=True)
class Share(Generic[T]):
    """The shown items, and how many are left out."""

    items: Sequence[T] = ()
    left_out: int = 0


class Limits(NamedTuple):
    """The most characters of each part of a run, and the most tasks and trials that are drawn."""

    log: int
    plan: int
    others: int
    tasks: int
    trials: int

    @classmethod
    def of(cls, runs: int) -> Limits:
        """Return the limits for each of ``runs`` runs."""
        each = min(_CHARACTERS_OF_A_RUN, _CHARACTERS // max(runs, 1))
        tasks = min(400, _TASKS // max(runs, 1))
        trials = min(MOST_ITEMS, _TRIALS // max(runs, 1))
        return cls(log=each * 3 // 10, plan=each * 5 // 10, others=each // 20, tasks=tasks, trials=trials)


def most_points(series: int) -> int:
    """Return how many points each of ``series`` series may have."""
    return max(_FEWEST_POINTS, min(POINTS_OF_A_SERIES, _POINTS // max(series, 1)))


def most_columns(rows: int) -> int:
    """Return how many params, and how many metrics, a table of ``rows`` rows may have."""
    return max(6, min(24, _CELLS // max(rows, 1)))


def first(
    items: Iterable[T], characters: int, size: Callable[[T], int] = lambda item: len(str(item))
) -> Share[T]:
    """Return as many of the first items as have so many characters together."""
    found = [*items]
    used = count = 0
    for item in found:
        used += size(item) + OVERHEAD
        if used > characters:
            break
        count += 1
    return Share(found[:count], len(found) - count)


def at_most(items: Iterable[T], count: int) -> Share[T]:
    """Return the first ``count`` items."""
    found = [*items]
    return Share([*islice(found, count)], max(0, len(found) - count))


# --- Values of runs as text of a page: control characters are visible, and markup is escaped

LONGEST: Final = 2000
"""The most characters of a value that are shown."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNSAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def visible(text: str, most: int = LONGEST) -> str:
    """Return the text with a code for each unprintable character; a very long text is cut."""
    shown = text if text.isprintable() else "".join(map(_shown, text[: most + 1]))
    return f"{shown[:most]}… ({len(text) - most:,} more)" if len(text) > most else shown


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"  # noqa: PLR2004 - of one byte


def terminal_line(line: str) -> str:
    """Return a line of output as a terminal shows it: what comes after the last return, without colours."""
    return _COLOUR.sub("", line).expandtabs().rstrip("\r").rpartition("\r")[2]


def template_text(value: object, masked: Callable[[str], str]) -> object:
    """Return the text of a value in a template, without secrets; Jinja then escapes its markup."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return number_text(value)
    return "" if value is None else visible(masked(str(value)))


def number_text(value: float | None) -> str:
    """Return a number in six digits, ``-`` for none."""
    return "-" if value is None else f"{value:.6g}"


def script_data(value: Any) -> Markup:
    """Return a value as JSON that is safe in a ``<script>``, without characters of markup."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # escapes all but ASCII
    return Markup(text.translate(_UNSAFE))  # noqa: S704 - it has no markup


# --- The placement of a run as a map: a card per node, with its tasks and their GPUs

_ALIKE: Final = 12
"""If more nodes look alike, only the first and the last are drawn."""

_MOST: Final = 60
_ON_A_NODE: Final = 64


class Chip(NamedTuple):
    """A task, or many that look alike."""

    rank: int = -1
    name: str = ""
    role: int = 0
    """The number of its role in the run."""
    cpus: int = 0
    gpus: tuple[int, ...] = ()
    failed: bool = False
    """Whether it failed first."""
    more: int = 0
    """The number of tasks that the chip stands for, instead of one."""


class Card(NamedTuple):
    """A node, with its name where that is known; ``more``: it stands for this number of nodes instead."""

    node: int = -1
    host: str = ""
    chips: tuple[Chip, ...] = ()
    more: int = 0


class NodeMap(NamedTuple):
    """The drawn nodes, the roles by number, the number of nodes, and how many are left out."""

    cards: Sequence[Card]
    roles: Sequence[tuple[str, str]]
    groups: Sequence[str]
    left_out: int = 0


def node_map(placement: Placement, hosts: Sequence[str], failed: int | None, most: int) -> NodeMap:
    """Return the map with at most ``most`` tasks, or one node; ``failed`` is the rank that failed first."""
    roles = [*dict.fromkeys(row.role for row in placement.rows)]
    cards = [*map(_bounded, islice(_cards(placement, hosts, failed, roles), _MOST))]
    tasks = [*accumulate(len(card.chips) for card in cards)]
    cards = [card for card, count in zip(cards, tasks, strict=True) if count <= max(most, tasks[0])]
    left_out = placement.nodes - sum(card.more or 1 for card in cards)
    counts = [(role, str(placement.replicas(role))) for role in roles]
    return NodeMap(cards, counts, [*_groups(placement)], left_out)


def _bounded(card: Card) -> Card:
    """Return the card with a bounded number of chips; the last counts the tasks that are not shown."""
    if len(card.chips) <= _ON_A_NODE:
        return card
    rest = sum(chip.more or 1 for chip in card.chips[_ON_A_NODE - 1 :])
    return card._replace(chips=(*card.chips[: _ON_A_NODE - 1], Chip(more=rest)))


def _groups(placement: Placement) -> Iterator[str]:
    for group in placement.groups:
        nodes = counted("node", group.node, group.nodes)
        yield f"{nodes}: {folding.kind_of(group) or 'of any kind'}"


def _cards(
    placement: Placement, hosts: Sequence[str], failed: int | None, roles: Sequence[str]
) -> Iterator[Card]:
    card = Card()
    for item in folding.shown(placement, _ALIKE):
        if isinstance(item, Gap) and item.what != "nodes":
            card = card._replace(chips=(*card.chips, Chip(more=item.count)))
            continue
        node = item.node if isinstance(item, Task) else -1
        if node != card.node or isinstance(item, Gap):
            yield from [card] if card.chips else []
            host = hosts[node] if 0 <= node < len(hosts) else ""
            card = Card(node, host)
        if isinstance(item, Gap):
            yield Card(more=item.count)
            continue
        card = card._replace(chips=(*card.chips, _chip(item, failed, roles)))
    yield from [card] if card.chips else []


def _chip(task: Task, failed: int | None, roles: Sequence[str]) -> Chip:
    name = task.role if task.role == "master" else f"{task.role} {task.index}"
    return Chip(task.rank, name, roles.index(task.role), len(task.cpus), task.gpus, task.rank == failed)


# --- Every value of a run's script with its origin, and its placement, from the stored plan

_MOST_BYTES: Final = 1 << 26
_MOST_ON_A_NODE: Final = 100_000
_INVALID: Final = (
    HpcdistError,
    msgspec.MsgspecError,  # a ValueError from msgspec 0.21 on
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)


class OriginLine(NamedTuple):
    """A value of the script and its origin."""

    text: str
    origin: str


class OriginSection(NamedTuple):
    """Lines that belong together, as `hpcdist explain` prints them."""

    name: str
    lines: Sequence[OriginLine]


def stored_plan(directory: RunDirectory) -> Plan | None:
    """Return the plan of a run; None if it cannot be read, such as one of another version."""
    try:
        plan = msgspec.json.decode(directory.read("plan.json", _MOST_BYTES), type=Plan)
    except (OSError, *_INVALID):
        return None
    is_large = any(row.tasks_per_node > _MOST_ON_A_NODE for row in plan.placement.rows)
    return None if is_large else plan


def sections(plan: Plan, characters: int) -> Share[OriginSection]:
    """Return the content of the plan's script; ``left_out`` counts lines."""
    try:
        found = [*explained.lines(plan)]
    except _INVALID:
        return Share()
    shown = first(found, characters, _size)
    return Share([*_grouped(shown.items)], shown.left_out)


def _size(line: explained.Line) -> int:
    _, value, origin = line
    return min(len(value), LONGEST) + min(len(str(origin)), LONGEST)


def _grouped(lines: Iterable[explained.Line]) -> Iterator[OriginSection]:
    for name, members in groupby(lines, key=lambda line: line[0]):
        yield OriginSection(name, [OriginLine(value, str(origin)) for _, value, origin in members])


# --- The attempts of a run as bars over the time


class Bar(NamedTuple):
    """An attempt; ``waited`` and ``ran``: begin and length in percent of the whole time."""

    attempt: Attempt
    waited: tuple[float, float]
    ran: tuple[float, float]


class Timeline(NamedTuple):
    """The attempts of a run from ``begin`` to ``end``, both in seconds since 1970."""

    begin: float
    end: float
    bars: Share[Bar]


def timeline(found: Sequence[Attempt], now: float) -> Timeline | None:
    """Return the attempts as bars; None if no attempt has a time. Bars of running attempts end now."""
    times = [time for one in found for time in (one.queued, one.started, _end(one, now)) if time is not None]
    if not times:
        return None
    begin, end = min(times), max(times)
    return Timeline(begin, end, at_most(_bars(found, begin, end, now), _MOST))


def _end(attempt: Attempt, now: float) -> float | None:
    is_live = attempt.ended is None and attempt.state in (JobState.RUNNING.value, JobState.PENDING.value)
    return now if is_live else attempt.ended


def _bars(found: Sequence[Attempt], begin: float, end: float, now: float) -> Iterator[Bar]:
    scale = 100 / max(end - begin, 1.0)

    def bar(first: float | None, last: float | None) -> tuple[float, float]:
        if first is None or last is None:
            return 0.0, 0.0
        return (first - begin) * scale, max(0.0, last - first) * scale

    for one in found:
        last = _end(one, now)
        waited = bar(one.queued, last if one.started is None else one.started)
        yield Bar(one, waited, bar(one.started, one.started if last is None else last))


# --- The code of a run's program, for a page

_CODE_MOST_BYTES: Final = 1 << 24


class CodeState(NamedTuple):
    """Facts by their names, the files that differ from the commit, and the beginning of the diff."""

    facts: Mapping[str, str]
    changed: Share[str] = Share()
    untracked: Share[str] = Share()
    diff: Share[str] = Share()


def code_state(directory: RunDirectory, characters: int) -> CodeState | None:
    """Return the state of the code; None without a record."""
    found = code_record.read(directory)
    if found == CodeRecord():
        return None
    facts = {
        "code": found.source,
        "folder": found.folder,
        "commit": found.commit,
        "branch": found.branch,
        "remote": found.remote,
        "changes": None if found.dirty is None else "files differ from the commit" if found.dirty else "none",
    }
    return CodeState(
        {name: text for name, text in facts.items() if text is not None},
        first(found.changed or (), characters),
        first(found.untracked or (), characters),
        first(_diff(directory), characters * 2),
    )


def _diff(directory: RunDirectory) -> list[str]:
    try:
        text = directory.read("code.diff", _CODE_MOST_BYTES)
    except OSError:
        return []
    return text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []


# --- What a report shows of each run

_LOG_LINES: Final = 200
_LOGS: Final = 4
_RANK: Final = re.compile(r"rank ([0-9]{1,9}) ")
_FAILED: Final = frozenset(state for state in JobState if state.is_final) - {JobState.COMPLETED}
_OVER: Final = frozenset({event_states.ENDED, *(each.value for each in JobState if each.is_final)})


class OutputEnd(NamedTuple):
    """The last lines of a file of output."""

    name: str
    lines: Share[str]


class RunView(NamedTuple):
    """One run as the report shows it."""

    name: str
    state: str
    description: str
    tags: Share[str]
    facts: Mapping[str, str]
    """Texts by their names; empty ones are left out."""
    warnings: Share[str]
    advice: Sequence[str]
    failure: str
    """Why it failed, as its log says."""
    first_failure: str
    """A sentence; empty if no task failed by itself."""
    timeline: Timeline | None
    map: NodeMap | None
    code: CodeState | None
    plan: Share[OriginSection] | None
    outputs: Share[Output]
    logs: Share[OutputEnd]


class Supplement(NamedTuple):
    """More about a run: facts by their names, advice, and the first failure of a task."""

    facts: Mapping[str, str | None] = {}
    advice: Sequence[str] = ()
    first_failure: str = ""


Supply = Callable[[Run, Sequence[Attempt], float], Supplement]
"""Returns the supplement of a run with these attempts at a time."""


class RunFiles:
    """The files of a run that several parts of the report need, each read once."""

    def __init__(self, report: Report, now: float, supply: Supply) -> None:
        self.report, self.run, self.now = report, report.run, now
        self.directory = report.run.directory
        self.stored = self.directory.plan()
        self.events = self.directory.events()
        self.plan = stored_plan(self.directory)
        self.attempts = attempts.read(report, now)
        self.supplement = supply(self.run, self.attempts, now)

    @cached_property
    def state(self) -> tuple[str, str]:
        """Return the state and the reason; if the batch system does not answer, by the event log."""
        status = self.report.status
        if self.report.no_reply:
            return event_states.of_run(self.run, self.events), f"by its event log; {status.reason}"
        return status.state.value, status.reason


def view(source: RunFiles, found: RecordedMetrics, share: Limits) -> RunView:
    """Return what is shown of one run."""
    run, directory, plan = source.run, source.directory, source.plan
    failure = failures.failure_reason(directory) if source.report.status.state in _FAILED else ""
    failed = _RANK.search(failure)
    hosts = next((one.hosts for one in reversed(source.attempts) if one.hosts), ())
    warnings = [*found.warnings, *(map(str, plan.notes) if plan else ())]
    return RunView(
        name=run.name,
        state=source.state[0],
        description=source.stored.description or "",
        tags=first(source.stored.tags, share.others),
        facts=_facts(source),
        warnings=first(warnings, share.others),
        advice=source.supplement.advice,
        failure=failure,
        first_failure=source.supplement.first_failure,
        timeline=timeline(source.attempts, source.now),
        map=node_map(plan.placement, hosts, failed and int(failed[1]), share.tasks) if plan else None,
        code=code_state(directory, share.others),
        plan=sections(plan, share.plan) if plan else None,
        outputs=first(outputs.outputs(directory, found), share.others, lambda one: len(one.path) + 150),
        logs=_logs(run, share.log),
    )


def _facts(source: RunFiles) -> dict[str, str]:
    run, record, plan = source.run, source.run.record, source.plan
    hours = attempts.gpu_hours(run, source.stored, source.events, source.now)
    found: dict[str, Any] = {
        "reason": source.state[1] or record.message,
        "exit code": source.report.status.exit_code,
        "job": record.job_id,
        "site": f"{record.site} ({record.scheduler})",
        "tasks": plan and plan.summary,
        "framework": plan and plan.identity.framework,
        "submitted": _moment(record.submitted_at),
        **_times(source),
        "GPU-hours": None if hours is None or not source.stored.gpus_had else f"{hours:.2f}",
        **source.supplement.facts,
        "directory": run.directory.path,
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _times(source: RunFiles) -> dict[str, str | None]:
    found, is_over = source.attempts, source.report.is_over or source.state[0] in _OVER
    started = [one.started for one in found if one.started is not None]
    if not started:
        return {}
    ends = [one.ended for one in found if one.ended is not None]
    ended = max(ends) if is_over and ends and max(ends) >= max(started) else None
    is_running = any(one.state == JobState.RUNNING.value for one in found)
    end = source.now if is_running else ended
    memory = max((one.max_memory for one in found if one.max_memory is not None), default=None)
    return {
        "queued": None if found[0].waited is None else duration(found[0].waited),
        "started": moment(started[0]),
        "ended": None if ended is None else moment(ended),
        "elapsed": None if end is None else duration(end - started[0]),
        "most memory": None if memory is None else bytes_text(memory),
    }


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as people read it, in UTC."""
    return str(_moment(rundir.timestamp(seconds)))


def _moment(text: str | None) -> str | None:
    return text and text.replace("T", " ").replace("+00:00", " UTC")


def duration(seconds: float) -> str:
    """Return a duration as `describe` shows it: ``00:01:30``, ``2-00:00:00``."""
    return str(Walltime(max(0, round(seconds))))


def _logs(run: Run, characters: int) -> Share[OutputEnd]:
    """Return the end of the output; for an array, of the first files."""
    files = at_most(logs.files(run.directory), _LOGS)
    return Share([*_ends(files.items, characters // max(1, len(files.items)))], files.left_out)


def _ends(files: Sequence[Path], characters: int) -> Iterator[OutputEnd]:
    for file in files:
        with suppress(OSError):
            lines = [terminal_line(line) for line in logs.tail(file, _LOG_LINES)]
            share = first(reversed(lines), characters, lambda line: min(len(line), LONGEST))
            yield OutputEnd(file.name, Share([*reversed(share.items)], share.left_out))
