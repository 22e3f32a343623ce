"""The report of a rehearsal, as text and as data."""

from __future__ import annotations

from typing import Any

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import spans
from hpcdist.rehearsal import observed
from hpcdist.rehearsal.judging import Report, Row
from hpcdist.rehearsal.resuming import Resumption
from hpcdist.runs.rundir import Run


def print_report(run: Run, report: Report) -> None:
    """Print what was done, what came of it, the problems and the verdict."""
    show.table(("attempt", "ended by", "work lost", "began"), map(_row, report.rows))
    click.echo()
    show.table((), _lines(report))
    click.echo()
    for finding in report.findings:
        click.echo(f"{finding.kind}: {finding.text}")
    click.echo(f"{run.name}: {report.verdict}")
    show.flush()


def row_as_json(row: Row) -> dict[str, Any]:
    """Return an attempt for JSON; null is unknown."""
    attempt, resumption = row.attempt, row.resumption or Resumption()
    return {
        "attempt": attempt.number,
        "ended_by": row.after,
        "kind": attempt.kind,
        "exit_code": attempt.code,
        "lost_seconds": row.lost_seconds,
        "went_on": resumption.went_on,
        "shown_by": resumption.by or None,
        "first_step": resumption.began_at,
        "step_before": resumption.reached,
    }


def _row(row: Row) -> tuple[str, ...]:
    lost = "-" if row.lost_seconds is None else f"{row.lost_seconds:.1f} s"
    after = "the end of the rehearsal" if row.attempt.is_enough else row.after
    return str(row.attempt.number), after, lost, _began(row.resumption)


def _began(resumption: Resumption | None) -> str:
    if resumption is None:
        return "anew"
    if resumption.went_on is None:
        return "unknown"
    if resumption.began_at is not None:
        reached = "" if resumption.reached is None else f", after {resumption.reached:g}"
        return f"at step {resumption.began_at:g}{reached}"
    if not resumption.went_on:
        return "anew"
    return "from a checkpoint that it read" if resumption.by == "reading" else "with a later checkpoint"


def _lines(report: Report) -> list[tuple[str, str]]:
    if report.write_seconds is None or report.interval is None or report.notice is None:
        return [("checkpoint", "none")]
    saved = "" if report.save_seconds is None else f"; {report.save_seconds:.1f} s after the signal"
    size = spans.size(report.write_bytes or 0)
    hours = f"{report.mtbf.node_hours:.0f} h between failures of a node ({report.mtbf.source})"
    nodes = f"{report.nodes} node{'s' * (report.nodes > 1)}"
    return [
        ("checkpoint", f"{size} in {report.write_seconds:.1f} s{saved}"),
        ("recommended notice", spans.clock(report.notice)),
        (
            "recommended interval",
            f"{spans.clock(report.interval)} between checkpoints, on {nodes}",
        ),
        ("", f"by the formula of {observed.FORMULA}; {hours}"),
    ]
