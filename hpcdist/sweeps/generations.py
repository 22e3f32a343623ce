"""Adaptive searches: each generation of trials is a further job of the run, by what those before reached."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, Problem, comma_list
from hpcdist.experiment.search import adaptive
from hpcdist.experiment.search.adaptive import Next, Reached
from hpcdist.experiment.search.model import Hyperband, Search
from hpcdist.loading.planning import Planned
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import accounting, standing, stopping
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.state import PRUNED
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState
from hpcdist.sweeps import bayes, continuing, replanning, spending, trials
from hpcdist.sweeps.trials import Trial
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked

_NOT_ADAPTIVE: Final = "only `hyperband` and `bo` have; `sweep extend` adds trials to a random search"


def advance(run: Run, services: Services, output: Output, *, only_if_over: bool = False) -> tuple[Run, str]:
    """Submit the next generation; return the run with it, and why there is none, if the search is over.

    A search that was stopped is over until it is resumed. ``only_if_over``: it is no error that another
    process has submitted it meanwhile.

    It may be called at any time and by several processes: each generation is submitted once, when the one
    before has ended.

    Raises:
        ConfigError: if the search is not adaptive, a job of it lives, or no trial recorded its metric.
        SchedulerError: as `control.submit`.
    """
    why = ""

    def choose(report: Report) -> Sequence[Planned]:
        nonlocal why
        if only_if_over and not report.is_over:
            return ()
        continuing.check_over(report)
        if (why := standing.reason(report.run)) or not all(job.job for job in report.run.jobs):
            return ()
        state = _state_of(report, services)
        if why := _reason_to_stop(state):
            return ()
        _check_ran(report, state)
        found, why = _following(state)
        if why:
            stopping.request(report.run.directory, f"as {why}")
        return _planned(report.run, found, state.search) if found else ()

    run = continuing.add_jobs(run, services, output, choose, goes_on=False, lifts_stop=False)
    return run, why


class _State(NamedTuple):
    """A search with its trials, and what was recorded of them."""

    name: str
    search: Search | None
    trials: Sequence[Trial]
    tracked: Sequence[Tracked]

    def reached(self, metric: str) -> list[Reached]:
        """Return what the trials reached, by their numbers; one that failed has no value."""
        values = {item.name: item.metrics.get(metric) for item in self.tracked}
        return [
            Reached(one.number, one.params, values.get(f"{self.name}/{one.number}") if one.is_good else None)
            for one in self.trials
        ]


def _state_of(report: Report, services: Services) -> _State:
    run = report.run
    tracked = comparison.tracked(run, run.directory.plan())
    found = trials.trials(report, accounting.of_jobs(run, services), services.now())
    return _State(run.name, replanning.search_of(run), found, tracked)


def _following(state: _State) -> tuple[list[Next], str]:
    """Return the trials of the next generation, or why there are none.

    Raises:
        ConfigError: if the search is not adaptive, or no trial recorded its metric.
    """
    name, search = state.name, state.search
    algorithm = search and (search.hyperband or search.bo)
    if not search or not algorithm:
        raise ConfigError(Problem(f"the search of {name} has no further generations", hint=_NOT_ADAPTIVE))
    so_far = state.reached(algorithm.metric.name)
    if all(one.value is None or math.isnan(one.value) for one in so_far):
        names = trial_params.names(item.metrics for item in state.tracked)
        message = f"no trial of {name} that completed recorded the metric {algorithm.metric.name!r}"
        hint = f"they recorded {comma_list(names)}" if names else "they recorded none"
        raise ConfigError(Problem(message, hint=hint))
    if isinstance(algorithm, Hyperband):
        found = adaptive.following(algorithm, so_far)
    else:
        found = bayes.following(search, algorithm, so_far, search.concurrency or 1)
        if not found and len(so_far) < algorithm.n_initial_trials + algorithm.n_iterations:
            return [], "all different trials that its values give were tried"
    return found, "" if found else "all its generations have ended"


def _check_ran(report: Report, state: _State) -> None:
    """Check that each trial ran to an end of its own: those that follow are chosen among all of them.

    Raises:
        ConfigError: if one did not.
    """
    if left := [str(trial.number) for trial in state.trials if trial.state not in _ENDED]:
        message = f"trial {comma_list(left)} of {report.run.name} did not run to its end"
        raise ConfigError(Problem(message, hint=spending.way_on(report.run)))


_ENDED: Final = frozenset(
    (
        *(JobState.COMPLETED.value, JobState.FAILED.value, JobState.TIMEOUT.value),
        *(JobState.OUT_OF_MEMORY.value, PRUNED),
    )
)
"""States of trials that ran; one that failed does not go on, one that was pruned counts by its last value."""


def _reason_to_stop(state: _State) -> str:
    """Return why the search goes no further, though it may have trials that did not start; or nothing."""
    search = state.search
    for stop in search.early_stopping if search and search.is_adaptive else ():
        values = [item.metrics[stop.metric] for item in state.tracked if stop.metric in item.metrics]
        sign = 1 if stop.optimization == "maximize" else -1
        if stop.value is not None and any(sign * value >= sign * stop.value for value in values):
            return f"a trial has reached {stop.metric} {stop.value:g}"
    return ""


def _planned(run: Run, found: Sequence[Next], search: Search | None) -> list[Planned]:
    made = replanning.planned(run, more=[one.params for one in found])
    origins = {len(made.trials) - len(found) + place: one.origin for place, one in enumerate(found, 1)}
    if search and search.hyperband and search.hyperband.resume:
        folder = run.directory.path / "checkpoints"
        made = made._replace(trials=[_going_on(trial, origins, folder) for trial in made.trials])
    return replanning.jobs_of(made, origins, run)


def _going_on(trial: TrialTexts, origins: Mapping[int, int | None], folder: Path) -> TrialTexts:
    """Return a trial that finds the checkpoints of the one with which it began."""
    origin = origins.get(trial.number)
    if origin is None:
        return trial
    return trial._replace(variables={**trial.variables, "HPCDIST_CHECKPOINTS": str(folder / str(origin))})
