"""Pipelines, as the verbs show and submit them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.base.tree import Document
from hpcdist.cli import costs, show
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, one_line, print_problems
from hpcdist.cli.session import planned, remote_or_here
from hpcdist.loading import machine
from hpcdist.loading.machine import Here
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.planner.worst_case import number
from hpcdist.runs import submission
from hpcdist.runs.rundir import Run
from hpcdist.runs.submission import SubmitOutput
from hpcdist.script.renderer import render
from hpcdist.studies import pipeline_runs, pipeline_submit
from hpcdist.studies.pipeline_file import read_pipeline
from hpcdist.studies.pipeline_plan import PlannedOperation
from hpcdist.studies.pipeline_runs import OperationState, StoredPipeline
from hpcdist.studies.pipeline_submit import PipelineRequest

_HEADS: Final = ("operation", "after", "run", "job", "state", "exit", "reason")


def _request(options: ExperimentOptions, document: Document, runs_dir: Path) -> PipelineRequest:
    """Read a file, and print the warnings and notes on it as a pipeline."""
    pipeline = read_pipeline(document, options)
    print_problems(pipeline.problems)
    plan = partial(_plan, runs_dir, machine.here())
    return PipelineRequest(pipeline, options, runs_dir, plan, remote_or_here(options))


def _planned(request: PipelineRequest) -> list[PlannedOperation]:
    """Plan all operations, and print their warnings and notes."""
    found = pipeline_submit.plan(request)
    print_problems(dict.fromkeys(problem for step in found for problem in step.made.problems))
    return found


def _plan(
    runs_dir: Path, find: Here, options: ExperimentOptions, document: Document, awaiting: Awaiting
) -> Planned:
    return planned(options, document, runs_dir=runs_dir, awaiting=awaiting, shown=False, find=find)


def check(options: ExperimentOptions, document: Document, runs_dir: Path, *, quiet: bool) -> None:
    """Print warnings and notes, and what runs where."""
    steps = _planned(_request(options, document, runs_dir))
    for step in steps:
        render(step.made.plan)
        print_problems(step.made.unusual)
    for step in () if quiet else steps:
        click.echo(f"ok: {step.operation.name}: {step.made.summary}")


def show_plan(options: ExperimentOptions, document: Document, runs_dir: Path, *, json: bool) -> None:
    """Print what each operation waits for, and what of it runs where."""
    steps = _planned(_request(options, document, runs_dir))
    needs = {step.operation.name: [need[:2] for need in step.operation.needs] for step in steps}
    nodes = pipeline_runs.operation_graph(needs, {})
    if json:
        keys = ("operation", "needs")
        named = [{key: node.as_data()[key] for key in keys} for node in nodes]
        pairs = zip(named, (step.made for step in steps), strict=True)
        show.as_json([row | {"summary": made.summary} | costs.as_data(made) for row, made in pairs])
        return
    has_cost = any(step.made.cost for step in steps)
    own = ((step.made.summary, *([_cost(step.made)] if has_cost else [])) for step in steps)
    rows = ((_name(node), _after(node), *cells) for node, cells in zip(nodes, own, strict=True))
    show.table(("operation", "after", "runs", *(["at most"] if has_cost else [])), rows)
    _print_costs(steps)


def _cost(made: Planned) -> str:
    cost = made.cost
    hours = f"{number(cost.node_hours)} node-hours" if cost else "-"
    return f"{number(cost.gpu_hours)} GPU-hours, {hours}" if cost and cost.gpus else hours


def _print_costs(steps: Sequence[PlannedOperation]) -> None:
    for title, text in costs.rows_of_all(step.made for step in steps):
        click.echo(f"{title}: {text}")


def show_scripts(options: ExperimentOptions, document: Document, runs_dir: Path, *, json: bool) -> None:
    """Print each script; a job that does not exist yet has its place as its id."""
    _print_scripts(_planned(_request(options, document, runs_dir)), json=json)


def _print_scripts(steps: Sequence[PlannedOperation], *, json: bool) -> None:
    scripts = {step.operation.name: render(step.made.plan) for step in steps}
    if json:
        show.as_json([{"operation": name, "script": script} for name, script in scripts.items()])
        return
    for place, (name, script) in enumerate(scripts.items(), 1):
        click.echo(f"==> {name}: job {place} of {len(scripts)} <==")
        click.echo(script, nl=False)


def submit(  # noqa: PLR0913 - one argument an option
    options: ExperimentOptions, document: Document, runs_dir: Path, *, again: bool, dry_run: bool, json: bool
) -> list[Run]:
    """Plan all operations, then submit them in their order; return their runs.

    Raises:
        HpcdistError: as `pipeline_submit.plan` and `submit_planned`.
    """
    request = _request(options, document, runs_dir)
    steps = _planned(request)
    if dry_run:
        _print_scripts(steps, json=json)
        return []
    output = SubmitOutput(note=note) if json else SubmitOutput(_print_run, note)
    try:
        stored, found = pipeline_submit.submit_planned(request, steps, runs.services(), output, again=again)
    except submission.Interrupted:
        note("the pipeline may be submitted in part; submit the same file again to complete it")
        raise
    if json:
        show.as_json({"pipeline": stored.name, "runs": [*map(runs.record_of, found.values())]})
        show.flush()
    else:
        _print_costs(steps)
        click.echo(f"{stored.name}: {len(found)} runs; next: hpcdist status {stored.name}")
    return [*found.values()]


def _print_run(run: Run) -> None:
    click.echo(f"{run.record.operation}: job{'s' * bool(run.later)} {runs.ids_of(run)}, run {run.name}")
    show.flush()


def stored_of(runs_dir: Path, jobs: tuple[str, ...]) -> StoredPipeline | None:
    """Return the pipeline that is named alone.

    Raises:
        ConfigError: if it cannot be read.
    """
    return pipeline_runs.find_pipeline(runs_dir, jobs[0]) if len(jobs) == 1 else None


def show_graph(stored: StoredPipeline, *, json: bool, whole: bool = False) -> None:
    """Print the operations with what each waits for, and their states; ``whole``: and the pipeline's own."""
    nodes = pipeline_runs.operation_states(stored, runs.services())
    own = {"site": stored.site, "created_at": stored.created_at, "directory": str(stored.directory.path)}
    data: dict[str, Any] = {
        "pipeline": stored.name,
        "submission": stored.phase.value,
        **(own if whole else {}),
    }
    if json:
        show.as_json(data | {"operations": [node.as_data() for node in nodes]})
        return
    if whole:
        show.table((), [(key.replace("_", " "), value) for key, value in data.items()])
        click.echo()
    click.echo(pipeline_runs.summary(stored.name, nodes))
    show.table(_HEADS, map(_row, nodes))


