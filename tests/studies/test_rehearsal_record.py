"""What a rehearsal recorded: attempts, when checkpoints were written, and whether an attempt resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.runs.rundir import RunDirectory
from hpcdist.studies import rehearsal_record as record
from hpcdist.studies.rehearsal_record import (
    CheckpointFile,
    Ending,
    RehearsedAttempt,
    Resumption,
    Snapshot,
    Steps,
    TrackedStep,
    Write,
    checkpoints_of,
    resumption,
)
from tests.studies.rehearsal_made import attempt, file, looks, whole

RECORDED = """\
begin 1000500 7/0.1 write
files 1000500
+ 12 6286 1000.4 990.5 ./a checkpoint.pt
untried rank
files 1002000
+ 12 6286 1000.4 990.5 ./a checkpoint.pt
+ 13 10 1001.9 0.000000000 ./b
+ 13 damaged
untried 1003000 write n2
end_by 1003000 write n1 0,1
enough 1004000
end 1005000 137
read 1005100 12 1000.4 ./a checkpoint.pt
seen 1005200 yes
"""

OLD = CheckpointFile(12, 6286, "1000.4", "990.5", "a checkpoint.pt")


def test_an_attempt_is_read_and_damaged_lines_are_left_out() -> None:
    assert record.attempt(1, RECORDED.splitlines()) == RehearsedAttempt(
        number=1,
        tracking="7/0.1",
        kind="write",
        began=1000.5,
        looks=(Snapshot(1000.5, (OLD,)), Snapshot(1002.0, (OLD, CheckpointFile(13, 10, "1001.9", "", "b")))),
        endings=(Ending(1003.0, "write", "n1", "0,1"),),
        untried=("n2",),
        is_enough=True,
        ended=1005.0,
        code=137,
        read=frozenset({OLD.state}),
    )


def test_attempts_are_files_from_0_on(tmp_path: Path) -> None:
    (tmp_path / "rehearsal").mkdir()
    for number in (0, 1, 3):
        (tmp_path / f"rehearsal/{number}").write_text(
            f"begin 1000 7/0.{number} notice\nend_by 2000 notice - -\n"
        )
    found = record.read_attempts(RunDirectory(tmp_path))
    assert [each.number for each in found] == [0, 1]
    assert found[0].endings == (Ending(2.0, "notice"),)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r")), max_size=5))
def test_any_lines_are_read(lines: list[str]) -> None:
    found = record.attempt(0, ["begin 1000 7/0.0 notice", *lines])
    assert found is None or found.number == 0


def seen(*each: tuple[float, tuple[object, ...]]) -> RehearsedAttempt:
    return attempt(0)._replace(looks=looks(*each))  # type: ignore[arg-type]


def test_a_checkpoint_is_what_changes_until_it_is_quiet_for_a_second() -> None:
    old = file("a", 1, 1)
    found = seen(
        (10.0, (old,)),
        (11.0, (old, file("b.part", 2, 2, size=10))),
        (11.5, (old, file("b.part", 2, 3, size=500))),
        (11.7, (file("b", 2, 3, size=500),)),
        (13.0, (file("b", 2, 3, size=500), file("c", 3, 4))),
        (14.5, (file("c", 3, 4),)),
    )
    writes = record.checkpoint_writes(found)
    assert writes == [Write(11.0, 11.7, 500, ("b",)), Write(13.0, 13.0, 100, ("c",))]
    assert [round(write.seconds, 1) for write in writes] == [0.7, record.RESOLUTION]


def test_checkpoints_that_follow_each_other_at_once_are_several() -> None:
    """Each 0.3 s: moved into the place of the one before; with higher numbers; written over."""
    moved = seen(
        (10.0, ()),
        (10.1, (file("new", 1, 1),)),
        (10.2, (file("c", 1, 1),)),
        (10.4, (file("c", 1, 1), file("new", 2, 2))),
        (10.5, (file("c", 2, 2),)),
        (10.8, (file("c", 3, 3),)),
    )
    assert [(write.began, write.bytes) for write in record.checkpoint_writes(moved)] == [
        (10.1, 100), (10.4, 100), (10.8, 100)
    ]  # fmt: skip
    more = [
        (10.0 + 0.3 * made, tuple(file(f"c-{one}", one, one) for one in range(8, 8 + made)))
        for made in range(5)
    ]
    assert [write.paths for write in record.checkpoint_writes(seen(*more))] == [
        ("c-8",), ("c-9",), ("c-10",), ("c-11",)
    ]  # fmt: skip
    again = [(10.0 + 0.3 * made, (file("c", 1, made, size=100 * (made % 3)),)) for made in range(7)]
    assert [write.bytes for write in record.checkpoint_writes(seen(*again))] == [200, 200, 0]


def test_files_of_ranks_are_one_checkpoint() -> None:
    first = [(10.0, ()), (10.1, (file("rank0", 1, 1, size=5),))]
    both = (10.3, (file("rank0", 1, 2), file("rank1", 2, 2)))
    assert record.checkpoint_writes(seen(*first, both)) == [Write(10.1, 10.3, 200, ("rank0", "rank1"))]


def test_a_file_that_is_written_over_in_place_is_found() -> None:
    assert record.overwritten_file([attempt(0, (file("a", 1, 1),), (file("a", 1, 2, size=5),))]) == "a"
    assert record.overwritten_file([attempt(0, (file("a", 1, 1),), (file("a", 1, 2),))]) == "a"


def test_what_is_whole_at_any_moment_is_not_written_over() -> None:
    large = file("large", 9, 1, size=5000)
    for before, after in [
        ((file("a", 1, 1),), (file("a", 2, 2),)),  # another file was moved into its place
        ((file("a", 1, 1),), (file("a", 1, 2, born="later"),)),  # and got the number of one that was removed
        ((file("a", 1, 1, born=""),), (file("a", 1, 2, born=""),)),  # which is unknown
        ((file("log", 1, 1),), (file("log", 1, 2, size=200),)),  # it grows
        ((file("latest", 1, 1), large), (file("latest", 1, 2), large)),  # the name of the last one
        ((file("a", 1, 1), file("b", 2, 2)), (file("a", 1, 3), file("b", 2, 2))),  # they take turns
    ]:
        assert record.overwritten_file([attempt(0, before, after)]) is None


def test_a_checkpoint_that_was_seen_half_written_under_its_name_is_found() -> None:
    def unprotected(*looks: tuple[object, ...]) -> str | None:
        old = file("a", 1, 1, size=500)
        found = seen(*((10 + 0.3 * at, (old, *files)) for at, files in enumerate(looks)))
        return record.half_written_file([found], checkpoints_of([found]))

    half, whole = file("b", 2, 2, size=100), file("b", 2, 3, size=500)
    assert unprotected((), (half,), (whole,)) == "b"
    assert unprotected((), (whole,)) is None
    assert unprotected((), (half._replace(path="new"),), (whole._replace(path="new"),), (whole,)) is None
    assert unprotected((), (whole,), (whole, file("log", 3, 3)), (whole, file("log", 3, 4, size=200))) is None


def test_a_checkpoint_that_was_cut_short_shows_nothing() -> None:
    """It may have been renamed later."""
    half, more = file("new", 2, 2, size=100), file("new", 2, 3, size=500)
    cut = attempt(1, (), (half,), (more,), pause=0.5)
    assert record.half_written_file([cut], checkpoints_of([cut])) is None


TWO = [whole(0, 0), whole(1, 2)]


def steps(*each: list[float]) -> Steps:
    """Return steps that attempts recorded, the first one five seconds after it began, each second one."""
    return {
        f"7/0.{number}": [TrackedStep(1000 * (number + 1) + 5 + at, step) for at, step in enumerate(own)]
        for number, own in enumerate(each)
    }


FOUR = [attempt(0, *(tuple(file("c", made, made) for made in range(there, there + 1)) for there in range(5)))]
"""A training that wrote four checkpoints in its first attempt, ten seconds after each other."""


@pytest.mark.parametrize(
    ("own", "has_resumed"),
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
def test_steps_show_whether_it_went_on_from_the_last_checkpoint(own: float, *, has_resumed: bool) -> None:
    tracked = steps([float(step) for step in range(45)], [own, own + 1])
    second = attempt(1, FOUR[0].looks[-1].files)
    found = resumed([*FOUR, second], 1, tracked)
    assert found == Resumption(has_resumed, "steps", reached=44.0, began_at=own, saved=34.0)


def test_a_checkpoint_that_was_cut_short_is_not_the_last_one() -> None:
    cut = FOUR[0]._replace(endings=(Ending(1040.1, "write", "n1", "0"),))
    tracked = steps([float(step) for step in range(35)], [25.0])
    assert resumed([cut, attempt(1)], 1, tracked).has_resumed is True


def test_a_checkpoint_that_was_not_renamed_yet_is_not_the_last_one() -> None:
    """It waits for the disk when its rank gets KILL: for long its file does not grow."""
    part = FOUR[0].looks[-1]._replace(at=1050.0, files=(*FOUR[0].looks[-1].files, file("new", 9, 9)))
    waits = FOUR[0]._replace(looks=(*FOUR[0].looks, part), endings=(Ending(1060.0, "node", "n1", "0"),))
    tracked = steps([float(step) for step in range(55)], [35.0])
    assert resumed([waits, attempt(1)], 1, tracked) == Resumption(
        has_resumed=True, by="steps", reached=54.0, began_at=35.0, saved=34.0
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
    epoch = TrackedStep(2000.0, 3.0, "epoch")
    tracked = {**tracked, "7/0.1": [epoch, *tracked["7/0.1"]]}
    found = resumed([FOUR[0]._replace(looks=tuple(looks)), attempt(1)], 1, tracked)
    assert (found.has_resumed, found.saved, found.began_at) == (True, 34.0, 35.0)


def resumed(attempts: Sequence[RehearsedAttempt], number: int, steps: Steps) -> Resumption:
    return resumption(attempts, checkpoints_of(attempts), number, steps)


def test_steps_show_nothing_before_there_was_a_later_one_to_save() -> None:
    late = {"7/0.0": [TrackedStep(1018.0, 0), TrackedStep(1050.0, 1)], "7/0.1": [TrackedStep(2001.0, 0)]}
    assert resumed(TWO, 1, late).by == "reading"


def numbered(*names: str) -> tuple[CheckpointFile, ...]:
    return tuple(file(name, sum(map(ord, name)), 1) for name in names)


@pytest.mark.parametrize(
    ("written", "has_resumed"),
    [("step-40/a", True), ("step-30/a", True), ("step-20/a", False), ("step-10/a", False)],
)
def test_names_of_checkpoints_show_it_too(written: str, *, has_resumed: bool) -> None:
    there = numbered("step-10/a", "step-20/a", "step-30/a", "events.1700000000.n1")
    first = attempt(0, there[3:], (there[0], there[3]), (*there[:2], there[3]), there)
    again = tuple(each._replace(changed="2") for each in numbered(written))
    rest = tuple(each for each in there if each.path != written)
    own = attempt(1, there, (*rest, *again))
    assert resumed([first, own], 1, {}) == Resumption(has_resumed, "names")


def test_numbers_of_ranks_show_nothing() -> None:
    def shards(changed: float) -> tuple[CheckpointFile, ...]:
        return file("rank0", 1, changed), file("rank1", 2, changed)

    first = attempt(0, (), shards(1), shards(2))
    own = attempt(1, shards(2), shards(3))
    assert resumed([first, own], 1, {}) == Resumption(has_resumed=True, by="reading")


@pytest.mark.parametrize(
    ("own", "has_resumed"),
    [
        (TWO[1], True),
        (TWO[1]._replace(read=frozenset()), False),
        (TWO[1]._replace(read=None), None),
        (TWO[1]._replace(read=frozenset({(TWO[1].found[0].inode, "later")})), False),  # one with its inode
        (attempt(1, (file("c", 2, 2),))._replace(read=frozenset()), None),  # ended before it could
    ],
)
def test_what_was_read_shows_it_else(own: RehearsedAttempt, *, has_resumed: bool | None) -> None:
    found = resumed([TWO[0], own], 1, {})
    assert found == Resumption(has_resumed, "" if has_resumed is None else "reading")
