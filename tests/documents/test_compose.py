# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

from typing import Any

import pytest
import yaml

from hpcdist.documents import source
from hpcdist.documents.compose import MAX_DEPTH, MAX_PROBLEMS, PARSER, Composer
from hpcdist.errors import ConfigError, Problem

EACH_PARSER = pytest.mark.parametrize("parser", dict.fromkeys([PARSER, yaml.SafeLoader]))
"""libyaml's, where it is there, and PyYAML's own."""


def said(text: str, parser: type = PARSER) -> list[str]:
    """Return what is said about a broken file."""
    with pytest.raises(ConfigError) as caught:
        source.parse(text, "e.yml", parser)
    return [str(problem) for problem in caught.value.problems]


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
COLON = "': ' makes this a key, where none is allowed; quote the text if it contains ': ', or check the indentation"


@EACH_PARSER
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "e.yml: the file is empty"),
        ("# only a comment\n", "e.yml: the file is empty"),
        ("---\n", "e.yml: the file is empty"),
        ("[a]", "e.yml:1:1: expected keys and values, got a list; write `key: value`"),
        ("text", "e.yml:1:1: expected keys and values, got text; write `key: value`"),
        ("3", "e.yml:1:1: expected keys and values, got one value; write `key: value`"),
        ("a: b: c", "e.yml:1:5: ': ' makes this a key, where none is allowed; quote the text if it contains ': ', or check the indentation"),
        ("a:\n\tb: 1", "e.yml:2:1: a tab is used for indentation; use spaces"),
        ("a: b\n\tc: d", "e.yml:2:1: a tab is used for indentation; use spaces"),
        ("a: |\n\tx", "e.yml:2:1: a tab is used for indentation; use spaces"),
        ("a: @x", "e.yml:1:4: a value cannot begin with '@'; quote it"),
        ("a: %x", "e.yml:1:4: a value cannot begin with '%'; quote it"),
        ("a: `x`", "e.yml:1:4: a value cannot begin with '`'; quote it"),
        ("a: [1, 2", "e.yml:1:4: this [ is never closed; write its ]"),
        ("a: {b: 1", "e.yml:1:4: this { is never closed; write its }"),
        ("a: {b: 1 c: 2}", "e.yml:1:4: this { is not closed, or a comma is missing; write it as {a: 1, b: 2}; quote a template: '{{ name }}'"),
        ("run: {cmd: x", "e.yml:1:6: this { is never closed; write its }"),
        ("run:\n  cmd: 'x\nname: y", "e.yml:2:8: this quote is never closed; close it"),
        ("- index: 2\n   cpu: {a: 1}", "e.yml:2:4: this key is indented by 3, and the key 'index' above it by 2; give keys of one section the same indentation"),
        ("n: 4\n\n # c\n  d:\n    e: 1", "e.yml:4:3: this key is indented by 2, and the key 'n' above it by 0; give keys of one section the same indentation"),
        ("run:\n   cmd: x\n  b: 1", "e.yml:3:3: this key is indented by 2, and the key 'cmd' above it by 3; give keys of one section the same indentation"),
        ("a b\nrun: {cmd: x}", "e.yml:1:1: this line is a key without ':'; write `key: value`"),
        ("run:\n  cmd: |\n  python x.py\nname: x", "e.yml:3:1: the text after the line above is not indented; indent it deeper than its key"),
        ("a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> c", "e.yml:2:1: this line is the mark of a merge conflict; resolve the conflict in git"),
        ("a: 'x", "e.yml:1:4: this quote is never closed; close it"),
        ('a: "x\n---\nb: 1', "e.yml:1:4: a line of --- or ... is inside quotes; close the quote above it"),
        ('a: "x\\0"', "e.yml:1:4: a NUL byte or an unpaired surrogate cannot be passed to a program; remove it"),
        ("a:\n  - x\n - y", f"e.yml:3:2: this does not continue what is before it; {INDENTATION}"),
        ("a: 'b' c", f"e.yml:1:8: this does not continue what is before it; {INDENTATION}"),
        ("a: - b", "e.yml:1:4: a list cannot begin on the line of its key; write each `- item` on a line of its own"),
        ("a: |x\n", "e.yml:1:5: the text after | or > begins on the next line"),
        ("a: }", "e.yml:1:4: a value is expected here; quote it if it is text"),
        ("%YAML 3.0\n---\na: 1", "e.yml:1:1: this directive is not supported; remove the line with %"),
        ("a: {b: x:1,y:2 -n 3}", "e.yml:1:8: within { } a text ends at its first ',', and 'y:2 -n 3' is read as a key; quote it: 'x:1,y:2 -n 3'"),
        ("a: {b: x 1, c d, e: f}", "e.yml:1:8: within { } a text ends at its first ',', and 'c d' is read as a key; quote it: 'x 1, c d'"),
        ("a: ? b", "e.yml:1:4: '? ' begins a key here, where none is allowed; quote the text"),
        ("run: {cmd: x a={b: 1}}", "e.yml:1:6: this { } ends at another }; quote the command: `cmd: 'x a={b: 1}'`"),
        ("run: {cmd: x # y}", "e.yml:1:6: this { } ends at another }; quote the command: `cmd: 'x # y'`"),
        ("run:\n  cmd: @x y", "e.yml:2:8: a value cannot begin with '@'; quote the command: `cmd: '@x y'`"),
        ("run:\n  cmd: a 'b: c'", "e.yml:2:12: ': ' makes this a key, where none is allowed; quote the command: `cmd: 'a ''b: c'''`"),
        ('run:\n  cmd: "a" b', "e.yml:2:12: this does not continue what is before it; quote the command: `cmd: '\"a\" b'`"),
        (f"run:\n  cmd: @{'x' * 200}", "e.yml:2:8: a value cannot begin with '@'; write the command on the lines below `cmd: |`"),
        ("run:\n  cmd: a \\\n  b", "e.yml:3:3: this line is a key without ':'; write the command on the lines below `cmd: |`"),
        ("run:\n\tcmd: x", "e.yml:2:1: a tab is used for indentation; use spaces"),
        ("a: & x", "e.yml:1:5: & and * begin the name of an anchor or alias; quote the text"),
        ("a: 1\n---\nb: 1", "e.yml:2:1: a second document begins here; keep one document in a file"),
        ("---\n---\nb: 1", "e.yml:2:1: a second document begins here; keep one document in a file"),
        ("a: 1\n...\nfoo", "e.yml:3:1: a second document begins here; keep one document in a file"),
        ("a: {{ x }}", "e.yml:1:5: a template at the start of a value must be quoted; write '{{ x }}'"),
        ("a: {{ x }} --b 1 # c", "e.yml:1:5: a template at the start of a value must be quoted; write '{{ x }} --b 1'"),
        ("a: {b: {{ x }}}", "e.yml:1:9: a template at the start of a value must be quoted; write '{{ x }}'"),
        ("? [a]\n: b", "e.yml:1:3: a list or section cannot be a key; write a word"),
        ("a: 1\nb:\n  c: 1\n  'c': 2", "e.yml:4:3: the key 'c' is written twice; the first one is in line 3"),
        ("{a: 1, a: 2}", "e.yml:1:8: the key 'a' is written twice; the first one is in line 1"),
        ("a: *x", "e.yml:1:4: the alias *x has no anchor above it; write &x before the value that it refers to"),
        ("b: &one 1\na: *on", "e.yml:2:4: the alias *on has no anchor above it; did you mean 'one'?"),
        ("a: &x [*x]", "e.yml:1:8: the alias *x refers to a value that contains it"),
        ("<<: 3", "e.yml:1:5: << takes a section or a list of sections; write `<<: *anchor`"),
        ("a: !!python/object:os.system x",
         "e.yml:1:4: the tag !!python/object:os.system is not supported; remove it: a file holds data, not objects"),
        ("a: !foo {b: 1}", "e.yml:1:4: the tag !foo is not supported; remove it: a file holds data, not objects"),
        ("a: !!map [b]", "e.yml:1:4: the tag !!map is not supported; remove it: a file holds data, not objects"),
        ("a: !!binary aGk=", "e.yml:1:4: the tag !!binary is not supported; remove it: a file holds data, not objects"),
        ("a: !e!x y", "e.yml:1:4: this tag is not supported; quote the text if it begins with !"),
        ("a: !!int x", "e.yml:1:4: 'x' is not a whole number, which its tag !!int requires"),
        ("a: " + "9" * 301, "e.yml:1:4: a number of 301 digits is not supported; quote it if it is text"),
        ("a: x\0y", "e.yml:1:5: a NUL byte is not allowed in a text file; remove it"),
        ("a: 1\nb: \x07", "e.yml:2:4: the control character U+0007 is not allowed in a text file; remove it"),
        ("a: \ud800", "e.yml:1:4: the byte 0xed is not valid UTF-8; save the file as UTF-8"),
        ("a: " + "[" * (MAX_DEPTH + 1),
         "e.yml:1:68: lists and sections are nested more than 64 levels deep; use fewer levels"),
        ("a: [" + "a," * 100_000 + "]",
         "e.yml:1:199999: the file has more than 100000 values; keep them in a file that the program reads"),
    ],
)  # fmt: skip
def test_invalid_yaml_is_refused(text: str, message: str, parser: type) -> None:
    assert said(text, parser) == [message]


