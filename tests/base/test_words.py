from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import words
from tests.tiers import examples

NO_NUL = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


def read_by_bash(line: str) -> list[str]:
    """Return the words that a real bash makes of a line."""
    script = f"printf '%s\\0' {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode().split("\0")[:-1]


@examples(150)
@given(st.lists(NO_NUL, min_size=1))
def test_bash_reads_every_word_back(texts: list[str]) -> None:
    assert read_by_bash(words.join(texts)) == texts


AWKWARD = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "$(id)",
    "\\",
    "\n",
    "a\nb\n",
    "!!",
    "*",
    "~",
    "-n",
    "é",
    "\x01",
    "\r",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_bash_reads_special_characters_back(text: str) -> None:
    assert read_by_bash(words.quote(text)) == [text]


@pytest.mark.parametrize("text", AWKWARD)
def test_bash_reads_special_characters_back_in_double_quotes(text: str) -> None:
    assert read_by_bash(f'"a{words.in_double_quotes(text)}b"') == [f"a{text}b"]


@examples(150)
@given(NO_NUL)
def test_bash_reads_every_text_back_in_double_quotes(text: str) -> None:
    assert read_by_bash(f'"{words.in_double_quotes(text)}"') == [text]


def test_raw_is_not_quoted_and_quotes_once() -> None:
    assert words.quote(words.Raw("$PWD")) == "$PWD"
    assert words.quote(words.quote("a b")) == "'a b'"
    assert words.join([words.Raw("cd"), "a b"]) == "cd 'a b'"


def test_a_value_with_a_leading_equals_sign_is_not_read_as_a_comparison() -> None:
    assert words.join(["=mlx5_0", "a=b", "='"]) == """'=mlx5_0' a=b '='"'"''"""


def test_numbers_are_words() -> None:
    assert words.join([1, 2.5, True]) == "1 2.5 True"


def test_a_nul_byte_is_refused() -> None:
    for write in (words.quote, words.in_double_quotes):
        with pytest.raises(ValueError, match="a NUL byte cannot be passed to a program"):
            write("a\0b")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my run: 1", "my-run-1"),
        ("", "experiment"),
        ("--", "experiment"),
        ("a.b/c", "a-b-c"),
        ("ok_1", "ok_1"),
        ("é", "experiment"),
        ("x" * 236, "x" * 235),
    ],
)
def test_slugs(text: str, name: str) -> None:
    assert words.slug(text) == name


@given(st.text())
def test_slug_is_a_valid_run_name_and_not_an_option(text: str) -> None:
    assert words.RUN_NAME.fullmatch(words.slug(text))
