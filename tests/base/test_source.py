# ruff: noqa: E501 - a table
from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.base.source import PARSER
from hpcdist.base.tree import Document, Map, Seq
from tests.wording import Wording


def read(text: str) -> Any:
    return source.parse(text, "e.yml").data


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("FALSE", False), ("tRue", "tRue"),
        ("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None), ("nULL", "nULL"),
        ("12", 12), ("-3", -3), ("+3", 3), ("010", 10), ("0o10", 8), ("0x1F", 31), ("0b11", "0b11"), ("1_000", "1_000"),
        ("2:00:00", "2:00:00"), ("6:30", "6:30"), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e-10", 1e-10),
        ("1E3", 1000.0), ("-.5e+1", -5.0), ("1e999", math.inf), (".inf", math.inf), ("-.Inf", -math.inf), (".", "."),
        ("2024-01-31", "2024-01-31"), ("2024-01-31T00:00:00Z", "2024-01-31T00:00:00Z"), ("=", "="), ("1.1.0", "1.1.0"),
        ("'12'", "12"), ('"true"', "true"), ("''", ""), ("!!str 12", "12"), ("!!int '12'", 12), ("!!float 1", 1.0),
        ("!!bool 'true'", True), ("!!null ''", None), ("!!map {}", {}), ("!!seq []", []), ("a # b", "a"), ("a#b", "a#b"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2(word: str, value: object) -> None:
    found = read(f"a: {word}\n")["a"]
    assert found == value
    assert type(found) in (type(value), Map, Seq)


def test_not_a_number() -> None:
    assert math.isnan(read("a: .nan")["a"])


@pytest.mark.parametrize("parser", dict.fromkeys([PARSER, yaml.SafeLoader]))
def test_json_is_yaml(parser: type) -> None:
    text = '{\n  "run": {"cmd": "x\\n\\u00e9"},\n  "list":[1,2.5,true,null,"a/b"]}'
    assert source.parse(text, "e.yml", parser).data == {
        "run": {"cmd": "x\né"},
        "list": [1, 2.5, True, None, "a/b"],
    }


def test_anchors_aliases_and_merge_keys() -> None:
    text = """
base: &base {a: 1, b: {c: 2}}
more: &more {a: 5, d: 3}
one: {<<: *base, a: 7}
two: {<<: [*more, *base]}
list: [&x text, *x]
*x : key
"""
    assert read(text) == {
        "base": {"a": 1, "b": {"c": 2}},
        "more": {"a": 5, "d": 3},
        "one": {"a": 7, "b": {"c": 2}},
        "two": {"a": 5, "d": 3, "b": {"c": 2}},
        "list": ["text", "text"],
        "text": "key",
    }


def test_merged_entries_keep_the_place_of_their_anchor() -> None:
    document = source.parse("x: &x\n  a: 1\ny:\n  <<: *x\nz: *x\n", "e.yml")
    assert document.place(("y", "a")) == Place("e.yml", 2, 6)
    assert document.place(("z", "a")) == Place("e.yml", 2, 6)
    assert document.place(("z",)) == Place("e.yml", 5, 1)


def test_a_quoted_merge_key_is_a_key() -> None:
    assert read("'<<': {a: 1}") == {"<<": {"a": 1}}


def test_scalar_keys_become_text_as_written() -> None:
    assert read("1: a\n010: b\ntrue: c\n1.50: d\n~: e\n") == {
        "1": "a",
        "010": "b",
        "true": "c",
        "1.50": "d",
        "~": "e",
    }


def test_byte_order_mark_is_ignored() -> None:
    assert source.decode(b"\xef\xbb\xbfa: 1", "e.yml") == "a: 1"


@pytest.mark.parametrize(
    "raw",
    [
        b"a: \xff",
        b"a: 1\nb: \xc3\xa9\xe9",
        "a: 1".encode("utf-16"),
        pytest.param(b"#" * (2**20 + 1), id="over 1 MiB"),
    ],
)
def test_bytes_that_are_not_utf_8_text(raw: bytes, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        source.decode(raw, "f")
    wording(str(caught.value))


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "e.yml"
    path.write_text("a: é\n", encoding="utf-8")
    assert source.load(path) == Document(Map({"a": "é"}), str(path), "a: é\n")


def test_files_that_cannot_be_read(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "train.yml").touch()
    inside = (f"{tmp_path}/{name}" for name in ("trian.yml", "no/x.yml", "train.yml/x"))
    for path in (str(tmp_path), *inside, "a\0b", "/dev/zero"):
        with pytest.raises(ConfigError) as caught:
            source.load(path)
        wording(str(caught.value).replace(str(tmp_path), "TMP").replace("\0", "NUL"))


def test_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from hpcdist.base import source; print(source.load('-'))"],
        input=b"a: 1",
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == f"{Document(Map({'a': 1}), '<stdin>', 'a: 1')}\n"


@pytest.mark.parametrize("text", ['{"a": "x\\ud83d\\ude00y", "\\ud83d\\uDE00": "z"}', '{a: "x😀y", 😀: z}'])
def test_escaped_surrogate_pair_of_json_is_one_character(text: str) -> None:
    assert read(text) == {"a": "x😀y", "😀": "z"}


def test_escaped_surrogate_pair_in_single_quotes_stays_text() -> None:
    assert read("a: '\\ud83d\\ude00'\nb: \\ud83d\\ude00\n") == {"a": r"\ud83d\ude00", "b": r"\ud83d\ude00"}


@pytest.mark.parametrize("half", [r"\ud83d", r"\ude00\ud83d", r"\ud83d\ud83d\ude00"])
def test_unpaired_surrogate_is_refused(half: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f'a: "{half}"')
    wording(str(caught.value))


PRINTABLE = (0x9, 0xA, 0xD, *range(0x20, 0x7F), *range(0xA0, 0xD800), *range(0xE000, 0xFFFE))
"""YAML 1.2, production 1, without the line end of YAML 1.1; what is beyond U+FFFF is printable too."""
LINE_ENDS = {0x2028, 0x2029}


def test_every_character_that_yaml_takes_as_printable_is_taken() -> None:
    text = "".join(chr(code) for code in PRINTABLE if code not in LINE_ENDS)
    assert source.decode(text.encode(), "e.yml") == text
    for plane in range(0x10000, 0x110000, 0x10000):
        text = "".join(map(chr, range(plane, plane + 0x10000)))
        assert source.decode(text.encode(), "e.yml") == text


def test_no_other_character_is_taken() -> None:
    surrogates = range(0xD800, 0xE000)  # which no text in UTF-8 has
    for code in {*range(0x10000)} - {*PRINTABLE} - {*surrogates} | LINE_ENDS:
        with pytest.raises(ConfigError, match=f"U\\+{code:04X}|NUL"):
            source.decode(f"a{chr(code)}".encode(), "e.yml")


@pytest.mark.parametrize(
    ("character", "escape"),
    [("\x85", "U+0085 {}\\N"), ("\u2028", "U+2028 {}\\L"), ("\u2029", "U+2029 {}\\P")],
)
def test_line_ends_of_yaml_1_1_only_are_refused(character: str, escape: str) -> None:
    message = escape.format("ends a line for some YAML parsers and not for others; remove it, or write ")
    with pytest.raises(ConfigError, match=f"^e.yml:2:5: {re.escape(message)} in double quotes$"):
        read(f"a: 1\nb: x{character}y\n")
    assert read(f'b: "x{message.split()[-1]}y"') == {"b": f"x{character}y"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4), ("2:00:00", "2:00:00"), ("", None), ("a: b # c", "a: b # c"), ("*x", "*x"), ("!x", "!x"),
        ("[1, a]", [1, "a"]), ("{a: 1}", {"a": 1}), ('"4"', "4"), ("'a: b'", "a: b"), ("{{ x }}", "{{ x }}"),
        ("a\nb: c", "a\nb: c"), ("- a", "- a"),
    ],
)  # fmt: skip
def test_values_from_the_command_line(text: str, value: object) -> None:
    assert source.read_value(text, Place("--set", 0, 0)) == value


@pytest.mark.parametrize(
    "text",
    [
        "[1",
        "'a'\nb: c",
        pytest.param("9" * 301, id="a number of 301 digits"),
        "\udcff",
    ],
)
def test_broken_values_from_the_command_line(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        source.read_value(text, Place("--set x", 0, 0))
    wording(str(caught.value))


def problems_of(text: str) -> tuple[Problem, ...]:
    """Read a text; whatever it is, only a ``ConfigError`` may come."""
    try:
        source.parse(text, "e.yml")
    except ConfigError as error:
        return error.problems
    return ()


PIECES = st.sampled_from(
    [
        *"abc019 .:-?,[]{}#&*!|>'\"%@`\n\t~=<\\/é",
        "\n  ",
        ": ",
        "- ",
        "<<",
        "<<: *a",
        "&a ",
        "*a",
        "!!str ",
        "---\n",
        "{{ ",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
@example("a: !<\n")
@example("? \n? ")
@example("{? a}")
def test_any_yaml_is_read_or_refused_with_a_place(text: str) -> None:
    assert all(problem.place for problem in problems_of(text))


@given(st.text())
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    assert all(problem.place for problem in problems_of(text))


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(ConfigError):
        problems_of(source.decode(raw, "e.yml"))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("xyz", min_size=1), VALUES, min_size=1))
def test_what_pyyaml_writes_is_read_back(data: dict[str, object]) -> None:
    text = yaml.safe_dump(data, default_style='"', allow_unicode=False)
    assert read(text.replace("!!python/none", "!!null")) == data


def test_several_documents() -> None:
    text = "---\n---\na: 1\n---\nb: 2\n---\n"
    found = source.parse(text, "e.yml", several=True)
    assert found == Document(Map({"a": 1}), "e.yml", text, (Map({"b": 2}),))
    assert [data.place for data in found.others] == [Place("e.yml", 5, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n---\n- b",
        "---\n---\n",
    ],
)
def test_invalid_files_of_several_documents(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        source.parse(text, "e.yml", several=True)
    wording(str(caught.value))
