"""The plan of a run once more, from what it keeps of the experiment, for further jobs of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from hpcdist.checks.nodes import without_suspects
from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Problem
from hpcdist.experiment.model import Replicas
from hpcdist.experiment.replica import blocks
from hpcdist.experiment.search.model import Search
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import awaited, rundir
from hpcdist.runs.rundir import Run
from hpcdist.script import trial_table
from hpcdist.tracking import trial_params

_COUNTS: Final = ("random_search", "grid_search")
_OTHERS: Final = "submit the search once more; this version of hpcdist chooses other trials"
_FILE: Final = "experiment.yml"
_MOST: Final = 1 << 26


def planned(run: Run, count: int | None = None, more: Sequence[Mapping[str, Any]] = ()) -> Planned:
    """Plan a search once more, with all its trials, or with so many, or with these in addition.

    Raises:
        ConfigError: if that is invalid now, or has other trials than the run.
        PlanError: if the site does not take it any more.
    """
    options, known = recorded(run), trial_params.of(run)
    loaded = planning.loaded(options)
    search = loaded.experiment.hptuning
    if search and (search.is_adaptive or more):
        section = _of_trials(search, [*known.values(), *more])
        own = ("hptuning", _text_of(section, _spellings(loaded.document.data)))
        return _plan(run, options._replace(settings=(*options.settings, own)))
    if (count or len(known)) != len(loaded.trials):
        name = next((name for name in _COUNTS if search and getattr(search, name)), "grid_search")
        own = (f"hptuning.{name}.n_experiments", str(count or len(known)))
        options = options._replace(settings=(*options.settings, own))
    made = _plan(run, options)
    _check_same(run, known, made.trials)
    return made


def _plan(run: Run, options: ExperimentOptions, awaiting: Awaiting | None = None) -> Planned:
    """Return the plan without the nodes that are suspect now, where the experiment wants that.

    Its warnings are about those alone: `submit` has printed the others.
    """
    made = planning.plan_experiment(options, awaiting=awaiting or _awaiting(run))
    return without_suspects(made._replace(problems=()), run.directory.path.parent)


def _awaiting(run: Run) -> Awaiting:
    """Return how runs are found for which the run waits; those that have completed are left out."""
    runs_dir = run.directory.path.parent
    return partial(awaited.resolved, runs_dir=runs_dir, services=None, remote=run.record.remote)


class Changes(NamedTuple):
    """What a further job has in another way than the experiment of its run.

    ``params`` and ``settings``: as in `ExperimentOptions`. ``nodes``: the number of nodes, each with as many
    replicas as before.
    """

    params: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    nodes: int | None = None


NO_CHANGES: Final = Changes()


def changed(run: Run, changes: Changes, awaiting: Awaiting | None = None) -> Planned:
    """Plan a run that is no search once more, with these changes.

    ``awaiting``: how runs for which it waits are found.

    Raises:
        ConfigError: as `planned`, or if its replicas cannot be on so many nodes.
        PlanError: as `planned`.
    """
    options = recorded(run)
    options = options._replace(
        params=(*options.params, *changes.params), settings=(*options.settings, *changes.settings)
    )
    made = _plan(run, options, awaiting)
    if changes.nodes is None or changes.nodes == made.plan.placement.nodes:
        return made
    spread = _spread(run, made, changes.nodes)
    return _plan(run, options._replace(settings=(*options.settings, *spread)), awaiting)


def _spread(run: Run, made: Planned, nodes: int) -> tuple[tuple[str, str], ...]:
    """Return the settings with which so many nodes have as many replicas each as those of the plan."""
    total = sum(block.count for block in blocks(made.experiment, per_gpu=False))
    there = made.plan.placement.nodes
    workers = (made.experiment.environment.replicas or Replicas()).n_workers
    more = total // there * nodes - total
    if total % there or workers + more < 0:
        message = f"the {total} replicas of {run.name} on {there} nodes cannot be spread over {nodes} alike"
        hint = "give their number: --set environment.replicas.n_workers=N"
        raise ConfigError(Problem(message, hint=hint))
    return (("environment.replicas.n_workers", str(workers + more)), ("batch.nodes", str(nodes)))


def search_of(run: Run) -> Search | None:
    """Return the search as it was submitted.

    Raises:
        ConfigError: as `planned`.
    """
    return planning.loaded(recorded(run)).experiment.hptuning


def batch_of(run: Run) -> tuple[ExperimentOptions, dict[str, Any]]:
    """Return the options with which the search is read, and its section ``batch``.

    Raises:
        ConfigError: as `planned`.
    """
    options = recorded(run)
    return options, msgspec.structs.asdict(planning.loaded(options).experiment.batch)


def of_numbers(run: Run, numbers: Collection[int]) -> list[Planned]:
    """Return the plans of further jobs of the run for the trials with these numbers."""
    return jobs_of(planned(run), numbers, run)


def jobs_of(made: Planned, numbers: Collection[int], run: Run) -> list[Planned]:
    """Return the plans of further jobs of the run, for these trials of a plan of all."""
    first = len(run.jobs) + 1
    chosen = [trial for trial in made.trials if trial.number in numbers]
    return planning.in_jobs(planning.of_trials(made, chosen, first), first)


def _of_trials(search: Search, params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a section that has these trials, and what else the search says of how they run.

    Params of the file, which trials have beside those of the search, are not repeated.
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
    """Return the section as a text with numbers as they were written: they may be part of a name."""

    def shown(name: str, value: object) -> str:
        text = json.dumps(value)
        return f"{json.dumps(name)}: {spellings.get((name, text), text)}"

    trials = (", ".join(shown(*param) for param in trial.items()) for trial in section["mapping"])
    others = json.dumps({name: value for name, value in section.items() if name != "mapping"})
    return f'{others[:-1]}, "mapping": [{", ".join(f"{{{trial}}}" for trial in trials)}]}}'


def _check_same(run: Run, known: Mapping[str, Mapping[str, Any]], found: Sequence[TrialTexts]) -> None:
    """Check that the trials are those that the run has: a later version may choose others."""
    for number, params in known.items():
        place = int(number) - 1
        if place < len(found) and _sorted(trial_table.params_of(found[place])) != _sorted(params):
            raise ConfigError(Problem(f"trial {number} of {run.name} has other params now", hint=_OTHERS))


def _sorted(params: Mapping[str, Any] | None) -> str:
    return json.dumps(params, sort_keys=True)


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


def _options(run: Run) -> list[tuple[str, str]]:
    """Return the options of the submission with their texts."""
    text = _read(run, rundir.OPTIONS)
    try:
        words = msgspec.json.decode(text, type=list[str])
        return [*zip(words[::2], words[1::2], strict=True)]
    except ValueError as error:
        raise ConfigError(Problem(f"{run.directory.path / rundir.OPTIONS} is invalid: {error}")) from error


def recorded(run: Run) -> ExperimentOptions:
    """Return the options with which its experiment is read as it was submitted.

    Raises:
        ConfigError: if its options cannot be read.
    """
    pairs = _options(run)
    named = [(option, text.partition("=")) for option, text in pairs]
    last = dict(pairs)
    return ExperimentOptions(
        str(run.directory.path / _FILE),
        site=last.get("--site", run.record.site),
        site_path=tuple(text for option, text in pairs if option == "--site-path"),
        params=tuple((text[0], text[2]) for option, text in named if option == "-p"),
        settings=(
            *((text[0], text[2]) for option, text in named if option == "--set"),
            ("name", json.dumps(run.record.name)),
        ),
        form=last.get("--from", ""),
        job=last.get("--name", ""),
    )
