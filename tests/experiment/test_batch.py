"""The section ``batch``: texts in Slurm's syntax, and the job's own log files."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.experiment.batch import (
    ArraySpec,
    AwaitedJob,
    Batch,
    Dependency,
    IndexRange,
    SignalSpec,
    WaitCondition,
    array_problems,
    array_ranges,
    dependency_problems,
    log_file_problems,
    signal_problems,
    with_job_name,
)
from tests.wording import Wording

COUNTS = st.integers(0, 10**18 - 1)


@st.composite
def ranges(draw: st.DrawFn) -> IndexRange:
    first, last = sorted((draw(COUNTS), draw(COUNTS)))
    step = draw(st.none() | st.integers(1, 10**18 - 1))
    return draw(st.sampled_from([IndexRange(first), IndexRange(first, last, step)]))


ARRAYS = st.builds(ArraySpec, st.lists(ranges(), min_size=1).map(tuple), st.none() | COUNTS)


@given(ARRAYS)
def test_array_round_trip(array: ArraySpec) -> None:
    assert ArraySpec.parse(str(array)) == array
    assert msgspec.json.decode(msgspec.json.encode(array), type=ArraySpec) == array


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("7", ArraySpec((IndexRange(7),))),
        ("0-15", ArraySpec((IndexRange(0, 15),))),
        ("0-15:4", ArraySpec((IndexRange(0, 15, 4),))),
        ("1,3,5-7", ArraySpec((IndexRange(1), IndexRange(3), IndexRange(5, 7)))),
        ("0-15%4", ArraySpec((IndexRange(0, 15),), 4)),
        ("0-3:2,9%1", ArraySpec((IndexRange(0, 3, 2), IndexRange(9)), 1)),
    ],
)
def test_arrays(text: str, array: ArraySpec) -> None:
    assert (ArraySpec.parse(text), str(array)) == (array, text)
    assert [*array_problems(text, ())] == []


NO_ARRAYS = ["", "x y", "-1", "3-1", "0-7:0", "1,,2", "1%", "1\n", f"{'9' * 5000}-1"]


@pytest.mark.parametrize("text", NO_ARRAYS)
def test_invalid_arrays(text: str) -> None:
    sentence = f"a: {text!r} is not a job array; write 0-15, 0-15:4, 1,3,5 or 0-15%4"
    assert [str(problem) for problem in array_problems(text, ("a",))] == [sentence]
    assert array_ranges(text) == []


def test_the_indices_of_an_array() -> None:
    assert array_ranges("0-7:3,9%2") == [range(0, 8, 3), range(9, 10)]


TOO_LARGE = [
    "1-4000001",
    "5000000",
    "0-3999999,0-9",
    "1-99999999999999999999",
    "9" * 5000,
    f"0-1%{'9' * 5000}",
]


@pytest.mark.parametrize("text", TOO_LARGE)
def test_arrays_that_are_too_large(text: str) -> None:
    (problem,) = array_problems(text, ("batch", "array"))
    assert problem.message == f"no batch system accepts so many elements, or such indices: {text!r}"


@pytest.mark.parametrize(("text", "size"), [("0-15:4,20%2", (5, 20)), ("1-4000000", (4_000_000, 4_000_000))])
def test_the_size_of_an_array(text: str, size: tuple[int, int]) -> None:
    array = ArraySpec.parse(text)
    assert (array.size, array.largest) == size


@pytest.mark.parametrize(
    ("text", "index"), [("7%2", 7), ("5-5", 5), ("3,3", 3), ("0-7:8", 0), ("3,4", None), ("0-3999999", None)]
)
def test_the_only_element_of_an_array(text: str, index: int | None) -> None:
    assert ArraySpec.parse(text).only_index == index


@pytest.mark.parametrize("text", ["USR1", "B:USR1@120", "sigterm@60", "10", "B:12@5", "R:CONT", "KILL"])
def test_signals(text: str) -> None:
    assert [*signal_problems(text, ())] == []


@pytest.mark.parametrize(
    "text", ["", "B:", "B:KILL@60", "B:9", "BOGUS", "USR1@", "USR1@1m", "X:USR1", "99", "9" * 5000]
)
def test_invalid_signals(text: str) -> None:
    assert len([*signal_problems(text, ())]) == 1


@pytest.mark.parametrize(
    "text", ["4711", "4711:4712", "4711_3", "afterok:1:2", "after:1+5", "singleton", "afterok:1,afterany:2?3"]
)
def test_dependencies(text: str) -> None:
    assert [*dependency_problems([text], ())] == []


@pytest.mark.parametrize("text", ["", "after all", "afterwards:1", "afterok:", "afterok", "resnet-x"])
def test_invalid_dependencies(text: str) -> None:
    assert len([*dependency_problems([text], ())]) == 1


SIGNALS = st.builds(
    SignalSpec,
    st.from_regex("[A-Za-z0-9_]{1,18}", fullmatch=True),
    st.none() | st.integers(0, 99_999),
    st.sampled_from(["", "B", "R", "BR"]),
)


@given(SIGNALS)
def test_signal_round_trip(signal: SignalSpec) -> None:
    assert SignalSpec.parse(str(signal)) == signal
    assert msgspec.json.decode(msgspec.json.encode(signal), type=SignalSpec) == signal


NUMBERS = st.from_regex("[0-9]{1,20}", fullmatch=True)
JOBS = st.builds(AwaitedJob, NUMBERS, st.none() | st.just("*") | NUMBERS, st.none() | COUNTS) | st.builds(
    AwaitedJob, st.sampled_from(["f21234", "\u0192M7Zq9AKHno", "12.server-1", "12[]", "12[5].a.b"])
)
KINDS = ["after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer", None]
CONDITIONS = st.just(WaitCondition("singleton")) | st.builds(
    WaitCondition, st.sampled_from(KINDS), st.lists(JOBS, min_size=1, max_size=4).map(tuple)
)
SEVERAL = st.lists(CONDITIONS, min_size=1, max_size=4).map(tuple)
DEPENDENCIES = st.builds(Dependency, st.lists(SEVERAL, min_size=1, max_size=4).map(tuple))


@given(DEPENDENCIES)
def test_dependency_round_trip(dependency: Dependency) -> None:
    assert Dependency.parse(str(dependency)) == dependency
    assert msgspec.json.decode(msgspec.json.encode(dependency), type=Dependency) == dependency


def test_the_parts_of_a_dependency() -> None:
    twelve, later = AwaitedJob("12", "3"), AwaitedJob("13", None, 5)
    assert Dependency.parse("afterok:12_3:14,singleton?after:13+5?12_3") == Dependency(
        (
            (WaitCondition("afterok", (twelve, AwaitedJob("14"))), WaitCondition("singleton")),
            (WaitCondition("after", (later,)),),
            (WaitCondition(None, (twelve,)),),
        )
    )


def test_long_invalid_dependency_is_refused_fast() -> None:
    """Where two forms of an id fit a number, a regex over all of the list tries every combination."""
    assert len([*dependency_problems([":".join(["1"] * 200) + ":x"], ())]) == 1


@pytest.mark.parametrize("pattern", ["x.out", "logs/%x-%j.out", "/scratch/%u/%A.log"])
def test_log_files(pattern: str) -> None:
    assert [*log_file_problems(Batch(output=pattern), is_array=False)] == []


@pytest.mark.parametrize(
    ("pattern", "is_array"),
    [
        ("logs/", False),
        ("", False),
        ("~/x", False),
        ("$HOME/x", False),
        ("%4a.out", True),
        ("%N.out", False),
        ("100%", False),
        ("%A.out", True),
        ("%a.out", False),
    ],
)
def test_wrong_log_files(pattern: str, wording: Wording, *, is_array: bool) -> None:
    wording(map(str, log_file_problems(Batch(output=pattern), is_array=is_array)))


def test_one_file_for_both_is_refused() -> None:
    [problem] = log_file_problems(Batch(output="x", error="x"), is_array=False)
    assert problem.path == ("batch", "error")


def test_the_name_of_the_job_is_in_the_pattern() -> None:
    assert with_job_name("logs/%x-%j.out", "bert") == "logs/bert-%j.out"
