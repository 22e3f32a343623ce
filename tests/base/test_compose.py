from __future__ import annotations

from typing import Any

import pytest
import yaml

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.source import MAX_DEPTH, MAX_PROBLEMS, PARSER, Composer
from tests.wording import Wording

PARSERS = dict.fromkeys([PARSER, yaml.SafeLoader])
"""libyaml's, where it is there, and PyYAML's own."""
EACH_PARSER = pytest.mark.parametrize("parser", PARSERS)


def said(text: str, parser: type = PARSER) -> list[str]:
    """Return what is said about a broken file."""
    with pytest.raises(ConfigError) as caught:
        source.parse(text, "e.yml", parser)
    return [str(problem) for problem in caught.value.problems]


def said_by_each(text: str) -> list[str]:
    """Return what every parser says about a broken file."""
    found, *others = (said(text, parser) for parser in PARSERS)
    assert others in ([], [found])
    return found


def read(text: str) -> Any:
    return source.parse(text, "e.yml").data


def problems_of(text: str, parser: type = PARSER) -> tuple[Problem, ...]:
    """Read a text; whatever it is, only a ``ConfigError`` may come."""
    try:
        source.parse(text, "e.yml", parser)
    except ConfigError as error:
        return error.problems
    return ()


BACKSLASH = "this is not a valid escape in double quotes; use single quotes, or write \\\\"
INDENTATION = "check the indentation, quotes and brackets in this line and above"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "---\n",
        "[a]",
        "text",
        "3",
        "a: b: c",
        "a:\n\tb: 1",
        "a: b\n\tc: d",
        "a: |\n\tx",
        "a: @x",
        "a: %x",
        "a: `x`",
        "a: [1, 2",
        "a: {b: 1",
        "a: {b: 1 c: 2}",
        "run: {cmd: x",
        "run:\n  cmd: 'x\nname: y",
        "- index: 2\n   cpu: {a: 1}",
        "n: 4\n\n # c\n  d:\n    e: 1",
        "run:\n   cmd: x\n  b: 1",
        "a b\nrun: {cmd: x}",
        "run:\n  cmd: |\n  python x.py\nname: x",
        "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> c",
        "a: 'x",
        'a: "x\n---\nb: 1',
        'a: "x\\0"',
        "a:\n  - x\n - y",
        "a: 'b' c",
        "a: - b",
        "a: |x\n",
        "a: }",
        "%YAML 3.0\n---\na: 1",
        "a: {b: x:1,y:2 -n 3}",
        "a: {b: x 1, c d, e: f}",
        "a: ? b",
        "run: {cmd: x a={b: 1}}",
        "run: {cmd: x # y}",
        "run:\n  cmd: @x y",
        "run:\n  cmd: a 'b: c'",
        'run:\n  cmd: "a" b',
        pytest.param(f"run:\n  cmd: @{'x' * 200}", id="a long command that begins with @"),
        "run:\n  cmd: a \\\n  b",
        "run:\n\tcmd: x",
        "a: & x",
        "a: 1\n---\nb: 1",
        "---\n---\nb: 1",
        "a: 1\n...\nfoo",
        "a: {{ x }}",
        "a: {{ x }} --b 1 # c",
        "a: {b: {{ x }}}",
        "? [a]\n: b",
        "a: 1\nb:\n  c: 1\n  'c': 2",
        "kind: a\nrun:\nkind: b\n",
        "{a: 1, a: 2}",
        "a: *x",
        "b: &one 1\na: *on",
        "a: &x [*x]",
        "<<: 3",
        "a: !!python/object:os.system x",
        "a: !foo {b: 1}",
        "a: !!map [b]",
        "a: !!binary aGk=",
        "a: !e!x y",
        "a: !!int x",
        pytest.param("a: " + "9" * 301, id="a number of 301 digits"),
        "a: x\0y",
        "a: 1\nb: \x07",
        "a: \ud800",
        pytest.param("a: " + "[" * (MAX_DEPTH + 1), id="nested too deeply"),
        pytest.param("a: [" + "a," * 100_000 + "]", id="100000 values", marks=pytest.mark.extended),
        # A colon, or the space after it, is missing.
        "name: x\nframework\n\n# c\nrun: {cmd: a}",
        "name: x\nrun:\n  cmd: a\nbatch\n",
        "a: 1\npaths:#[optional]\n  # x\nb: 1",
        "paths:#[optional]\n  # x\nb: 1",
        "a:b\nc: 1",
        "run: # x\n\n  cmd:a\n  # y\n  b: 2",
        "a:\n- b:c\n  d: e",
        "a: 1\n'k':v",
        "a: 1\nhttp://x",
        "a: echo\n  b:c\nd: e: f",
        "a: echo\n  b:c\n  d: e",
        "a:\n  http://x\n  d: e",
        "# b:c\na: b: c",
    ],
)
def test_invalid_yaml_is_refused(text: str, wording: Wording) -> None:
    wording(said_by_each(text))


