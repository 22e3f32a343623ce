"""The README and the pages of ``docs/``, and what tests keep current in them.

``HPCDIST_REWRITE_GOLDEN=1`` writes such a part anew; that run fails wherever something changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base.resources import shipped

CHECKOUT: Final = shipped("site_configs").parent
README: Final = CHECKOUT / "README.md"
DOCS: Final = CHECKOUT / "docs"
PAGES: Final = (README, *sorted(DOCS.rglob("*.md")))

_BLOCK: Final = r"(<!-- example: {} -->\n```\w+\n)(.*?)(```\n)"
_TABLE: Final = r"(<!-- table: {} -->\n)(.*?)(<!-- end of table -->\n)"
_FENCE: Final = re.compile(
    r"^(?:<!-- example: (?P<name>.*?) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A code block: its page, the name in the mark above it (or none), its language and its text."""

    page: Path
    name: str | None
    language: str
    text: str


def written(page: Path) -> str:
    """Return the text of a page without its generated tables."""
    return re.sub(r"<!-- table: .*?<!-- end of table -->", "", page.read_text(), flags=re.DOTALL)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page that are not part of a generated table."""
    for found in _FENCE.finditer(written(page)):
        yield Block(page, found["name"], found["language"], found["text"])


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks and generated tables."""
    return _FENCE.sub("", written(page))


def block(name: str) -> str:
    """Return the text of a code block behind its mark."""
    return _found(_BLOCK.format(name))[1][2]


def typed(text: str) -> Iterator[str]:
    """Yield what stands behind the prompts of a block, without its comments."""
    lines = (line.strip() for line in text.splitlines())
    return (re.sub(r"  +#.*", "", line)[2:] for line in lines if line.startswith("$ "))


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


def _found(pattern: str) -> tuple[Path, re.Match[str]]:
    """Return the one place where the pattern is found, and its page."""
    found = [(page, match) for page in PAGES for match in re.finditer(pattern, page.read_text(), re.DOTALL)]
    assert len(found) == 1, f"{pattern.partition('-->')[0]}: in {[page.name for page, _ in found]}, not once"
    return found[0]


def _keeps(pattern: str, expected: str) -> None:
    page, found = _found(pattern)
    if os.environ.get("HPCDIST_REWRITE_GOLDEN"):
        text = page.read_text()
        page.write_text(text[: found.start(2)] + expected + text[found.end(2) :])
    assert found[2] == expected
