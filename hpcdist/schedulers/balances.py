"""What accounts have left, and batch systems that know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from hpcdist.host.command import Command, Completed


class Left(NamedTuple):
    """What an account has left, in a unit such as ``GPU-hours``; ``total``: what it had, None if unknown."""

    amount: float
    unit: str
    total: float | None = None


class Balances(Protocol):
    """Limits of accounts, and what is used of them."""

    def ask(self, account: str) -> Command:
        """Return the command that shows what this account has left."""
        ...

    def read(self, completed: Completed, account: str, user: str) -> Iterator[Left]:
        """Yield what is left for a job of the user, of each resource that is limited; none for junk."""
        ...


@runtime_checkable
class HasBalances(Protocol):
    """What a scheduler may have besides: limits of accounts."""

    def balances(self) -> Balances:
        """Return them."""
        ...
