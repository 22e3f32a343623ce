"""``hpcdist plan``: the map of tasks on nodes with their variables; equal rows are folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import click
from msgspec.structs import asdict

from hpcdist.base.errors import HpcdistError
from hpcdist.base.units import Walltime
from hpcdist.cli import costs, show
from hpcdist.cli.messages import one_line
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import pipeline_of, planned_as_submitted, runs_here
from hpcdist.layers.variables import Wiring
from hpcdist.loading.planning import ExperimentOptions, Planned, replanned
from hpcdist.plan import folding
from hpcdist.plan.folding import Gap, counted, devices, kind_of, number_list
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Group, Task
from hpcdist.plan.trials import Pack, Sweep
from hpcdist.plan.values import Origin
from hpcdist.planner.placement import part_of_node
from hpcdist.planner.request import whole_nodes
from hpcdist.planner.worst_case import JobShape, number, shapes
from hpcdist.runs.rundir import timestamp
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Estimate, Scheduler
from hpcdist.site.model import Site, Source
from hpcdist.site.provenance import source_of

# --- The search of a plan: its trials and generations, how trials share nodes, and how the search continues


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
    return "`hpcdist resume RUN` runs those that are left"


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


# --- ``hpcdist plan``

_MANY_CHARACTERS = 400
"""Longer values are truncated, such as TF_CONFIG for 2,000 workers; ``--json`` prints them whole."""
_LONG_CHARACTERS = 24
_UNREMARKABLE = ("", "the default partition", "the only partition")
"""Reasons for a partition that only `explain` shows."""
_UNKNOWN_BALANCE = "not known: the site has no command for it, and the batch system no limit of this account"


@click.command("plan")
@experiment_options
@on_option
@click.option(
    "--when", is_flag=True,
    help="Ask the batch system when the job would start, and when it would with less time, on fewer nodes or "
    "in another partition.",
)  # fmt: skip
@click.option("--balance", is_flag=True, help="Ask what the account has left.")
@click.option("--explain", is_flag=True, help="Show where every value of the job script comes from.")
@json_option
def command(options: ExperimentOptions, when: bool, balance: bool, explain: bool, json: bool) -> None:
    """Show which tasks run on which nodes, and why.

    Nodes, CPUs and GPUs are numbered from 0 within the job; the batch system assigns the real ones.
    """
    if explain and (when or balance):
        raise click.UsageError("--explain cannot be combined with --when or --balance.")
    document, is_pipeline = pipeline_of(options)
    if document and is_pipeline:
        from hpcdist.cli.jobs import pipeline  # with what submits runs

        if when or balance or explain:
            raise click.UsageError("A pipeline has no --when, no --balance and no --explain.")
        pipeline.show_plan(options, document, runs_here(), json=json)
        return
    made = planned_as_submitted(options, document)
    if explain:
        show_origins(made, json=json)
        return
    if when or balance:
        _check_here(options)
        _ask(made, when=when, balance=balance, json=json)
        return
    if json:
        data = {**costs.as_data(made), "search": as_data(made.plan)}
        show.as_json({**data, "tasks": [*records(made.plan)]})
        return
    _show_tasks(made)


def _show_tasks(made: Planned) -> None:
    """Print the map of tasks on nodes, with their variables."""
    plan = made.plan
    wiring = Wiring(plan)
    click.echo(f"{plan.identity.name} on site {plan.identity.site}: {plan.summary}")
    if named := plan.origins.get("nodes"):
        click.echo(f"nodes: {plan.placement.nodes} (named by {named})")
    print_lines(made)
    costs.print_cost(made)
    _print_excluded(plan)
    for line in _of_groups(made):
        click.echo(line)
    shown = [*folding.shown(plan.placement)]
    numbers = {task.rank: devices(plan, task) for task in shown if isinstance(task, Task)}
    own = any(task.gpus != numbers[task.rank] for task in shown if isinstance(task, Task))
    heads = ("node", "rank", "role", "cpus", "gpus", *(["device"] if own else []), "memory")
    show.table(heads, (_row(item, numbers if own else {}) for item in shown))
    for variable in {
        item.name: item
        for item in plan.environment.task_variables
        if item.name in plan.environment.framework_variables
    }.values():
        if form := variable.origin.reason:
            click.echo(f"{variable.name}: {form}")
    _show_environment("all tasks", wiring.shared)
    _show_task_variables({task.rank: wiring.of(task) for task in shown if isinstance(task, Task)})


def _print_excluded(plan: Plan) -> None:
    if names := plan.request.exclude_nodes:
        click.echo(f"excluded nodes: {', '.join(names)} ({plan.origins['exclude_nodes']})")


def _check_here(options: ExperimentOptions) -> None:
    """Refuse to ask the batch system of this machine about a job of a remote."""
    if options.remote is not None:
        raise click.UsageError("--when and --balance are answered by this machine: use them on the remote.")


def _ask(made: Planned, *, when: bool, balance: bool, json: bool) -> None:
    """Print what the batch system and the site answer about the job, in place of its map."""
    from hpcdist.cli.jobs import runs  # with what asks the batch system

    services = runs.services()
    standing = costs.ask(made, services.runner) if balance else None
    found = [*starts(made, services)] if when else []
    if json:
        data = costs.as_data(made)
        data |= {"balance": standing.as_data()} if standing else {}
        show.as_json(data | ({"starts": [*map(starts_as_data, found)]} if when else {}))
        return
    click.echo(f"{made.plan.identity.name} on site {made.plan.identity.site}: {made.plan.summary}")
    costs.print_cost(made)
    for text in (standing.texts(made) or [_UNKNOWN_BALANCE]) if standing else ():
        click.echo(f"balance: {text}")
    if when:
        show.table(HEADS, map(row, found))


def records(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a record of each task for ``--json``: its placement and its variables."""
    wiring = Wiring(plan)
    for task in plan.placement.tasks:
        yield asdict(task) | {"devices": devices(plan, task), "variables": wiring.shared | wiring.of(task)}


