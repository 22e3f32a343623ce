"""What an account has left, as the command of a site prints it, and how a job stands to that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hpcdist.cost.worst_case import Cost, number
from hpcdist.host.command import Command
from hpcdist.schedulers.balances import Left
from hpcdist.site.charges import Balance

_SECONDS: Final = 5.0
_NUMBER: Final = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")
_CELLS: Final = re.compile(r"\s*\|\s*|\s{2,}|\t")


def ask(balance: Balance, account: str, user: str) -> Command:
    """Return the site's command for this account."""
    names = {"account": account, "user": user}
    return Command(tuple(_filled(word, names) for word in balance.command), timeout=_SECONDS)


def read(balance: Balance, text: str, account: str) -> Left | None:
    """Return what the account has left; None where the output has no such row, or no number in it."""
    rows = _by_pattern(balance.pattern, text) if balance.pattern else _by_columns(balance.columns, text)
    for row in rows:
        if row.get("account", account) == account and (left := _left(row, balance.unit)):
            return left
    return None


def standing(left: Left, cost: Cost | None, account: str) -> str:
    """Return how a job stands to it: ``80 of 500 GPU-hours are left of physics, and it may take 64``."""
    total = "" if left.total is None else f" of {number(left.total)}"
    text = f"{number(left.amount)}{total} {left.unit} are left of {account or 'the account'}"
    need = cost.in_unit(left.unit) if cost else None
    if need is None:
        return text
    more = ", which is more" if need > left.amount else ""
    return f"{text}, and the job may take {number(need)}{more}"


def _filled(word: str, names: dict[str, str]) -> str:
    """Return the word with the names in braces replaced, once: a value is never read again."""
    return re.sub(r"\{(account|user)\}", lambda found: names[found[1]], word)


def _by_pattern(pattern: str, text: str) -> Iterator[dict[str, str]]:
    for found in re.finditer(pattern, text, re.MULTILINE):
        yield {name: value for name, value in found.groupdict().items() if value is not None}


def _by_columns(columns: Mapping[Any, str], text: str) -> Iterator[dict[str, str]]:
    """Yield the rows below the line that has all these heads; cells are divided by ``|`` or two spaces."""
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in _CELLS.split(line.strip().strip("|"))]
        if set(columns.values()) <= set(cells):
            heads = cells
        elif heads and len(cells) == len(heads):
            row = dict(zip(heads, cells, strict=True))
            yield {name: row[head] for name, head in columns.items()}


def _left(row: dict[str, str], unit: str) -> Left | None:
    left, total, used = (_number(row.get(name, "")) for name in ("left", "total", "used"))
    if left is None and total is not None and used is not None:
        left = total - used
    return None if left is None else Left(left, unit, total)


def _number(text: str) -> float | None:
    found = _NUMBER.search(text)
    return float(found[0].replace(",", "")) if found else None
