"""``hpcdist rehearse``: end a small run of an experiment on purpose, and check that it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import rehearsed, runs
from hpcdist.cli.jobs.submit import submit_run
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import experiment_options, json_option, runs_dir_option
from hpcdist.errors import ExitCode
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.rehearsal import judging, observed, small, steps
from hpcdist.runs import finding, requests
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services

_CODES: Final = {"passes": ExitCode.OK, "refused": ExitCode.NOT_RESUMED, "unknown": ExitCode.FAILED}


@click.command("rehearse")
@experiment_options
@runs_dir_option
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Nodes at most; an experiment on more gets fewer workers.",
)
@click.option(
    "--minutes",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Time limit of the job; at least twice the notice, and two minutes.",
)
@click.option(
    "--mtbf",
    type=click.FloatRange(min=0, min_open=True),
    metavar="HOURS",
    help="Mean time between failures of a node; default: the site's, else one that was measured elsewhere.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=30_000),
    metavar="N",
    help="Seed of the moments; default: a new one.",
)
@click.option(
    "--report", "is_report", is_flag=True, help="EXP is a run of an earlier rehearsal: report on it."
)
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    options: ExperimentOptions,
    runs_dir: Path,
    nodes: int,
    minutes: int,
    mtbf: float | None,
    seed: int | None,
    is_report: bool,
    json: bool,
) -> None:
    """End a small run on purpose, and check that it goes on.

    The experiment runs as it is, on few nodes for some minutes. It gets the signal before a time limit, then
    ranks and all ranks of a node get KILL, at random moments after the first checkpoint; each time the script
    starts it again. Exit code 84: it does not go on as it has to; 1: this rehearsal has not shown whether.
    """
    services = runs.services()
    if is_report:
        run = finding.find(runs_dir, options.file)
        small.stored(run.directory)
    else:
        seed = int(services.token()[:3], 16) if seed is None else seed
        run = _submitted(small.plan(options, nodes, minutes, seed), runs_dir, services)
    try:
        [ended] = wait([run], services)
    except KeyboardInterrupt:
        note(f"`hpcdist rehearse --report {run.name}` reports on it later")
        raise
    report = _report(ended.run, mtbf)
    if json:
        show.as_json(_as_json(ended.run, report))
    else:
        rehearsed.print_report(ended.run, report)
    ctx.exit(_CODES[report.verdict])


def _submitted(planned: small.Small, runs_dir: Path, services: Services) -> Run:
    made = planned.made
    print_problems(made.problems)
    request = requests.of(made, planned.options, services.runner, mark="a rehearsal")
    request = request._replace(name=f"{request.name}-rehearsal")

    def result(run: Run) -> None:
        limit = made.plan.request.walltime
        job = f"job {run.record.job_id}, with a time limit of {limit}"
        note(f"{run.name} is submitted as {job}: {made.plan.summary}")

    return submit_run(request, runs_dir, services, result, again=False)


def _report(run: Run, mtbf: float | None) -> judging.Report:
    plan = small.stored(run.directory)
    of_site = plan.rehearsal.node_mtbf_hours if plan.rehearsal else None
    attempts = observed.read(run.directory)
    return judging.judge(attempts, steps.read(run.directory), plan, observed.choose(mtbf, of_site))


def _as_json(run: Run, report: judging.Report) -> dict[str, Any]:
    return {
        "run": run.name,
        "verdict": report.verdict,
        "findings": [finding._asdict() for finding in report.findings],
        "attempts": [rehearsed.row_as_json(row) for row in report.rows],
        "write_seconds": report.write_seconds,
        "write_bytes": report.write_bytes,
        "save_seconds": report.save_seconds,
        "recommended_notice_seconds": report.notice,
        "recommended_interval_seconds": report.interval,
        "formula": observed.FORMULA,
        "nodes": report.nodes,
        "node_mtbf_hours": report.mtbf.node_hours,
        "node_mtbf_source": report.mtbf.source,
    }