def test_all_problems_are_reported_at_once(wording: Wording) -> None:
    wording(said_by_each("a: 1\na: 2\nb: !x y\nc: @"))


DIFFERENT = [
    (
        "a: {b:}",
        "e.yml:1:6: a ':' within [ ] or { } needs a space after it; quote the text if it contains ':'",
        "",
    ),
    ("{\n\ta: 1}", "", "e.yml:2:1: a tab is used for indentation; use spaces"),
    (
        "a: [",
        "e.yml:2:1: a value is expected here; quote it if it is text",
        "e.yml:1:5: a value is expected here; quote it if it is text",
    ),
    ('a: "\\q"', f"e.yml:1:5: {BACKSLASH}", f"e.yml:1:6: {BACKSLASH}"),
    (
        'a: "\\ud800"',
        f"e.yml:1:7: {BACKSLASH}",
        "e.yml:1:4: a NUL byte or an unpaired surrogate cannot be passed to a program; remove it",
    ),
    (
        "- a\nb: 1",
        "e.yml:2:1: this is not an item of the list above; check the indentation",
        f"e.yml:2:1: this does not continue what is before it; {INDENTATION}",
    ),
]
"""What each parser says in its own words: libyaml's, then PyYAML's own; nothing where it takes the text."""


@pytest.mark.parametrize(("text", "libyaml", "own"), DIFFERENT)
@EACH_PARSER
def test_errors_that_differ_between_parsers(text: str, libyaml: str, own: str, parser: type) -> None:
    problems = problems_of(text, parser)
    assert "".join(map(str, problems)) == (own if parser is yaml.SafeLoader else libyaml)


def test_alias_bomb_is_refused(wording: Wording) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    wording(said("\n".join(lines)))


@pytest.mark.parametrize(
    "text", ["a: &x {b: [1, 'c', null]}\nd: {<<: *x, e: |\n  f\n}", "a: >\n b\n c\n", "{a: {b: c}}"]
)
def test_both_parsers_read_the_same(text: str) -> None:
    pure = Composer(text, "e.yml", yaml.SafeLoader)
    try:
        found: object = pure.document().value
    except ConfigError as error:
        found = len(error.problems)
    assert found == (len(problems_of(text)) or read(text))


def test_number_of_problems_is_limited() -> None:
    assert len(said("a: [" + "!x y, " * 1000)) == MAX_PROBLEMS


def test_deep_nesting_by_aliases_is_refused(wording: Wording) -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100))]
    wording(said("\n".join(lines)))


def test_nesting_up_to_the_limit_is_read() -> None:
    assert read("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))["a"] != []


@EACH_PARSER
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", [None]),
        ("a: 1", [{"a": 1}]),
        ("---\na: &x 1\n---\n# nothing\n---\nb: &x 2\nc: *x\n...\n", [{"a": 1}, None, {"b": 2, "c": 2}]),
    ],
)
def test_several_documents(text: str, values: list[object], parser: type) -> None:
    assert [root.value for root in Composer(text, "e.yml", parser).documents()] == values


@EACH_PARSER
def test_anchors_are_local_to_their_document(parser: type) -> None:
    with pytest.raises(ConfigError) as caught:
        Composer("a: &x 1\n---\nb: *x", "e.yml", parser).documents()
    assert (
        str(caught.value)
        == "e.yml:3:4: the alias *x has no anchor above it; write &x before the value that it refers to"
    )
