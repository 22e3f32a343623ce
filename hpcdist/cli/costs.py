"""What a job may cost, as the lines that `plan`, `check` and `submit` print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click

from hpcdist.base import ownership
from hpcdist.base.command import Runner
from hpcdist.loading.planning import Planned
from hpcdist.planner import worst_case
from hpcdist.planner.worst_case import Sum
from hpcdist.schedulers import answers, schedulers
from hpcdist.schedulers.base import Left

# --- What the job's account has left, as `plan --balance` and `submit` show it


class AccountBalance(NamedTuple):
    """What an account has left, of each unit; ``why``: why that is unknown, empty if nothing was asked."""

    account: str
    left: Sequence[Left] = ()
    why: str = ""

    def texts(self, made: Planned) -> list[str]:
        """Return how the job stands to it, a sentence each; the reason where that is not known."""
        if self.left:
            return [worst_case.standing(left, made.cost, self.account) for left in self.left]
        return [f"not known: {self.why}"] if self.why else []

    def texts_of_all(self, costs: Sum, what: str) -> list[str]:
        """Return how several jobs together stand to it, as `texts`."""
        needs = ((left, costs.in_unit(left.unit)) for left in self.left)
        found = [worst_case.standing_of(left, need, self.account, what) for left, need in needs]
        return found or ([f"not known: {self.why}"] if self.why else [])

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        left = [{"left": each.amount, "total": each.total, "unit": each.unit} for each in self.left]
        return {"account": self.account or None, "left": left, "why": self.why}


def ask(made: Planned, runner: Runner) -> AccountBalance:
    """Ask the site's own command, else the batch system; for some seconds at most.

    Where there is neither, or no account, there is nothing to say.
    """
    account, user = made.plan.request.account or "", ownership.own_name()
    balance, scheduler = made.machine.site.balance, schedulers.get(made.plan.identity.scheduler)
    if balance:
        command = worst_case.ask(balance, account, user)
        completed = runner.run(command)
        if not completed.ok:
            return AccountBalance(account, why=f"`{command}`: {answers.why(completed)}")
        left = worst_case.read(balance, completed.stdout, account)
        return AccountBalance(account, left, "" if left else f"`{command}` shows none of it")
    if account and (limits := scheduler.balances):
        return AccountBalance(account, [*limits.read(runner.run(limits.ask(account)), account, user)])
    return AccountBalance(account)


# --- What a job may cost, as the lines that `plan`, `check` and `submit` print


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
