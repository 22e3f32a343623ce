"""Plans from the recorded experiment of a run: for further jobs, or for a new run."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.tree import Map
from hpcdist.experiment.replicas import replica_count, workers_on
from hpcdist.experiment.search import Search
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import awaited, copying, requests, rundir
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.remotes import machines
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitRequest
from hpcdist.script import trial_table
from hpcdist.tracking import trial_params

_COUNTS: Final = ("random_search", "grid_search")
_OTHERS: Final = "submit the search once more; this version of hpcdist chooses other trials"
_FILE: Final = "experiment.yml"
_MOST: Final = 1 << 26

Pairs = tuple[tuple[str, str], ...]


# --- What a run recorded of its experiment


def text_of(run: Run) -> str:
    """Return the text of its experiment, as the user wrote it.

    Raises:
        ConfigError: if its file cannot be read.
    """
    return _read(run, _FILE)


def _read(run: Run, name: str) -> str:
    try:
        return run.directory.read(name, _MOST).decode("utf-8", "replace")
    except OSError as error:
        problem = Problem(f"{run.directory.path / name} cannot be read: {error.strerror}")
        raise ConfigError(problem) from error


def recorded_options(run: Run) -> ExperimentOptions:
    """Return the options with which its experiment is read as it was submitted.

    Raises:
        ConfigError: if its options cannot be read.
    """
    try:
        words = msgspec.json.decode(_read(run, rundir.OPTIONS), type=list[str])
        pairs = [*zip(words[::2], words[1::2], strict=True)]
    except ValueError as error:
        raise ConfigError(Problem(f"{run.directory.path / rundir.OPTIONS} is invalid: {error}")) from error
    assigned = [(option, text.partition("=")[::2]) for option, text in pairs]
    last = dict(pairs)
    return ExperimentOptions(
        str(run.directory.path / _FILE),
        site=last.get("--site", run.record.site),
        site_path=tuple(text for option, text in pairs if option == "--site-path"),
        params=tuple(pair for option, pair in assigned if option == "-p"),
        settings=(
            *(pair for option, pair in assigned if option == "--set"),
            ("name", json.dumps(run.record.name)),
        ),
        form=last.get("--from", ""),
        job=last.get("--name", ""),
    )


def search_of(run: Run) -> Search | None:
    """Return the search as it was submitted.

    Raises:
        ConfigError: as `recorded_options`, or if its experiment is invalid now.
    """
    return planning.loaded(recorded_options(run)).experiment.hptuning


def batch_of(run: Run) -> tuple[ExperimentOptions, dict[str, Any]]:
    """Return the options with which the experiment is read, and its section ``batch``.

    Raises:
        ConfigError: as `search_of`.
    """
    options = recorded_options(run)
    return options, msgspec.structs.asdict(planning.loaded(options).experiment.batch)


# --- Plans of further jobs of a run that is no search


class Changes(NamedTuple):
    """Overrides for a follow-up job: params and settings as in `ExperimentOptions`, and its nodes.

    On another number of ``nodes``, each has as many replicas as before.
    """

    params: Pairs = ()
    settings: Pairs = ()
    nodes: int | None = None


NO_CHANGES: Final = Changes()


def plan_run(
    run: Run, services: Services, changes: Changes = NO_CHANGES, awaiting: Awaiting | None = None
) -> Planned:
    """Plan a run that is no search once more, with these changes.

    ``awaiting``: finds the runs that it waits for.

    Raises:
        ConfigError: if the result is invalid now, or its replicas do not fit so many nodes.
        PlanError: if the site does not take it any more.
    """
    options = recorded_options(run)
    options = options._replace(
        params=(*options.params, *changes.params), settings=(*options.settings, *changes.settings)
    )
    made = _plan(run, options, services, awaiting)
    if changes.nodes is None or changes.nodes == made.plan.placement.nodes:
        return made
    spread = _spread(run, made, changes.nodes)
    return _plan(run, options._replace(settings=(*options.settings, *spread)), services, awaiting)


def _plan(
    run: Run, options: ExperimentOptions, services: Services, awaiting: Awaiting | None = None
) -> Planned:
    """Return the plan with suspect nodes excluded, if the experiment wants that.

    It has only the warnings about them: `submit` has printed the others.
    """
    runs_dir, remote = run.directory.path.parent, run.record.remote
    awaiting = awaiting or partial(awaited.resolved, runs_dir=runs_dir, services=None, remote=remote)
    made = planning.plan_experiment(options, awaiting=awaiting)
    return services.without_suspects(made._replace(problems=()), runs_dir)


def _spread(run: Run, made: Planned, nodes: int) -> Pairs:
    """Return the settings for so many nodes, each with as many replicas as in the plan."""
    total, there = replica_count(made.experiment), made.plan.placement.nodes
    workers = workers_on(made.experiment, nodes, there)
    if total % there or workers < 0:
        message = f"the {total} replicas of {run.name} on {there} nodes cannot be spread over {nodes} alike"
        hint = "give their number: --set environment.replicas.n_workers=N"
        raise ConfigError(Problem(message, hint=hint))
    return (("environment.replicas.n_workers", str(workers)), ("batch.nodes", str(nodes)))


# --- Plans of further jobs of a search


def plan_search(
    run: Run, services: Services, *, count: int | None = None, more: Sequence[Mapping[str, Any]] = ()
) -> Planned:
    """Plan a search again, with all its trials, with this number of trials, or with these added.

    Raises:
        ConfigError: if the result is invalid now, or its trials differ from the run's.
        PlanError: if the site does not take it any more.
    """
    options, known = recorded_options(run), trial_params.of(run)
    loaded = planning.loaded(options)
    search = loaded.experiment.hptuning
    if search and (search.is_adaptive or more):
        section = _of_trials(search, [*known.values(), *more])
        own = ("hptuning", _text_of(section, _spellings(loaded.document.data)))
        return _plan(run, options._replace(settings=(*options.settings, own)), services)
    if (count or len(known)) != len(loaded.trials):
        name = next((name for name in _COUNTS if search and getattr(search, name)), "grid_search")
        own = (f"hptuning.{name}.n_experiments", str(count or len(known)))
        options = options._replace(settings=(*options.settings, own))
    made = _plan(run, options, services)
    _check_same(run, known, made.trials)
    return made


def jobs_of(made: Planned, numbers: Collection[int], run: Run) -> list[Planned]:
    """Return the plans of further jobs of the run, for these trials of the whole plan."""
    first = len(run.jobs) + 1
    chosen = [trial for trial in made.trials if trial.number in numbers]
    return planning.in_jobs(planning.of_trials(made, chosen, first), first)


def _of_trials(search: Search, params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a section with these trials, and the search's other settings for how trials run.

    Params of the file, which each trial has too, are not repeated.
    """
    own = ({name: trial[name] for name in search.names if name in trial} for trial in params)
    only: dict[str, Any] = msgspec.to_builtins(search.of_trials(own))
    kept = ("mapping", "concurrency", "seed", "metric", "max_failures")
    return {name: only[name] for name in kept if only[name] is not None}


