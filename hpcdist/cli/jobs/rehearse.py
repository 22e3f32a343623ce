"""``hpcdist rehearse``: end a small run of an experiment on purpose, and check that it resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hpcdist.base.errors import ExitCode
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.submit import explains_interruption
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import file_options, json_option, runs_dir_option
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput
from hpcdist.studies import rehearsal
from hpcdist.studies.rehearsal import AttemptRow, Judgement, Small
from hpcdist.studies.rehearsal_record import Resumption

_CODES: Final = {"passes": ExitCode.OK, "refused": ExitCode.NOT_RESUMED, "unknown": ExitCode.FAILED}


@click.command("rehearse")
@file_options
@runs_dir_option
@click.option(
    "--nodes", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Nodes at most; an experiment on more gets fewer workers.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="Time limit of the job; at least twice the notice, and two minutes.",
)  # fmt: skip
@click.option(
    "--mtbf", type=click.FloatRange(min=0, min_open=True), metavar="HOURS",
    help="Mean time between failures of a node; default: the site's, else one that was measured elsewhere.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0, max=30_000), metavar="N",
    help="Seed of the moments; default: a new one.",
)  # fmt: skip
@click.option(
    "--report", "is_report", is_flag=True, help="EXP is a run of an earlier rehearsal: report on it."
)
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, options: ExperimentOptions, runs_dir: Path, nodes: int, minutes: int,
    mtbf: float | None, seed: int | None, is_report: bool, json: bool,
) -> None:  # fmt: skip
    """End a small run on purpose, and check that it resumes.

    The experiment runs as it is, on few nodes for some minutes. It gets the signal before a time limit, then
    ranks and all ranks of a node get KILL, at random moments after the first checkpoint; each time the script
    starts it again. Exit code 84: it does not resume correctly; 1: this rehearsal did not show whether.
    """
    services = runs.services()
    if is_report:
        run = finding.find(runs_dir, options.file)
        rehearsal.stored_restarts(run.directory)
    else:
        seed = int(services.token()[:3], 16) if seed is None else seed
        run = _submitted(rehearsal.plan_rehearsal(options, nodes, minutes, seed), runs_dir, services)
    try:
        [ended] = wait([run], services)
    except KeyboardInterrupt:
        note(f"`hpcdist rehearse --report {run.name}` reports on it later")
        raise
    report = rehearsal.judge_run(ended.run.directory, mtbf)
    if json:
        show.as_json(_as_json(ended.run, report))
    else:
        _print_report(ended.run, report)
    ctx.exit(_CODES[report.verdict])


def _submitted(small: Small, runs_dir: Path, services: Services) -> Run:
    made = small.made
    print_problems(made.problems)

    def result(run: Run) -> None:
        limit = made.plan.request.walltime
        job = f"job {run.record.job_id}, with a time limit of {limit}"
        note(f"{run.name} is submitted as {job}: {made.plan.summary}")

    with explains_interruption():
        return rehearsal.submit_rehearsal(small, runs_dir, services, SubmitOutput(result, note))


def _as_json(run: Run, report: Judgement) -> dict[str, Any]:
    return {
        "run": run.name,
        "verdict": report.verdict,
        "findings": [finding._asdict() for finding in report.findings],
        "attempts": [_row_as_json(row) for row in report.rows],
        "write_seconds": report.write_seconds,
        "write_bytes": report.write_bytes,
        "save_seconds": report.save_seconds,
        "recommended_notice_seconds": report.notice,
        "recommended_interval_seconds": report.interval,
        "formula": rehearsal.FORMULA,
        "nodes": report.nodes,
        "node_mtbf_hours": report.mtbf.node_hours,
        "node_mtbf_source": report.mtbf.source,
    }


def _print_report(run: Run, report: Judgement) -> None:
    """Print what was done, what came of it, the problems and the verdict."""
    show.table(("attempt", "ended by", "work lost", "began"), map(_row, report.rows))
    click.echo()
    show.table((), _lines(report))
    click.echo()
    for one in report.findings:
        click.echo(f"{one.kind}: {one.text}")
    click.echo(f"{run.name}: {report.verdict}")
    show.flush()


def _row_as_json(row: AttemptRow) -> dict[str, Any]:
    """Return an attempt for JSON; null is unknown."""
    attempt, resumption = row.attempt, row.resumption or Resumption()
    return {
        "attempt": attempt.number,
        "ended_by": row.after,
        "kind": attempt.kind,
        "exit_code": attempt.code,
        "lost_seconds": row.lost_seconds,
        "went_on": resumption.has_resumed,
        "shown_by": resumption.by or None,
        "first_step": resumption.began_at,
        "step_before": resumption.reached,
    }


def _row(row: AttemptRow) -> tuple[str, ...]:
    lost = "-" if row.lost_seconds is None else f"{row.lost_seconds:.1f} s"
    after = "the end of the rehearsal" if row.attempt.is_enough else row.after
    return str(row.attempt.number), after, lost, _began(row.resumption)


def _began(resumption: Resumption | None) -> str:
    if resumption is None:
        return "from the start"
    if resumption.has_resumed is None:
        return "unknown"
    if resumption.began_at is not None:
        reached = "" if resumption.reached is None else f", after {resumption.reached:g}"
        return f"at step {resumption.began_at:g}{reached}"
    if not resumption.has_resumed:
        return "from the start"
    return "from a checkpoint that it read" if resumption.by == "reading" else "with a later checkpoint"


def _lines(report: Judgement) -> list[tuple[str, str]]:
    if report.write_seconds is None or report.interval is None or report.notice is None:
        return [("checkpoint", "none")]
    saved = "" if report.save_seconds is None else f"; {report.save_seconds:.1f} s after the signal"
    size = show.size(report.write_bytes or 0)
    hours = f"{report.mtbf.node_hours:.0f} h between failures of a node ({report.mtbf.source})"
    nodes = f"{report.nodes} node{'s' * (report.nodes > 1)}"
    return [
        ("checkpoint", f"{size} in {report.write_seconds:.1f} s{saved}"),
        ("recommended notice", show.clock(report.notice)),
        ("recommended interval", f"{show.clock(report.interval)} between checkpoints, on {nodes}"),
        ("", f"by the formula of {rehearsal.FORMULA}; {hours}"),
    ]
