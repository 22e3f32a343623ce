"""A section is replaced, and nothing else of the text changes."""

from __future__ import annotations

import pytest

from hpcdist.base.tree import with_section

NEW = "b:\n- {x: 2}\n"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", NEW),
        ("a: 1 # one", f"a: 1 # one\n{NEW}"),
        ("a: 1\nb: [1]\n", f"a: 1\n{NEW}"),
        ("b:\n  - x: 1 # old\n\n  # of it\n  - x: 3\nc: 1\n", f"{NEW}c: 1\n"),
        ("b:\n- x: 1\n\n# about c\nc: 1\n", f"{NEW}\n# about c\nc: 1\n"),
        ("bb: 1\nb: 1", f"bb: 1\n{NEW}"),
    ],
)
def test_with_section(text: str, result: str) -> None:
    assert with_section(text, "b", NEW) == result
