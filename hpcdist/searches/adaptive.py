"""Adaptive searches: each generation of trials is a further job of the run, chosen by the results so far.

Hyperband's next trials are computed (`hpcdist.experiment.trials`); Optuna proposes trials for ``bo``.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, Problem, comma_list
from hpcdist.experiment.search import Bayes, Choices, Distribution, Hyperband, Search, Value
from hpcdist.experiment.trials import (
    MOST_TRIALS,
    NextTrial,
    Spaces,
    TrialResult,
    next_generation,
    sampled,
    spaces_of,
)
from hpcdist.experiment.trials import Trial as Params
from hpcdist.loading.planning import Planned
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import accounting, cancelling, search_progress
from hpcdist.runs.event_states import PRUNED
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput
from hpcdist.schedulers.job import JobState
from hpcdist.searches import budget, replan, resume, trials
from hpcdist.searches.trials import TrialState
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_NOT_ADAPTIVE: Final = "only `hyperband` and `bo` have; `--trials N` adds trials to a random search"
_RAN: Final = frozenset(
    (
        *(JobState.COMPLETED.value, JobState.FAILED.value, JobState.TIMEOUT.value),
        *(JobState.OUT_OF_MEMORY.value, PRUNED),
    )
)
"""States of trials that ran; a failed trial has no successor, a pruned trial has its last value."""


# --- The next generation


def advance(
    run: Run, services: Services, output: SubmitOutput, *, only_if_over: bool = False
) -> tuple[Run, str]:
    """Submit the next generation; return the run with it, or with the reason why the search is over.

    A search that was stopped is over until it is resumed. Several processes may call this at any time: each
    generation is submitted once, when the one before has ended. ``only_if_over``: it is no error if another
    process has submitted it.

    Raises:
        ConfigError: if the search is not adaptive, a job of it is alive, or no trial recorded its metric.
        SchedulerError: as `submission.submit`.
    """
    why = ""

    def choose(report: Report) -> Sequence[Planned]:
        nonlocal why
        if only_if_over and not report.is_over:
            return ()
        resume.check_over(report)
        if (why := search_progress.stop_reason(report.run)) or not all(job.job for job in report.run.jobs):
            return ()
        state = _state_of(report, services)
        if why := _reason_to_stop(state):
            return ()
        _check_ran(report, state)
        found, why = _following(state)
        if why:
            cancelling.request(report.run.directory, f"as {why}")
        return _planned(report.run, found, state.search, services) if found else ()

    run = resume.add_jobs(run, services, output, choose, lifts_stop=False)
    return run, why


class _State(NamedTuple):
    """A search, its trials, and their records."""

    name: str
    search: Search | None
    trials: Sequence[TrialState]
    tracked: Sequence[Tracked]

    def reached(self, metric: str) -> list[TrialResult]:
        """Return the results of the trials, by their numbers; a failed trial has no value."""
        values = {item.name: item.metrics.get(metric) for item in self.tracked}
        return [
            TrialResult(
                one.number, one.params, values.get(f"{self.name}/{one.number}") if one.is_good else None
            )
            for one in self.trials
        ]


def _state_of(report: Report, services: Services) -> _State:
    run = report.run
    tracked = comparison.tracked(run, run.directory.plan())
    found = trials.trials(report, accounting.of_jobs(run, services), services.now())
    return _State(run.name, replan.search_of(run), found, tracked)


def _following(state: _State) -> tuple[list[NextTrial], str]:
    """Return the trials of the next generation, or the reason why the search is over."""
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
        found = next_generation(algorithm, so_far)
    else:
        found = propose(search, algorithm, so_far, search.concurrency or 1)
        if not found and len(so_far) < algorithm.n_initial_trials + algorithm.n_iterations:
            return [], "all different trials that its values give were tried"
    return found, "" if found else "all its generations have ended"


def _check_ran(report: Report, state: _State) -> None:
    """Check that each trial ended by itself: the next trials are chosen from all results."""
    if left := [str(trial.number) for trial in state.trials if trial.state not in _RAN]:
        message = f"trial {comma_list(left)} of {report.run.name} did not run to its end"
        raise ConfigError(Problem(message, hint=budget.budget_hint(report.run)))


def _reason_to_stop(state: _State) -> str:
    """Return why the search stops, even with trials that did not start; empty if it does not."""
    search = state.search
    for stop in search.early_stopping if search and search.is_adaptive else ():
        values = [item.metrics[stop.metric] for item in state.tracked if stop.metric in item.metrics]
        sign = 1 if stop.optimization == "maximize" else -1
        if stop.value is not None and any(sign * value >= sign * stop.value for value in values):
            return f"a trial has reached {stop.metric} {stop.value:g}"
    return ""


def _planned(
    run: Run, found: Sequence[NextTrial], search: Search | None, services: Services
) -> list[Planned]:
    made = replan.plan_search(run, services, more=[one.params for one in found])
    origins = {len(made.trials) - len(found) + place: one.origin for place, one in enumerate(found, 1)}
    if search and search.hyperband and search.hyperband.resume:
        folder = run.directory.path / "checkpoints"
        made = made._replace(trials=[_resumed(trial, origins, folder) for trial in made.trials])
    return replan.jobs_of(made, origins, run)


def _resumed(trial: TrialTexts, origins: Mapping[int, int | None], folder: Path) -> TrialTexts:
    """Return a trial that gets the checkpoints of the trial that it continues."""
    origin = origins.get(trial.number)
    if origin is None:
        return trial
    return trial._replace(variables={**trial.variables, "HPCDIST_CHECKPOINTS": str(folder / str(origin))})


# --- Bayesian optimization by Optuna

_NEEDS: Final = "Bayesian optimization needs the package optuna"
_HINT: Final = "install it with `pip install 'hpcdist[sweeps]'`"
_TRIES: Final = 20
"""How often Optuna is asked for a new trial."""


def propose(search: Search, algorithm: Bayes, reached: Sequence[TrialResult], count: int) -> list[NextTrial]:
    """Return the next trials, ``count`` or as many as are left; all are new.

    Calls share no state: each makes a study of all earlier trials, and its random choices depend only on
    their number. So a repeated call returns the same trials.

    Raises:
        ConfigError: if Optuna is not installed.
    """
    count = min(count, algorithm.n_initial_trials + algorithm.n_iterations - len(reached))
    if count < 1:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's, about experimental features
            return [*itertools.islice(_new_trials(search, algorithm, reached, count), count)]
    except ImportError as error:
        raise ConfigError(Problem(f"{_NEEDS}: {error}", hint=_HINT)) from None


def _new_trials(
    search: Search, algorithm: Bayes, reached: Sequence[TrialResult], count: int
) -> Iterator[NextTrial]:
    """Yield new trials: Optuna's, else random ones, as long as there are any."""
    known = spaces_of(search)
    tried = {_key(one.params, known) for one in reached}
    ask, others = _study(search, algorithm, reached, known), _random_trials(search, len(reached), count)
    while True:
        proposed = itertools.chain((ask() for _ in range(_TRIES)), others)
        new = next((trial for trial in proposed if _key(trial, known) not in tried), None)
        if new is None:
            return
        tried.add(_key(new, known))
        yield NextTrial(new)


