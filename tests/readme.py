"""The README, and what a test keeps current in it.

``HPCDIST_REWRITE_GOLDEN=1`` writes such a part anew; that run fails wherever something changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from hpcdist.host.resources import shipped

CHECKOUT: Final = shipped("site_configs").parent
README: Final = CHECKOUT / "README.md"

_BLOCK: Final = r"(<!-- example: {} -->\n```\w+\n)(.*?)(```\n)"
_TABLE: Final = r"(<!-- table: {} -->\n)(.*?)(<!-- end of table -->\n)"


def block(name: str) -> str:
    """Return the text of a code block behind its mark."""
    return _found(_BLOCK.format(name))[2]


def keeps_block(name: str, expected: str) -> None:
    """Compare a code block with what it must be."""
    _keeps(_BLOCK.format(name), expected)


def keeps_table(name: str, expected: str) -> None:
    """Compare what stands between the marks of a table with what it must be."""
    _keeps(_TABLE.format(name), expected)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(re.sub(" +", " ", f"| {' | '.join(cells)} |\n") for cells in lines)


def _found(pattern: str) -> re.Match[str]:
    found = re.search(pattern, README.read_text(), re.DOTALL)
    assert found, f"the README has no {pattern.partition('-->')[0]}"
    return found


def _keeps(pattern: str, expected: str) -> None:
    found = _found(pattern)
    if os.environ.get("HPCDIST_REWRITE_GOLDEN"):
        text = README.read_text()
        README.write_text(re.sub(pattern, lambda m: m[1] + expected + m[3], text, flags=re.DOTALL))
    assert found[2] == expected
