"""What a report shows of each run: all that its directory has, nothing that is another user's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from hpcdist.checks import usage
from hpcdist.checks.failures import first_failure
from hpcdist.checks.usage import Used
from hpcdist.errors import HpcdistError, bytes_text
from hpcdist.plan import folding
from hpcdist.plan.folding import Gap, counted
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Placement, Task
from hpcdist.report import limits, search, text
from hpcdist.report.curves import Series
from hpcdist.report.limits import Limits, Share
from hpcdist.report.search import Search
from hpcdist.runs import attempts, code_record, logs, rundir, state
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.code_record import CodeRecord
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.runs.states import Report
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState
from hpcdist.script import explained
from hpcdist.tracking import comparison, outputs, series
from hpcdist.tracking.comparison import Tracked
from hpcdist.tracking.outputs import Output
from hpcdist.tracking.series import Metrics
from hpcdist.units import Walltime

# --- The placement of a run as a map: a card a node, with the tasks on it and their GPUs

_ALIKE: Final = 12
"""Of more nodes that look alike, the first and the last are drawn."""

_MOST: Final = 60
_ON_A_NODE: Final = 64


class Chip(NamedTuple):
    """A task; ``role`` is the number of its role in the run. ``more``: so many tasks like these instead."""

    rank: int = -1
    name: str = ""
    role: int = 0
    cpus: int = 0
    gpus: tuple[int, ...] = ()
    failed: bool = False
    more: int = 0


class Card(NamedTuple):
    """A node, with its name where that is known; ``more``: so many nodes like these instead."""

    node: int = -1
    host: str = ""
    chips: tuple[Chip, ...] = ()
    more: int = 0


class Map(NamedTuple):
    """The drawn nodes, the roles by their numbers, and how many nodes there are and how many left out."""

    cards: Sequence[Card]
    roles: Sequence[tuple[str, str]]
    groups: Sequence[str]
    left_out: int = 0


def drawn(placement: Placement, hosts: Sequence[str], failed: int | None, most: int) -> Map:
    """Return the map with at most so many tasks, or one node; ``failed`` is the rank that failed first."""
    roles = [*dict.fromkeys(row.role for row in placement.rows)]
    cards = [*map(_bounded, islice(_cards(placement, hosts, failed, roles), _MOST))]
    tasks = [*accumulate(len(card.chips) for card in cards)]
    cards = [card for card, count in zip(cards, tasks, strict=True) if count <= max(most, tasks[0])]
    left_out = placement.nodes - sum(card.more or 1 for card in cards)
    counts = [(role, str(placement.replicas(role))) for role in roles]
    return Map(cards, counts, [*_groups(placement)], left_out)


def _bounded(card: Card) -> Card:
    """Return the card with at most so many chips; the last counts the tasks that are not shown."""
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


# --- Every value of a run's script with its origin, and its placement, from the plan that is stored with it

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


class Line(NamedTuple):
    """A value of the script and its origin."""

    text: str
    origin: str


class Section(NamedTuple):
    """Lines that belong together, as `hpcdist explain` prints them."""

    name: str
    lines: Sequence[Line]


def stored_plan(directory: RunDirectory) -> Plan | None:
    """Return the plan of a run; None if it cannot be read, as one of another version of hpcdist."""
    try:
        plan = msgspec.json.decode(directory.read("plan.json", _MOST_BYTES), type=Plan)
    except (OSError, *_INVALID):
        return None
    is_large = any(row.tasks_per_node > _MOST_ON_A_NODE for row in plan.placement.rows)
    return None if is_large else plan


def sections(plan: Plan, characters: int) -> Share[Section]:
    """Return what its script holds; ``left_out`` counts lines."""
    try:
        found = [*explained.lines(plan)]
    except _INVALID:
        return Share()
    shown = limits.first(found, characters, _size)
    return Share([*_grouped(shown.items)], shown.left_out)


def _size(line: explained.Line) -> int:
    _, value, origin = line
    return min(len(value), text.LONGEST) + min(len(str(origin)), text.LONGEST)


def _grouped(lines: Iterable[explained.Line]) -> Iterator[Section]:
    for name, members in groupby(lines, key=lambda line: line[0]):
        yield Section(name, [Line(value, str(origin)) for _, value, origin in members])


# --- The attempts of a run as bars over the time


class Bar(NamedTuple):
    """An attempt; when it ``waited`` and ``ran``, as begin and length in hundredths of the whole time."""

    attempt: Attempt
    waited: tuple[float, float]
    ran: tuple[float, float]


class Timeline(NamedTuple):
    """The attempts of a run from ``begin`` to ``end``, both in seconds since 1970."""

    begin: float
    end: float
    bars: Share[Bar]


def timeline(found: Sequence[Attempt], now: float) -> Timeline | None:
    """Return the attempts as bars; None if none has a time. Those that run last until now."""
    times = [time for one in found for time in (one.queued, one.started, _end(one, now)) if time is not None]
    if not times:
        return None
    begin, end = min(times), max(times)
    return Timeline(begin, end, limits.at_most(_bars(found, begin, end, now), _MOST))


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


# --- What the program of a run was made of, for a page

_CODE_MOST_BYTES: Final = 1 << 24


class CodeState(NamedTuple):
    """Facts by their names, the files that differ from the commit, and the begin of the difference."""

    facts: Mapping[str, str]
    changed: Share[str] = Share()
    untracked: Share[str] = Share()
    diff: Share[str] = Share()


def code_state(directory: RunDirectory, characters: int) -> CodeState | None:
    """Return it; None where there is no record."""
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
        limits.first(found.changed or (), characters),
        limits.first(found.untracked or (), characters),
        limits.first(_diff(directory), characters * 2),
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
_OVER: Final = frozenset({state.ENDED, *(each.value for each in JobState if each.is_final)})


class Log(NamedTuple):
    """The last lines of a file of output."""

    name: str
    lines: Share[str]


class RunView(NamedTuple):
    """One run as the report shows it; ``facts`` are texts by their names, empty ones are left out.

    ``first_failure``: a sentence; empty if no task failed by itself.
    """

    name: str
    state: str
    description: str
    tags: Share[str]
    facts: Mapping[str, str]
    warnings: Share[str]
    advice: Sequence[str]
    failure: str
    first_failure: str
    timeline: Timeline | None
    map: Map | None
    code: CodeState | None
    plan: Share[Section] | None
    outputs: Share[Output]
    logs: Share[Log]


class Collected(NamedTuple):
    """A run, what it recorded under the names of its elements, its metrics, and the search that it is."""

    view: RunView
    tracked: Sequence[Tracked]
    series: Sequence[Series]
    search: Search | None = None


def collected(report: Report, first_item: int, share: Limits, now: float) -> Collected:
    """Return what is shown of one run; ``first_item`` is the number of its first element in the report.

    Raises:
        OSError: if what it recorded cannot be read.
    """
    run = report.run
    stored = run.directory.plan()
    found = series.read(run.directory, stored)
    items = comparison.tracked_in(found, run, stored)
    numbers = {item.name: first_item + number for number, item in enumerate(items)}
    names = {job: name for job, name in comparison.job_names(run, found).items() if name in numbers}
    view = _view(_Source(report, stored, now), found, share)
    searched = search.search(report, items, stored, now, share.trials)
    return Collected(view, items, [*_series(found, names, numbers)], searched)


def _series(found: Metrics, names: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[Series]:
    ranks: dict[tuple[str, str], int] = {}
    began: dict[str, float] = {}
    for key, points in found.series.items():
        ranks[key.job, key.name] = ranks.get((key.job, key.name), 0) + 1
        first = min(points.times)
        if first <= 0:  # of output, or of files without times
            first = min(filter(lambda time: time > 0, points.times), default=float("inf"))
        began[key.job] = min(began.get(key.job, first), first)
    for key in sorted(key for key in found.series if key.job in names):
        name, points = names[key.job], found.series[key]
        rank = f" rank {key.rank}" if ranks[key.job, key.name] > 1 else ""
        yield Series.of(key.name, (numbers[name], f"{name}{rank}"), points, began[key.job])


class _Source:
    """The files of a run that several parts of the report need, each read once."""

    def __init__(self, report: Report, stored: StoredPlan, now: float) -> None:
        self.report, self.run, self.stored, self.now = report, report.run, stored, now
        self.directory = report.run.directory
        self.events = self.directory.events()
        self.plan = stored_plan(self.directory)
        self.attempts = attempts.read(report, now)
        self.used = usage.of_run(self.directory, self.attempts, now)
        begun = [Numbered(0, one.job, one.name) for one in self.attempts if one.started is not None]
        self.first_failure = first_failure(self.directory, begun)

    @cached_property
    def state(self) -> tuple[str, str]:
        """Return the state and why; where the batch system does not answer, what the event log shows."""
        status = self.report.status
        if self.report.no_reply:
            return state.of_run(self.run, self.events), f"by its event log; {status.reason}"
        return status.state.value, status.reason


def _view(source: _Source, found: Metrics, share: Limits) -> RunView:
    run, directory, plan = source.run, source.directory, source.plan
    failure = logs.failure_reason(directory) if source.report.status.state in _FAILED else ""
    failed = _RANK.search(failure)
    hosts = next((one.hosts for one in reversed(source.attempts) if one.hosts), ())
    warnings = [*found.warnings, *(map(str, plan.notes) if plan else ())]
    return RunView(
        name=run.name,
        state=source.state[0],
        description=source.stored.description or "",
        tags=limits.first(source.stored.tags, share.others),
        facts=_facts(source),
        warnings=limits.first(warnings, share.others),
        advice=[f"{found.text}; write {found.write}" for found in source.used.advice],
        failure=failure,
        first_failure=source.first_failure.text if source.first_failure else "",
        timeline=timeline(source.attempts, source.now),
        map=drawn(plan.placement, hosts, int(failed[1]) if failed else None, share.tasks) if plan else None,
        code=code_state(directory, share.others),
        plan=sections(plan, share.plan) if plan else None,
        outputs=limits.first(
            outputs.outputs(directory, found), share.others, lambda one: len(one.path) + 150
        ),
        logs=_logs(run, share.log),
    )


def _facts(source: _Source) -> dict[str, str]:
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
        **_used(source.used),
        "directory": run.directory.path,
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _used(found: Used) -> dict[str, str | None]:
    """Return what the accounting and the samples have; whole nodes are in the GPU-hours."""
    whole, use = usage.total(found.costs), usage.mean((node.use, node.seconds) for node in found.nodes)
    charged = whole.gpu_seconds if whole.is_measured and any(one.gpus for one in found.costs) else None
    return {
        "GPU-hours charged": usage.hours_text(charged),
        "CPU-hours": usage.hours_text(whole.cpu_seconds),
        "CPUs busy": None if whole.cpu_share is None else f"{whole.cpu_share:.0%}",
        "GPU use": None if use is None else f"{use:.0f}%",
    }


def _times(source: _Source) -> dict[str, str | None]:
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


def _logs(run: Run, characters: int) -> Share[Log]:
    """Return the end of the output; of the elements of an array, that of the first files."""
    files = limits.at_most(logs.files(run.directory), _LOGS)
    return Share([*_ends(files.items, characters // max(1, len(files.items)))], files.left_out)


def _ends(files: Sequence[Path], characters: int) -> Iterator[Log]:
    for file in files:
        with suppress(OSError):
            lines = [text.of_terminal(line) for line in logs.tail(file, _LOG_LINES)]
            share = limits.first(reversed(lines), characters, lambda line: min(len(line), text.LONGEST))
            yield Log(file.name, Share([*reversed(share.items)], share.left_out))