def _spellings(data: Map) -> dict[tuple[str, str], str]:
    """Return the source text of each number that a param of the search may have: ``1.10``, ``0x10``."""
    matrix = data["hptuning"].get("matrix") or Map()
    listed = {name: space["values"] for name, space in matrix.items() if space.get("values")}
    return {
        (name, json.dumps(values[at])): text
        for name, values in listed.items()
        for at, text in reversed(values.texts.items())
        if type(values[at]) in (int, float)
    }


def _text_of(section: Mapping[str, Any], spellings: Mapping[tuple[str, str], str]) -> str:
    """Return the section as text, with numbers as they were written: names may contain them."""

    def shown(name: str, value: object) -> str:
        text = json.dumps(value)
        return f"{json.dumps(name)}: {spellings.get((name, text), text)}"

    trials = (", ".join(shown(*param) for param in trial.items()) for trial in section["mapping"])
    others = json.dumps({name: value for name, value in section.items() if name != "mapping"})
    return f'{others[:-1]}, "mapping": [{", ".join(f"{{{trial}}}" for trial in trials)}]}}'


def _check_same(run: Run, known: Mapping[str, Mapping[str, Any]], found: Sequence[TrialTexts]) -> None:
    """Check that the trials are the run's: another version of hpcdist may choose others."""
    for number, params in known.items():
        place = int(number) - 1
        if place < len(found) and _sorted(trial_table.params_of(found[place])) != _sorted(params):
            raise ConfigError(Problem(f"trial {number} of {run.name} has other params now", hint=_OTHERS))


