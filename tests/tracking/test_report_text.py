"""What stands in a page for values that anyone may have chosen."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.tracking import report_data


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain é 漢 <b>", "plain é 漢 <b>"),
        ("a\0b\x1b[31m\n\t\r", "a\\x00b\\x1b[31m\\n\\t\\r"),
        ("\u202egnp.exe\u2028\udc80", "\\u202egnp.exe\\u2028\\udc80"),
        ("x" * 2003, "x" * 2000 + "… (3 more)"),
    ],
)
def test_what_is_not_printable_is_shown_as_its_code(value: str, shown: str) -> None:
    assert report_data.visible(value) == shown


@given(st.text())
def test_what_is_shown_is_printable(value: str) -> None:
    assert report_data.visible(value).isprintable()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("10%\r20%\r30%\r", "30%"),
        ("\x1b[32mgreen\x1b[0m \x1b]0;title\x07", "green \x1b]0;title\x07"),
        ("a\tb", "a       b"),
    ],
)
def test_a_line_of_output_is_what_a_terminal_shows(line: str, shown: str) -> None:
    assert report_data.terminal_line(line) == shown


@pytest.mark.extended
@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_data_of_a_script_has_no_markup_and_is_read_as_it_was(value: object) -> None:
    written = report_data.script_data(value)
    assert written.isascii()
    assert not {*"<>&"} & {*written}
    assert json.loads(written) == value
