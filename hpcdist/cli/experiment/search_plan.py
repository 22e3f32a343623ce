"""The search of a plan: its trials and generations, how they share nodes, and how it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from hpcdist.loading.planning import Planned
from hpcdist.plan.model import Plan
from hpcdist.plan.trials import Pack, Sweep
from hpcdist.planner.request import whole_nodes
from hpcdist.schedulers import schedulers


def print_lines(made: Planned) -> None:
    """Print it, a line for each of these; nothing for other experiments."""
    for line in _lines(made):
        click.echo(line)


def _lines(made: Planned) -> Iterator[str]:
    plan = made.plan
    if plan.sweep is None:
        return
    yield f"{plan.sweep.summary} ({plan.origins['array']})"
    if plan.sweep.pack:
        yield _packing(plan, plan.sweep, plan.sweep.pack)
    elif why := _not_packed(made):
        yield f"not packed: {why}"
    if plan.sweep.generations:
        yield f"goes on: {_goes_on(plan)}"


def as_data(plan: Plan) -> dict[str, Any] | None:
    """Return it for JSON; None for other experiments."""
    sweep = plan.sweep
    if sweep is None:
        return None
    pack = sweep.pack
    return {
        "trials": sweep.trials,
        "most_trials": sweep.most_trials or sweep.trials,
        "generations": sweep.generations or 1,
        "params": [*sweep.params],
        "at_once": sweep.at_once,
        "packed": pack and {"workers": pack.workers, "nodes": pack.nodes, "per_node": pack.per_node},
        "goes_on": _goes_on(plan) if sweep.generations else None,
    }


def _packing(plan: Plan, sweep: Sweep, pack: Pack) -> str:
    """Return how the trials are packed, and how many have to end before the time limit."""
    nodes = f"{pack.nodes} node{'s' * (pack.nodes != 1)}"
    jobs = "each a job of its own" if plan.request.array and pack.nodes > 1 else "in one job"
    limit = f" within {plan.request.walltime}" if plan.request.walltime else ""
    rounds = pack.rounds(sweep.trials)
    what = f"about {rounds} trials one after another{limit}" if rounds > 1 else f"one trial{limit}"
    left = f"; {_left(plan)}" if plan.request.walltime else ""
    return f"packed ({pack.origin}): {pack.workers} at once on {nodes}, {jobs}; each worker runs {what}{left}"


def _left(plan: Plan) -> str:
    """Return what becomes of packed trials that do not end within the time limit of their job."""
    restarts = plan.completion.restarts
    if restarts and restarts.by and restarts.max and "timeout" in restarts.on:
        times = f"at most {restarts.max} times" if restarts.max > 1 else "once"
        return f"for those that are left a job goes into the queue again, {times}"
    return "`hpcdist sweep resume RUN` runs those that are left"


def _not_packed(made: Planned) -> str:
    """Return why each trial has whole nodes of its own, where the site gives these; else nothing."""
    plan, site = made.plan, made.machine.site
    key = whole_nodes(site, plan.placement)
    if key is None:
        return ""
    if made.experiment.batch.pack is False:
        why = "`batch.pack` is false"
    elif made.experiment.batch.exclusive is not None:
        why = "`batch.exclusive` is set"
    elif plan.launch.mode == "once":
        why = "its command starts the tasks of a trial"
    elif plan.placement.size > 1:
        why = f"each is {plan.placement.size} tasks, and a worker would be one"
    else:
        why = "no two fit on a node"
    return f"{why}, so each trial has whole nodes (site {site.name}: {key})"


def _goes_on(plan: Plan) -> str:
    """Return how the next generations are submitted, and why not now."""
    ways = "`hpcdist sweep advance RUN --wait` or `submit --wait` from here"
    if schedulers.get(plan.identity.scheduler).is_batch_system:
        ways += ", or `--by-job`"
    return f"by {ways}: later trials follow from what earlier ones have reached"
