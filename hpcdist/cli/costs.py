"""What a job may cost, as the lines that `plan`, `check` and `submit` print."""

from __future__ import annotations

import click

from hpcdist.loading.planning import Planned


def rows(made: Planned) -> list[tuple[str, str]]:
    """Return the cost of a plan and what it is charged, each with a title; none where they are not known."""
    cost = made.cost
    if cost is None:
        return []
    charge = cost.charge_summary
    return [("cost", cost.summary), *([("charge", charge)] if charge else [])]


def print_cost(made: Planned) -> None:
    """Print them, a line each."""
    for title, text in rows(made):
        click.echo(f"{title}: {text}")
