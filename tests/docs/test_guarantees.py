"""Each line of the page of guarantees names tests that prove it, and those are there."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import CHECKOUT, DOCS

PAGE = (DOCS / "explanation" / "guarantees.md").read_text()


def test_each_line_has_its_tests() -> None:
    lines, _, tests = PAGE.partition("\n## The tests\n")
    numbers = re.findall(r"(?m)^([0-9]+)\. ", lines)
    proofs = re.findall(r"(?m)^\* ([0-9]+): `(?:[^`]|`,\s+`)+`$", tests)
    assert numbers == proofs == [str(number) for number in range(1, len(numbers) + 1)]
    assert not re.search(r"(?m)^\* ", lines)


def test_these_tests_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    files = {file: ast.parse((CHECKOUT / "tests" / file).read_text()) for file, _ in named}
    there = {
        (file, item.name)
        for file, tree in files.items()
        for item in tree.body
        if isinstance(item, ast.FunctionDef)
    }
    assert len(named) == PAGE.count("::")
    assert [one for one in named if one not in there] == []
