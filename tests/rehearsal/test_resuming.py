"""Whether an attempt went on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpcdist.rehearsal.checkpoints import written
from hpcdist.rehearsal.observed import Attempt, Ending, File
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


FOUR = [attempt(0, *(tuple(file("c", made, made) for made in range(there, there + 1)) for there in range(5)))]
"""A training that wrote four checkpoints in its first attempt, ten seconds after each other."""


@pytest.mark.parametrize(
    ("own", "went_on"),
    [
        (34.0, True),  # it does the step again that had been tracked before the last checkpoint
        (35.0, True),
        (31.0, True),  # the training had gone on while the checkpoint was written
        (90.0, True),
        (25.0, False),  # from the checkpoint before the last one
        (5.0, False),  # from the oldest one
        (0.0, False),
    ],
)
def test_steps_show_whether_it_went_on_from_the_last_checkpoint(own: float, *, went_on: bool) -> None:
    tracked = steps([float(step) for step in range(45)], [own, own + 1])
    second = attempt(1, FOUR[0].looks[-1].files)
    found = resumed([*FOUR, second], 1, tracked)
    assert found == Resumption(went_on, "steps", reached=44.0, began_at=own, saved=34.0)


def test_a_checkpoint_that_was_cut_short_is_not_the_last_one() -> None:
    cut = FOUR[0]._replace(endings=(Ending(1040.1, "write", "n1", "0"),))
    tracked = steps([float(step) for step in range(35)], [25.0])
    assert resumed([cut, attempt(1)], 1, tracked).went_on is True


def test_a_checkpoint_that_was_not_renamed_yet_is_not_the_last_one() -> None:
    """It waits for the disk when its rank gets KILL: for long its file does not grow."""
    part = FOUR[0].looks[-1]._replace(at=1050.0, files=(*FOUR[0].looks[-1].files, file("new", 9, 9)))
    waits = FOUR[0]._replace(looks=(*FOUR[0].looks, part), endings=(Ending(1060.0, "node", "n1", "0"),))
    tracked = steps([float(step) for step in range(55)], [35.0])
    assert resumed([waits, attempt(1)], 1, tracked) == Resumption(
        went_on=True, by="steps", reached=54.0, began_at=35.0, saved=34.0
    )


def test_neither_epochs_nor_a_log_beside_the_checkpoints_count() -> None:
    """The program tracks a metric by epochs once more first, and its log grows after the last checkpoint."""
    log = [
        look._replace(at=look.at + 2, files=(*look.files, file("log", 99, look.at, size=3)))
        for look in FOUR[0].looks
    ]
    looks = sorted(
        (
            *FOUR[0].looks,
            *log,
            log[-1]._replace(at=1049.0, files=(*log[-1].files[:1], file("log", 99, 1049, size=4))),
        )
    )
    tracked = steps([float(step) for step in range(45)], [35.0, 36.0])
    epoch = Step(2000.0, 3.0, "epoch")
    tracked = {**tracked, "7/0.1": [epoch, *tracked["7/0.1"]]}
    found = resumed([FOUR[0]._replace(looks=tuple(looks)), attempt(1)], 1, tracked)
    assert (found.went_on, found.saved, found.began_at) == (True, 34.0, 35.0)


def resumed(attempts: Sequence[Attempt], number: int, steps: Steps) -> Resumption:
    return resumption(attempts, written(attempts), number, steps)


def test_steps_show_nothing_before_there_was_a_later_one_to_save() -> None:
    late = {"7/0.0": [Step(1018.0, 0), Step(1050.0, 1)], "7/0.1": [Step(2001.0, 0)]}
    assert resumed(TWO, 1, late).by == "reading"


def numbered(*names: str) -> tuple[File, ...]:
    return tuple(file(name, sum(map(ord, name)), 1) for name in names)


@pytest.mark.parametrize(
    ("written", "went_on"),
    [("step-40/a", True), ("step-30/a", True), ("step-20/a", False), ("step-10/a", False)],
)
def test_names_of_checkpoints_show_it_too(written: str, *, went_on: bool) -> None:
    there = numbered("step-10/a", "step-20/a", "step-30/a", "events.1700000000.n1")
    first = attempt(0, there[3:], (there[0], there[3]), (*there[:2], there[3]), there)
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
