"""What a report shows of each run: all that its directory has, nothing that is another user's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.errors import bytes_text
from hpcdist.nodes.findings import of_attempts
from hpcdist.report import code, limits, nodes, plan_lines, search, text
from hpcdist.report.code import CodeState
from hpcdist.report.curves import Series
from hpcdist.report.limits import Limits, Share
from hpcdist.report.nodes import Map
from hpcdist.report.plan_lines import Section
from hpcdist.report.search import Search
from hpcdist.report.timeline import Timeline, timeline
from hpcdist.runs import attempts, logs, rundir, state
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState
from hpcdist.tracking import comparison, outputs, series
from hpcdist.tracking.comparison import Tracked
from hpcdist.tracking.outputs import Output
from hpcdist.tracking.series import Metrics
from hpcdist.units import Walltime
from hpcdist.usage import cost, samples, used
from hpcdist.usage.used import Used

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

    ``findings``: the first failure and slow nodes, sentences by their titles.
    """

    name: str
    state: str
    description: str
    tags: Share[str]
    facts: Mapping[str, str]
    warnings: Share[str]
    advice: Sequence[str]
    failure: str
    findings: Mapping[str, str]
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
        self.plan = plan_lines.read(self.directory)
        self.attempts = attempts.read(report, now)
        self.used = used.of_run(self.directory, self.attempts, now)
        begun = [Numbered(0, one.job, one.name) for one in self.attempts if one.started is not None]
        self.findings = of_attempts(self.directory, begun, self.used.nodes)

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
        findings=source.findings.sentences(source.attempts),
        timeline=timeline(source.attempts, source.now),
        map=nodes.drawn(plan.placement, hosts, int(failed[1]) if failed else None, share.tasks)
        if plan
        else None,
        code=code.read(directory, share.others),
        plan=plan_lines.sections(plan, share.plan) if plan else None,
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
    whole, use = cost.total(found.costs), samples.mean((node.use, node.seconds) for node in found.nodes)
    charged = whole.gpu_seconds if whole.is_measured and any(one.gpus for one in found.costs) else None
    return {
        "GPU-hours charged": cost.hours_text(charged),
        "CPU-hours": cost.hours_text(whole.cpu_seconds),
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
