"""The run of a rehearsal: the experiment as it is, on few nodes, for some minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from hpcdist.errors import ConfigError, PlanError, Problem
from hpcdist.experiment.model import Replicas
from hpcdist.experiment.restart import Restart
from hpcdist.layers.frameworks import horovod, section_of
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.plan.model import End, Rehearsal, Restarts
from hpcdist.runs.rundir import RunDirectory
from hpcdist.units import Walltime

_RESERVE: Final = 120
"""Seconds of the job beside twice the notice: its start, and its end."""


_MOST_BYTES: Final = 1 << 26


class Small(NamedTuple):
    """The plan of a rehearsal, and the options that make the experiment as small."""

    made: Planned
    options: ExperimentOptions


def plan(options: ExperimentOptions, nodes: int, minutes: int, seed: int) -> Small:
    """Plan an experiment on so many nodes at most, for so many minutes or for twice its notice.

    It has the settings, the script and the launch of the real run, whose number of nodes it knows; nothing
    puts it into the queue again.

    Raises:
        ConfigError: if the experiment is invalid, or is not restarted; or is an array or a search.
        PlanError: if it does not fit the site.
    """
    real = plan_experiment(options)
    restart = _restart(real)
    notice = restart.notice_in(real.plan.request.walltime)
    seconds = max(60 * minutes, 2 * notice + _RESERVE)
    settings = [("batch.walltime", str(Walltime(seconds)))]
    settings += [] if restart.notice else [("environment.restart.notice", str(Walltime(notice)))]
    settings += [("environment.restart.spare_nodes", "0")] if restart.spare_nodes else []
    if real.plan.request.requeue:  # the batch system is not to begin it again by itself
        settings += [("batch.requeue", "false")]
        settings += [("environment.restart.by", "follow")] if restart.by else []
    made, options = _on_nodes(options._replace(settings=(*options.settings, *settings)), real, nodes)
    restarts = made.plan.completion.restarts
    if restarts is None:
        raise AssertionError("it was not restarted, which was checked")
    rehearsal = Rehearsal(
        ends=_ends(restarts, made.plan.placement.nodes),
        seed=seed,
        nodes=real.plan.placement.nodes,
        node_mtbf_hours=made.machine.site.node_mtbf_hours,
    )
    own = msgspec.structs.replace(restarts, by=None, rehearsal=rehearsal)
    completion = msgspec.structs.replace(made.plan.completion, restarts=own)
    return Small(made._replace(plan=msgspec.structs.replace(made.plan, completion=completion)), options)


def stored(directory: RunDirectory) -> Restarts:
    """Return the restarts of a rehearsal from the plan of its run.

    Raises:
        ConfigError: if the run is none.
    """
    try:
        data = json.loads(directory.read("plan.json", _MOST_BYTES))["completion"]["restarts"]
        found = msgspec.convert(data, Restarts)
    except (OSError, msgspec.ValidationError, ValueError, LookupError, TypeError, RecursionError):
        found = None
    if found is None or found.rehearsal is None:
        hint = "write the name of a run that `hpcdist rehearse` submitted"
        raise ConfigError(Problem(f"{directory.name} is no rehearsal", hint=hint))
    return found


def _restart(made: Planned) -> Restart:
    experiment = made.experiment
    if experiment.hptuning is not None or experiment.batch.array is not None:
        path = ("hptuning",) if experiment.hptuning is not None else ("batch", "array")
        hint = "write an experiment with one trial of it"
        raise ConfigError(made.document.locate(Problem("only a single training is rehearsed", path, hint)))
    if experiment.environment.restart is None:
        hint = "add `environment: {restart: {}}`, or --set environment.restart.max=10"
        raise ConfigError(Problem(f"{made.document.file} is not restarted after any end", hint=hint))
    return experiment.environment.restart


def _ends(restarts: Restarts, nodes: int) -> tuple[End, ...]:
    """Return what ends the attempts, of all that another attempt is to follow in the real run."""
    ends: tuple[End, ...] = ()
    if {"timeout", "preempt"} & {*restarts.on}:
        ends += ("notice",)
    if "failure" in restarts.on:
        ends += ("write",)
    if {"failure", "node_failure"} & {*restarts.on}:
        ends += ("node",)
    if "failure" in restarts.on and nodes > 1:
        ends += ("rank",)
    return ends


def _on_nodes(options: ExperimentOptions, real: Planned, nodes: int) -> Small:
    """Plan it with fewer workers and parameter servers, until it fits on these nodes.

    Raises:
        PlanError: if it does not fit with the fewest.
    """
    there = real.plan.placement.nodes
    section = real.experiment.environment.replicas or Replicas()
    if there <= nodes:
        return Small(plan_experiment(options), options)
    others = 0 if real.experiment.backend == "mpi" else 1
    workers = max(1 - others, (section.n_workers + others) * nodes // there - others)
    while True:
        fewer = options._replace(settings=(*options.settings, *_fewer(real, workers, others, nodes)))
        made = plan_experiment(fewer)
        if made.plan.placement.nodes <= nodes:
            return Small(made, fewer)
        if workers <= 1 - others:
            message = f"with the fewest replicas it has {made.plan.placement.nodes} nodes, more than {nodes}"
            hint = f"rehearse it with --nodes {made.plan.placement.nodes}"
            raise PlanError(real.document.locate(Problem(message, ("environment", "replicas"), hint)))
        workers -= 1


def _fewer(real: Planned, workers: int, others: int, nodes: int) -> Iterator[tuple[str, str]]:
    """Yield the settings for so many workers.

    Raises:
        ConfigError: if one that is left out has an entry of its own.
    """
    environment = real.experiment.environment
    section = environment.replicas or Replicas()
    for place, entry in enumerate(section.worker):
        if entry.index is not None and entry.index >= workers:
            message = f"worker {entry.index} has an entry of its own, and is left out on {nodes} nodes"
            path = ("environment", "replicas", "worker", place)
            hint = "rehearse it with more --nodes, or without that entry"
            raise ConfigError(real.document.locate(Problem(message, path, hint)))
    yield "environment.replicas.n_workers", str(workers)
    if section.n_ps > 1 and not section.ps:
        yield "environment.replicas.n_ps", "1"
    if real.experiment.batch.nodes:
        yield "batch.nodes", str(nodes)
    elastic = section_of(horovod.HorovodSection, real.experiment, "horovod").elastic
    for key in ("min_np", "max_np") if real.plan.completion.elastic else ():
        if number := getattr(elastic, key):
            least = number * (workers + others) // (section.n_workers + others)
            yield f"horovod.elastic.{key}", str(max(1, least))
