from __future__ import annotations

import pytest

from hpcdist.base import errors
from hpcdist.base.errors import ConfigError, Place, Problem, bytes_text


def test_problem_as_text_has_place_message_and_hint() -> None:
    problem = Problem("expected text", ("a", "b", 0, "c"), "quote it", place=Place("e.yml", 3, 9))
    assert str(problem) == "e.yml:3:9: a.b[0].c: expected text; quote it"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("broken"), "broken"),
        (Problem("broken", ("run",)), "run: broken"),
        (Problem("gone", place=Place("e.yml", 0, 0)), "e.yml: gone"),
        (Problem("bad", (0, "x")), "[0].x: bad"),
    ],
)
def test_unknown_parts_of_a_place_are_omitted(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_error_text_contains_all_problems() -> None:
    error = ConfigError("first", Problem("second", hint="mend it"))
    assert error.problems == (Problem("first"), Problem("second", hint="mend it"))
    assert str(error) == "first\nsecond; mend it"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ConfigError, 2),
        (errors.PlanError, 3),
        (errors.RenderError, 4),
        (errors.SchedulerError, 5),
        (errors.SubmissionUnknown, 5),
        (errors.JobFailed, 1),
        (errors.WaitTimeout, 124),
    ],
)
def test_exit_codes(kind: type[errors.HpcdistError], code: int) -> None:
    assert kind("x").exit_code == code


@pytest.mark.parametrize(
    ("word", "hint"),
    [("wrker", "did you mean 'worker'?"), ("xyz", "known: ps, worker")],
)
def test_did_you_mean(word: str, hint: str) -> None:
    assert errors.did_you_mean(word, ["worker", "ps"]) == hint


def test_did_you_mean_lists_only_some_of_many_choices() -> None:
    assert errors.did_you_mean("xyz", "abcdef", most=4) == "known: a, b, c, d and 2 more"
    assert errors.did_you_mean("xyz", "abcd", most=4) == "known: a, b, c, d"
    assert (
        errors.did_you_mean("worker7", [f"worker{n}" for n in range(8)], most=4) == "did you mean 'worker7'?"
    )


def test_did_you_mean_nothing() -> None:
    assert errors.did_you_mean("x", []) == ""


def test_errors_in_ignores_warnings() -> None:
    warning, error = Problem("odd", severity="warning"), Problem("wrong")
    assert errors.errors_in([warning, error]) == (error,)


def test_key_equals_its_text() -> None:
    assert errors.dotted(("a", errors.Key("b"))) == "a.b"
    assert ("a", errors.Key("b")) == ("a", "b")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (12_900_000, "12.3 MiB"),
        (3 << 40, "3.0 TiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_numbers_of_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text
    assert bytes_text(count, "B") == text.replace("bytes", "B")
