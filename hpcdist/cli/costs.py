"""What a job may cost, as the lines that `plan`, `check` and `submit` print."""

from __future__ import annotations

from typing import Any

import click

from hpcdist.loading.planning import Planned


def rows(made: Planned) -> list[tuple[str, str]]:
    """Return the cost of a plan and what it is charged, each with a title; none where they are not known."""
    cost = made.cost
    if cost is None:
        return []
    charge = cost.charge_summary
    return [("cost", cost.summary), *([("charge", charge)] if charge else [])]


def as_data(made: Planned) -> dict[str, Any]:
    """Return it as the part ``cost`` of JSON; null where it is not known."""
    return {"cost": made.cost.as_data() if made.cost else None}


def print_cost(made: Planned) -> None:
    """Print them, a line each."""
    for title, text in rows(made):
        click.echo(f"{title}: {text}")