def resume(runs_dir: Path, name: str, *, json: bool) -> None:
    """Run again what did not end well in a pipeline, and what depends on it.

    Raises:
        HpcdistError: as `pipeline_submit.resume`.
    """
    from hpcdist.searches.resume import run_again  # it plans

    if stored := pipeline_runs.find_pipeline(runs_dir, name):
        services = runs.services()
        output = SubmitOutput(bool if json else _print_run, note)
        found = pipeline_submit.resume(stored, services, output, run_again)
        if json:
            show.as_json([*map(runs.record_of, found)])


def _row(node: OperationState) -> tuple[str, ...]:
    code = node.report.status.exit_code if node.report else None
    run = node.run
    return (
        _name(node), _after(node), run.name if run else "-", runs.ids_of(run) if run else "-",
        node.state.value, "-" if code is None else str(code), one_line(node.reason.partition("\n")[0]),
    )  # fmt: skip


def _name(node: OperationState) -> str:
    """Return an operation below those that it needs: the graph as lines."""
    return f"{'  ' * (node.depth - 1)}└ {node.name}" if node.depth else node.name


def _after(node: OperationState) -> str:
    shown = (name if condition == "afterok" else f"{condition}:{name}" for name, condition in node.needs)
    return ", ".join(shown) or "-"


def check_options(*, following: bool, waiting: bool, json: bool) -> None:
    """Refuse what `submit` does with one run alone.

    Raises:
        UsageError: for an option.
    """
    if following:
        raise click.UsageError("--follow follows one run: submit, then `hpcdist logs PIPELINE/NAME -f`.")
    if waiting and json:
        raise click.UsageError("A pipeline has no --wait with --json: use `hpcdist wait PIPELINE --json`.")


def wait_for(found: Sequence[Run]) -> int:
    """Wait for all these runs to end, print how they did, and return the exit code of the first failure."""
    reports = wait(found, runs.services())
    for report in reports:
        note(runs.sentence(report))
    return exit_codes.of_reports(reports)