def _show_task_variables(by_rank: Mapping[int, Mapping[str, str]]) -> None:
    """Print the variables of each rank: as one table, but those with a long value below it."""
    long = {name for own in by_rank.values() for name, value in own.items() if len(value) > _LONG_CHARACTERS}
    names = [name for name in {name: None for own in by_rank.values() for name in own} if name not in long]
    if names:
        show.table(
            ("rank", *names),
            ((str(rank), *(own.get(name, "-") for name in names)) for rank, own in by_rank.items()),
        )
    for rank, own in by_rank.items():
        _show_environment(f"rank {rank}", {name: own[name] for name in own if name in long})


def _show_environment(title: str, environment: Mapping[str, str]) -> None:
    if environment:
        click.echo(title)
    for name, value in environment.items():
        rest = len(value) - _MANY_CHARACTERS
        more = f"... ({rest} characters more: --json)" if rest > 0 else ""
        click.echo(f"  {name}={value[:_MANY_CHARACTERS]}{more}")


def _of_groups(made: Planned) -> Iterator[str]:
    """Yield the nodes of each group, and what the job has of each, where a batch system shares them out."""
    is_batch_system = schedulers.get(made.machine.site.scheduler).is_batch_system
    for group in made.plan.placement.groups:
        if title := _title(group):
            yield title
        if is_batch_system:
            yield _part(group, made)


def _title(group: Group) -> str:
    kind = kind_of(group)
    why = "" if group.reason in _UNREMARKABLE else f" ({group.reason})"
    return f"{counted('node', group.node, group.nodes)}: {kind}{why}" if kind else ""


def _part(group: Group, made: Planned) -> str:
    alone = made.plan.request.exclusive
    nodes = "each whole node" if alone else "each node" if group.even else "the fullest node"
    return f"of {nodes}: {part_of_node(group, made.machine.site, exclusive=alone)}"


def _row(task: Task | Gap, numbers: Mapping[int, tuple[int, ...]]) -> tuple[str, ...]:
    if isinstance(task, Gap):
        nodes = task.what == "nodes"
        return (
            ("...", "", f"{task.count} nodes like these")
            if nodes
            else ("", "...", f"{task.count} like these")
        )
    return (
        str(task.node),
        str(task.rank),
        task.role if task.role == "master" else f"{task.role} {task.index}",
        number_list(task.cpus),
        number_list(task.gpus),
        *([(",".join(map(str, numbers[task.rank])) or "-")] if numbers else []),
        "-" if task.memory is None else f"{task.memory} MiB",
    )


# --- ``hpcdist plan --explain``, for short ``hpcdist explain``: every decision with its origin


@click.command("explain")
@experiment_options
@on_option
@json_option
def explain(options: ExperimentOptions, json: bool) -> None:
    """The same as plan --explain."""
    show_origins(planned_as_submitted(options), json=json)