def _sorted(params: Mapping[str, Any] | None) -> str:
    return json.dumps(params, sort_keys=True)


# --- A new run of the recorded experiment: what `restart` submits


class NewRun(NamedTuple):
    """How a new run differs from the recorded one, and what it starts with."""

    site: str | None = None
    params: Pairs = ()
    settings: Pairs = ()
    update: bool = False
    """Whether to copy the code again from the folder where the run was submitted."""
    copies: bool = False
    """Whether to start with copies of the run's outputs and checkpoints."""


def resubmission(
    run: Run,
    runs_dir: Path,
    new: NewRun,
    services: Services,
    plan: Callable[[ExperimentOptions], Planned],
) -> tuple[SubmitRequest, Planned, Services]:
    """Return the request of a new run of this experiment, its plan, and the services that submit it.

    ``plan`` makes the plan, with suspect nodes excluded. A run of a remote is submitted there again.

    Raises:
        ConfigError: if its experiment cannot be read, or as `submitting.target`.
        PlanError: if the site does not take it any more.
        SchedulerError: if its remote does not answer.
    """
    options = recorded_options(run)
    options = options._replace(
        site=new.site or options.site,
        params=(*dict([*options.params, *new.params]).items(),),  # the last value of a name counts
        settings=(*dict([*options.settings, *new.settings]).items(),),
        remote=run.record.remote or None,
    )
    made = plan(options)
    request = _request(run, runs_dir, new, options, made, services)
    if run.record.remote:
        begins_with = run.record.there if new.copies else ""
        target = machines.target(options)
        request, services = target.prepare(request, made, runs_dir, services, begins_with)
    return request, made, services


def _request(  # noqa: PLR0913, PLR0917 - of a run, with what its new run is made of
    run: Run, runs_dir: Path, new: NewRun, options: ExperimentOptions, made: Planned, services: Services
) -> SubmitRequest:
    name = run.name if run.directory.path.parent == runs_dir else str(run.directory.path)
    mark = f"{'copy' if new.copies else 'restart'} of {name}"
    prepare = partial(requests.recorded_code, run, made, runner=services.runner, update=new.update)
    request = requests.of(made, options, services.runner, text=text_of(run), mark=mark)
    return request._replace(
        code=partial(_code_and_copies, run, prepare) if new.copies else prepare,
        restart_of="" if new.copies else name,
        copy_of=name if new.copies else "",
    )


def _code_and_copies(
    run: Run, prepare: Callable[[RunDirectory], CodeResult], directory: RunDirectory
) -> CodeResult:
    """Put the code into the new run, and copies of outputs and checkpoints."""
    found = prepare(directory)
    begin = copying.mark if run.record.remote else copying.copy  # the remote copies its own files
    try:
        begin(run.directory, directory)
    except OSError as error:
        place = error.filename or run.directory.path
        hint = "is the disk full, or your quota used up?"
        raise ConfigError(Problem(f"{place} cannot be copied: {error.strerror}", hint=hint)) from error
    return found
