"""Whether an attempt went on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpcdist.rehearsal.checkpoints import written
from hpcdist.rehearsal.observed import Attempt, File
from hpcdist.rehearsal.resuming import Resumption, resumption
from hpcdist.rehearsal.steps import Step, Steps
from tests.rehearsal.made import attempt, file, whole

TWO = [whole(0, 0), whole(1, 2)]


def steps(*each: list[float]) -> Steps:
    """Return steps that attempts recorded, the first one five seconds after it began, each second one."""
    return {
        f"7/0.{number}": [Step(1000 * (number + 1) + 5 + at, step) for at, step in enumerate(own)]
        for number, own in enumerate(each)
    }


@pytest.mark.parametrize(
    ("own", "went_on"), [([3.0, 4.0], True), ([0.0, 1.0], False), ([1.0], True), ([9.0], True)]
)
def test_steps_show_whether_it_began_anew(own: list[float], *, went_on: bool) -> None:
    found = resumed(TWO, 1, steps([0.0, 1.0, 2.0, 3.0, 4.0], own))
    assert found == Resumption(went_on, "steps", reached=4.0, began_at=own[0])


def resumed(attempts: Sequence[Attempt], number: int, steps: Steps) -> Resumption:
    return resumption(attempts, written(attempts), number, steps)


def test_steps_show_nothing_before_there_was_a_later_one_to_save() -> None:
    late = {"7/0.0": [Step(1018.0, 0), Step(1050.0, 1)], "7/0.1": [Step(2001.0, 0)]}
    assert resumed(TWO, 1, late).by == "reading"


def numbered(*names: str) -> tuple[File, ...]:
    return tuple(file(name, sum(map(ord, name)), 1) for name in names)


@pytest.mark.parametrize(
    ("written", "went_on"), [("step-30/a", True), ("step-20/a", True), ("step-10/a", False)]
)
def test_names_of_checkpoints_show_it_too(written: str, *, went_on: bool) -> None:
    first = attempt(0, (), numbered("step-10/a"), numbered("step-10/a", "step-20/a"))
    there = numbered("step-10/a", "step-20/a")
    again = tuple(each._replace(changed="2") for each in numbered(written))
    rest = tuple(each for each in there if each.path != written)
    own = attempt(1, there, (*rest, *again))
    assert resumed([first, own], 1, {}) == Resumption(went_on, "names")


def test_numbers_of_ranks_show_nothing() -> None:
    def shards(changed: float) -> tuple[File, ...]:
        return file("rank0", 1, changed), file("rank1", 2, changed)

    first = attempt(0, (), shards(1), shards(2))
    own = attempt(1, shards(2), shards(3))
    assert resumed([first, own], 1, {}) == Resumption(went_on=True, by="reading")


@pytest.mark.parametrize(
    ("own", "went_on"),
    [
        (TWO[1], True),
        (TWO[1]._replace(read=frozenset()), False),
        (TWO[1]._replace(read=None), None),
        (TWO[1]._replace(read=frozenset({(TWO[1].found[0].inode, "later")})), False),  # one with its inode
        (attempt(1, (file("c", 2, 2),))._replace(read=frozenset()), None),  # ended before it could
    ],
)
def test_what_was_read_shows_it_else(own: Attempt, *, went_on: bool | None) -> None:
    found = resumed([TWO[0], own], 1, {})
    assert found == Resumption(went_on, "" if went_on is None else "reading")