@EACH_PARSER
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nframework\n\n# c\nrun: {cmd: a}", "e.yml:2:1: this line is a key without ':'; write `key: value`"),
        ("name: x\nrun:\n  cmd: a\nbatch\n", "e.yml:4:1: this line is a key without ':'; write `key: value`"),
        ("a: 1\npaths:#[optional]\n  # x\nb: 1", "e.yml:2:6: this ':' has no space after it; put a space after `paths:`"),
        ("paths:#[optional]\n  # x\nb: 1", "e.yml:1:6: this ':' has no space after it; put a space after `paths:`"),
        ("a:b\nc: 1", "e.yml:1:2: this ':' has no space after it; put a space after `a:`"),
        ("run: # x\n\n  cmd:a\n  # y\n  b: 2", "e.yml:3:6: this ':' has no space after it; put a space after `cmd:`"),
        ("a:\n- b:c\n  d: e", "e.yml:2:4: this ':' has no space after it; put a space after `b:`"),
        ("a: 1\n'k':v", "e.yml:2:4: this ':' has no space after it; put a space after `'k':`"),
        ("a: 1\nhttp://x", "e.yml:2:1: this line is a key without ':'; write `key: value`"),
        ("a: echo\n  b:c\nd: e: f", f"e.yml:3:5: {COLON}"),
        ("a: echo\n  b:c\n  d: e", f"e.yml:3:4: {COLON}"),
        ("a:\n  http://x\n  d: e", f"e.yml:3:4: {COLON}"),
        ("# b:c\na: b: c", f"e.yml:2:5: {COLON}"),
    ],
)  # fmt: skip
def test_missing_colon_or_space_is_reported_where_it_is_missing(
    text: str, message: str, parser: type
) -> None:
    assert said(text, parser) == [message]


@EACH_PARSER
def test_all_problems_are_reported_at_once(parser: type) -> None:
    assert said("a: 1\na: 2\nb: !x y\nc: @", parser) == [
        "e.yml:2:1: the key 'a' is written twice; the first one is in line 1",
        "e.yml:3:4: the tag !x is not supported; remove it: a file holds data, not objects",
        "e.yml:4:4: a value cannot begin with '@'; quote it",
    ]


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


def test_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert said("\n".join(lines)) == [
        "e.yml:6:10: with its aliases expanded, the file has more than 100000 values; remove aliases (*name)"
    ]


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


def test_deep_nesting_by_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100))]
    (message,) = said("\n".join(lines))
    assert message.endswith("lists and sections are nested more than 64 levels deep; use fewer levels")


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
