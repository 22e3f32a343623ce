"""What hpcdist says to people, reviewed in one file a room: ``tests/<room>/wording.txt``.

A test produces a text and hands it to the fixture ``wording``; the file has it under the test's name. A
changed sentence so changes that one file and no test.

To write the files again: ``HPCDIST_REWRITE_GOLDEN=1 pytest -n 0 tests/<room>``. Where a text changed, that
run fails, so that it can never pass in CI; read ``git diff``, then run the tests without the variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
_REWRITES: Final = bool(os.environ.get("HPCDIST_REWRITE_GOLDEN"))  # some tests hide such variables
_HEAD: Final = re.compile(r"^### (.+)$", re.MULTILINE)


def read(file: Path) -> dict[str, str]:
    """Return the text of each test; nothing where there is no such file."""
    text = file.read_text() if file.exists() else ""
    _, *parts = _HEAD.split(text)
    return {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def write(file: Path, texts: Mapping[str, str]) -> None:
    """Write what `read` returns, in the order of the names."""
    file.write_text("\n".join(f"### {name}\n{texts[name]}\n" for name in sorted(texts)))


def place_of(nodeid: str) -> tuple[Path, str]:
    """Return the file of a test's room, and the test's name in that file."""
    room, _, name = nodeid.removeprefix("tests/").partition("/")
    return TESTS / room / "wording.txt", name


class Wording:
    """Compares what one test says with the file of its room.

    Called with a text, or with several, which are lines. Of a test that calls it more than once the later
    texts stand under the test's name with " 2", " 3" behind it.
    """

    def __init__(self, nodeid: str) -> None:
        self.file, self.test = place_of(nodeid)
        self.calls = 0
        self.rewritten = False

    def __call__(self, said: str | Iterable[str]) -> None:
        """Fail where the file has another text for this test, or none; write it where that is wanted."""
        self.calls += 1
        name = self.test if self.calls == 1 else f"{self.test} {self.calls}"
        text = (said if isinstance(said, str) else "\n".join(said)).strip("\n")
        assert not _HEAD.search(text), "a line of this text looks like the head of another"
        texts = read(self.file)
        if _REWRITES and texts.get(name) != text:
            write(self.file, texts | {name: text})
            self.rewritten = True
            return
        assert text == texts.get(name), f"see {self.file}; tests/wording.py has how to write it"


def of(nodeid: str) -> Iterator[Wording]:
    """Yield what compares the texts of this test, which fails where they were written."""
    wording = Wording(nodeid)
    yield wording
    if wording.rewritten:
        pytest.fail(f"{wording.file} was written: read `git diff`, then test again", pytrace=False)


def stale(collected: Iterable[str]) -> list[str]:
    """Return the names in the rooms' files whose test is gone, as far as the test's file was collected."""
    tests = set(collected)
    files = {test.partition("::")[0] for test in tests}
    found = []
    for file in sorted(TESTS.glob("*/wording.txt")):
        for name in read(file):
            nodeid = f"tests/{file.parent.name}/{re.sub(r' [0-9]+$', '', name)}"
            if nodeid.partition("::")[0] in files and nodeid not in tests:
                found.append(f"{file}: {name}")
    return found