def _random_trials(search: Search, there: int, count: int) -> Iterator[Params]:
    """Yield enough random trials that ``count`` are new, if there are any."""
    yield from sampled(replace(search, seed=search.seed + there), there + count)


def _study(
    search: Search, algorithm: Bayes, reached: Sequence[TrialResult], known: Spaces
) -> Callable[[], Params]:
    """Return a function that asks Optuna for one more trial; its study has the earlier trials."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sizes = {name: _distribution(space) for name, space in known.items()}
    sampler = optuna.samplers.TPESampler(
        seed=(search.seed + len(reached)) % 2**32,
        n_startup_trials=min(algorithm.n_initial_trials, len(reached)),
        multivariate=True,
        constant_liar=True,
    )
    study = optuna.create_study(direction=algorithm.metric.optimization, sampler=sampler)
    for one in reached:
        numbers = {name: _number(space, one.params.get(name)) for name, space in known.items()}
        value = None if one.value is None or math.isnan(one.value) else one.value
        state = optuna.trial.TrialState.FAIL if value is None else optuna.trial.TrialState.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(state=state, params=numbers, distributions=sizes, value=value)
        )

    def ask() -> Params:
        numbers = study.ask(sizes).params
        return {name: _value(space, numbers[name]) for name, space in known.items()}

    return ask


def _key(params: Params, known: Spaces) -> tuple[str, ...]:
    """Return a key that is the same for equal trials, whether read from a file or new."""
    values = (params.get(name) for name in known)
    return tuple(
        str(int(value) if isinstance(value, float) and value.is_integer() else value) for value in values
    )


def _distribution(space: Choices | Distribution) -> BaseDistribution:
    """Return Optuna's distribution of a value's number: for listed values, the place in the list."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(space, Distribution):
        return FloatDistribution(space.low, space.high)
    if space.size > MOST_TRIALS or _is_ordered(space):
        return IntDistribution(0, space.size - 1)
    return CategoricalDistribution(range(space.size))


def _is_ordered(space: Choices) -> bool:
    values = [space.at(place) for place in range(space.size)]
    return all(type(value) in (int, float) for value in values) and values == sorted(values)


def _value(space: Choices | Distribution, number: float) -> Value:
    return space.value(number) if isinstance(space, Distribution) else space.at(int(number))


def _number(space: Choices | Distribution, value: Any) -> float:
    """Return the number of a value."""
    if isinstance(space, Distribution):
        return space.number(value)
    if space.size > MOST_TRIALS:  # a range, which is ordered
        return min(bisect.bisect_left(range(space.size), value, key=space.at), space.size - 1)
    return next((place for place in range(space.size) if space.at(place) == value), 0)