def show_origins(made: Planned, *, json: bool) -> None:
    """Print every decision of a plan, and every line of its script, with its origin."""
    from hpcdist.script import explained  # few verbs write scripts

    site = ("decided", f"site: {made.plan.identity.site}", Origin("place", made.machine.origin))
    found = [site, *explained.lines(made.plan)]
    sources = [_source(made.machine.site, origin) for _, _, origin in found]
    if json:
        keys = ("section", "what", "origin", "source")
        show.as_json(
            [
                dict(zip(keys, (section, what, str(origin), source), strict=True))
                for (section, what, origin), source in zip(found, sources, strict=True)
            ]
        )
    else:
        _print(found, sources)


def _print(found: Sequence[tuple[str, str, Origin]], sources: Sequence[Source | None]) -> None:
    """Print all lines, each with the number of its source, then the list of sources."""
    cited = list(dict.fromkeys(source for source in sources if source))
    marks = [f" [{cited.index(source) + 1}]" if source else "" for source in sources]
    rows = [
        (section, what, f"{origin}{mark}") for (section, what, origin), mark in zip(found, marks, strict=True)
    ]
    for at, source in enumerate(cited, 1):
        by = "" if source.by == "centre" else f", by a {source.by}"
        rows.append(("sources", f"[{at}] {source.where}", f"read {source.read}{by}"))
    for place, (section, members) in enumerate(groupby(rows, key=lambda row: row[0])):
        click.echo(f"{chr(10) * bool(place)}{section}")
        show.table((), [(f"  {_short(what)}", origin) for _, what, origin in members])


def _source(site: Site, origin: Origin) -> Source | None:
    return source_of(site, origin.key) if origin.kind == "site" else None


def _short(text: str) -> str:
    return text.replace("\n", "\\n")


# --- ``hpcdist plan --when``: when the job would start, and others that may start earlier


HEADS = ("shape", "partition", "nodes", "walltime", "GPU-hours", "start", "in")


class Start(NamedTuple):
    """A shape of the job, its plan, and when it would start; ``asked_at``: in seconds since 1970."""

    what: str
    made: Planned
    estimate: Estimate
    asked_at: float

    @property
    def wait(self) -> float | None:
        """Seconds until it starts."""
        return None if self.estimate.start is None else max(0.0, self.estimate.start - self.asked_at)


def starts(made: Planned, services: Services) -> Iterator[Start]:
    """Yield the job as it is and, where that can be asked for, others that the site takes.

    Only the job as it is where the batch system does not answer.
    """
    from hpcdist.script.renderer import render  # as above

    scheduler = schedulers.get(made.plan.identity.scheduler)
    batch = scheduler.starts
    for shape in shapes(made.experiment, made.machine.site, made.plan):
        planned = _planned(made, shape)
        if planned is None:
            continue
        command = batch.test(render(planned.plan)) if batch else None
        if batch is None or command is None:
            yield Start(shape.what, planned, Estimate(why=_unasked(scheduler)), services.now())
            return
        completed = services.runner.run(command)
        yield Start(shape.what, planned, batch.read_test(completed), services.now())
        if completed.missing or completed.timed_out:
            return


def _unasked(scheduler: Scheduler) -> str:
    if not scheduler.is_batch_system:
        return "there is no batch system, and it would start at once"
    return f"{scheduler.name} has no estimate for a job that is not submitted"


def _planned(made: Planned, shape: JobShape) -> Planned | None:
    """Return the plan of a shape; None where the site does not take it."""
    try:
        return made if shape.experiment is made.experiment else replanned(made, shape.experiment)
    except HpcdistError:
        return None


def row(start: Start) -> tuple[str, ...]:
    """Return the line of the table."""
    data = starts_as_data(start)
    wait = start.wait
    return (
        start.what,
        str(data["partition"] or "-"),
        str(data["nodes"]),
        str(data["walltime"] or "-"),
        "-" if data["gpu_hours"] is None else number(data["gpu_hours"]),
        data["start"] or f"not known: {one_line(start.estimate.why)}",
        "" if wait is None else str(Walltime(round(wait))),
    )


def starts_as_data(start: Start) -> dict[str, Any]:
    """Return it for JSON."""
    plan, cost, at = start.made.plan, start.made.cost, start.estimate.start
    partitions = dict.fromkeys(
        group.site_partition for group in plan.placement.groups if group.site_partition
    )
    return {
        "shape": start.what,
        "partition": ", ".join(partitions) or None,
        "nodes": plan.placement.nodes + plan.own_nodes,
        "walltime": str(plan.request.walltime) if plan.request.walltime else None,
        "gpu_hours": cost.gpu_hours if cost else None,
        "start": None if at is None else timestamp(at),
        "wait_seconds": start.wait,
        "why": start.estimate.why,
    }
