"""What an account has left, as the command of a site prints it, and how a job stands to that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hpcdist.cost.worst_case import Cost, number
from hpcdist.host.command import Command
from hpcdist.schedulers.base import Left
from hpcdist.site.charges import Balance

_SECONDS: Final = 5.0
_NUMBER: Final = re.compile(
    r"(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)"
    r" ?(K|k|M|G|B|T|thousand|million|billion)?(?:h|(?:\s+[^\d\s]\S*)*)"
)
"""A number of the form 1,234.5, what it is multiplied by, and words behind it, such as a unit."""

_TIMES: Final = {
    "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12,
    "thousand": 1e3, "million": 1e6, "billion": 1e9,
}  # fmt: skip
_REST: Final = re.compile(r"(?:[.,]?[0-9]+|[eE][+-]?[0-9]+|[kKMGBT]\b)*")
"""What a pattern may have left of a number."""

_AMOUNTS: Final[tuple[str, ...]] = ("left", "total", "used")
_CELLS: Final = re.compile(r"\s*\|\s*|\s{2,}|\t")


def ask(balance: Balance, account: str, user: str) -> Command:
    """Return the site's command for this account."""
    names = {"account": account, "user": user}
    return Command(tuple(_filled(word, names) for word in balance.command), timeout=_SECONDS)


def read(balance: Balance, text: str, account: str) -> tuple[Left, ...]:
    """Return what the account has left, of each unit; nothing where the output has no such row or number.

    Names of accounts are compared as Slurm does, which knows no capital letters in them.
    """
    rows = _by_pattern(balance.pattern, text) if balance.pattern else _by_columns(balance.columns, text)
    found: dict[str, Left] = {}
    for row in rows:
        is_own = row.get("account", account).casefold() == account.casefold()
        if is_own and (left := _left(row, row.get("unit") or balance.unit or "")):
            found.setdefault(left.unit, left)
    return (*found.values(),)


def standing(left: Left, cost: Cost | None, account: str) -> str:
    """Return how a job stands to it: ``80 of 500 GPU-hours are left of physics, and it may take 64``."""
    return standing_of(left, cost.in_unit(left.unit) if cost else None, account, "the job")


def standing_of(left: Left, need: float | None, account: str, what: str) -> str:
    """Return how what may need so much stands to it; None is unknown."""
    total = "" if left.total is None else f" of {number(left.total)}"
    text = f"{number(left.amount)}{total} {left.unit} are left of {account or 'the account'}"
    if need is None:
        return text
    more = ", which is more" if need > left.amount else ""
    return f"{text}, and {what} may take {number(need)}{more}"


def _filled(word: str, names: dict[str, str]) -> str:
    """Return the word with the names in braces replaced, once: a value is never read again."""
    return re.sub(r"\{(account|user)\}", lambda found: names[found[1]], word)


def _by_pattern(pattern: str, text: str) -> Iterator[dict[str, str]]:
    for found in re.finditer(pattern, text, re.MULTILINE):
        rests = {name: _REST.match(text, found.end(name)) for name in _AMOUNTS if name in found.groupdict()}
        more = {name: rest[0] for name, rest in rests.items() if rest}
        known = found.groupdict().items()
        yield {name: value + more.get(name, "") for name, value in known if value is not None}


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
    left, total, used = (_number(row.get(name, "")) for name in _AMOUNTS)
    if left is None and total is not None and used is not None:
        left = total - used
    return None if left is None else Left(left, unit, total)


def _number(text: str) -> float | None:
    """Return the number; None where it is written in a way that is not known for sure, such as 1.234,5."""
    found = _NUMBER.fullmatch(text.strip())
    return float(found[1].replace(",", "")) * _TIMES.get(found[2] or "", 1.0) if found else None
