"""When checkpoints were written."""

from __future__ import annotations

from hpcdist.rehearsal import checkpoints
from hpcdist.rehearsal.checkpoints import Write
from hpcdist.rehearsal.observed import Attempt
from tests.rehearsal.made import attempt, file, looks


def seen(*each: tuple[float, tuple[object, ...]]) -> Attempt:
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
    writes = checkpoints.writes(found)
    assert writes == [Write(11.0, 11.7, 500, ("b",)), Write(13.0, 13.0, 100, ("c",))]
    assert [round(write.seconds, 1) for write in writes] == [0.7, checkpoints.RESOLUTION]


def test_a_file_that_is_written_over_in_place_is_found() -> None:
    assert checkpoints.overwritten([attempt(0, (file("a", 1, 1),), (file("a", 1, 2, size=5),))]) == "a"
    assert checkpoints.overwritten([attempt(0, (file("a", 1, 1),), (file("a", 1, 2),))]) == "a"


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
        assert checkpoints.overwritten([attempt(0, before, after)]) is None
