"""What a job may cost, as the lines that `plan`, `check` and `submit` print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from hpcdist.cost.worst_case import Sum
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


def rows_of_all(plans: Iterable[Planned]) -> list[tuple[str, str]]:
    """Return the same of all these plans together."""
    return [*Sum([(made.cost, 1) for made in plans]).lines.items()]


def print_cost(made: Planned) -> None:
    """Print them, a line each."""
    for title, text in rows(made):
        click.echo(f"{title}: {text}")
