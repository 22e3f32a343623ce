"""Comparison of runs: the params of their starts, and the metrics that they reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpcdist.base.errors import ConfigError, Problem, did_you_mean
from hpcdist.runs.rundir import Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import split_id
from hpcdist.tracking import files, series, trial_params
from hpcdist.tracking.files import Artifact, Losses, TrackedEntry, unread
from hpcdist.tracking.series import RecordedMetrics


class Tracked(NamedTuple):
    """A run, or an element of its array (``train-1/3``).

    ``params``: the experiment's, then the program's records. ``metrics``: the last value of each, by the
    lowest rank that recorded it. ``artifacts``: the last of each path. ``unread``: sentences about files of
    the run that could not be read.
    """

    name: str
    params: Mapping[str, Any]
    tags: tuple[str, ...]
    metrics: Mapping[str, float]
    artifacts: tuple[Artifact, ...]
    unread: tuple[str, ...] = ()


def tracked(run: Run, plan: StoredPlan) -> list[Tracked]:
    """Return the records of a run: an item for each of its jobs or elements, or one without any.

    Unreadable parts are left out, so that other runs can still be shown.
    """
    try:
        found = series.read(run.directory, plan)
    except OSError as error:
        found = RecordedMetrics({}, [], 0, (unread(run.directory.path, error),))
    return tracked_in(found, run, plan)


def tracked_in(found: RecordedMetrics, run: Run, plan: StoredPlan) -> list[Tracked]:
    """Return the items of these metrics of a run, as `tracked`."""
    metrics: dict[str, dict[str, float]] = {}
    others: dict[str, list[TrackedEntry]] = {}
    for key, points in sorted(found.series.items(), reverse=True):  # the lowest rank comes last
        metrics.setdefault(key.job, {})[key.name] = points.last
    for job, entry in found.others:
        others.setdefault(job, []).append(entry)
    tables, names = trial_params.tables(run), job_names(run, found)
    trials = trial_params.in_all(tables)
    is_search = plan.trials is not None
    shared = {} if is_search else plan.params  # a search's plan has the params of its first trial
    params = {job: trials.get(split_id(job)[1], shared) for job in names}
    items = [
        _tracked(name, plan._replace(params=params[job]), metrics.get(job, {}), others.get(job, ()))
        for job, name in names.items()
    ]
    unread = (*found.unread, *(trial_params.damaged(tables) if is_search else ()))
    return [item._replace(unread=unread) for item in _with_all(items, trials, run, plan)]


def _with_all(
    items: list[Tracked], trials: Mapping[str, Mapping[str, Any]], run: Run, plan: StoredPlan
) -> list[Tracked]:
    """Return an item for each trial, even without records, and then other items."""
    if not trials:
        return items
    there = {item.name: item for item in items}
    names = {f"{run.name}/{number}": params for number, params in trials.items()}
    found = [
        there.get(name) or _tracked(name, plan._replace(params=params), {}, ())
        for name, params in names.items()
    ]
    others = [item for name, item in there.items() if name not in names]
    return [*found, *(item for item in others if item.metrics or item.artifacts)]


def job_names(run: Run, found: RecordedMetrics) -> dict[str, str]:
    """Return a name for each job or element that recorded something.

    The only job of a run, and records of no element of its array, have the name of the run.
    """
    there = {key.job for key in found.series} | {job for job, _ in found.others}
    jobs = sorted(there, key=_order) or [""]
    parts = {job: split_id(job)[1] for job in jobs}
    if len(jobs) > 1 and not any(parts.values()):
        parts = {job: job for job in jobs}
    return {job: f"{run.name}/{part}" if part else run.name for job, part in parts.items()}


def _order(job: str) -> tuple[str, int]:
    """Elements sort by number."""
    first, element = split_id(job)
    return first, int(element) if element else -1


def _tracked(
    name: str, plan: StoredPlan, metrics: Mapping[str, float], others: Sequence[TrackedEntry]
) -> Tracked:
    artifacts = {entry.artifact.path: entry.artifact for entry in others if entry.artifact}
    return Tracked(name, *labels(plan, others), metrics, (*artifacts.values(),))


def labels(plan: StoredPlan, others: Iterable[TrackedEntry]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the params and the tags of a plan, with the program's records of both."""
    params, tags = dict(plan.params), dict.fromkeys(plan.tags)
    for entry in others:
        params |= entry.params
        tags |= dict.fromkeys(entry.tags)
    return params, (*tags,)


def differing(items: Sequence[Tracked]) -> list[str]:
    """Return the params that are not the same in all."""
    return [
        name for name in trial_params.names(item.params for item in items) if any(
            name not in item.params or item.params[name] != items[0].params.get(name) for item in items
        )
    ]  # fmt: skip


def in_order(items: Iterable[Tracked], by: str) -> list[Tracked]:
    """Sort by a metric or param, from the highest with ``-`` before its name; items without it come last.

    Raises:
        ConfigError: if no item has it.
    """
    found, name = [*items], by.removeprefix("-")
    there = [
        *trial_params.names(item.metrics for item in found),
        *trial_params.names(item.params for item in found),
    ]
    if name not in there and by in there:
        name = by
    if name not in there:
        raise ConfigError(Problem(f"there is no metric or param {name!r}", hint=did_you_mean(name, there)))
    sign = -1.0 if name != by else 1.0
    return sorted(found, key=lambda item: _key(item, name, sign))


def _key(item: Tracked, name: str, sign: float) -> tuple[int, float, str]:
    """Numbers come before texts, then items without a value."""
    value = item.metrics.get(name, item.params.get(name))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 2, 0.0, item.name
    if isinstance(value, int | float):
        return 0, sign * value, ""
    return 1, 0.0, str(value)


def models(items: Iterable[Tracked]) -> Iterator[Tracked]:
    """Yield an item for each model, with its metrics in place of the run's."""
    for item in items:
        for artifact in item.artifacts:
            if artifact.kind == "model":
                yield item._replace(metrics=files.numbers(artifact.metrics), artifacts=(artifact,))


def model_of(run: Run) -> str:
    """Return a text if a run recorded a model (also by Polyaxon's client), or may have; else empty.

    Raises:
        OSError: if its files cannot be read.
    """
    found = series.read_others(run.directory)
    is_model = any(entry.artifact and entry.artifact.kind == "model" for _, entry in found.others)
    if is_model or any(map(files.has_model, files.recorded(run.directory, Losses()))):
        return "recorded a model"
    if found.unread:
        return f"may have recorded a model: {found.unread[0]}"
    return "has damaged records, which may be of a model" if found.damaged else ""
