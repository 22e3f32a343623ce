from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.experiment.batch_specs import ArraySpec, IndexRange, array_problems, array_ranges

COUNTS = st.integers(0, 10**18 - 1)


@st.composite
def ranges(draw: st.DrawFn) -> IndexRange:
    first, last = sorted((draw(COUNTS), draw(COUNTS)))
    step = draw(st.none() | st.integers(1, 10**18 - 1))
    return draw(st.sampled_from([IndexRange(first), IndexRange(first, last, step)]))


ARRAYS = st.builds(ArraySpec, st.lists(ranges(), min_size=1).map(tuple), st.none() | COUNTS)


@given(ARRAYS)
def test_an_array_is_read_again_as_it_is_written_and_from_json(array: ArraySpec) -> None:
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
def test_no_arrays(text: str) -> None:
    sentence = f"a: {text!r} is no array of jobs; write 0-15, 0-15:4, 1,3,5 or 0-15%4"
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
def test_arrays_that_no_batch_system_takes(text: str) -> None:
    (problem,) = array_problems(text, ("batch", "array"))
    assert problem.message == f"no batch system takes so many elements, or such indices: {text!r}"


@pytest.mark.parametrize(("text", "size"), [("0-15:4,20%2", (5, 20)), ("1-4000000", (4_000_000, 4_000_000))])
def test_the_size_of_an_array(text: str, size: tuple[int, int]) -> None:
    array = ArraySpec.parse(text)
    assert (array.size, array.largest) == size
