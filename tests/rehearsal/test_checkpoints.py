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
    assert [(write.began, write.bytes) for write in checkpoints.writes(moved)] == [
        (10.1, 100), (10.4, 100), (10.8, 100)
    ]  # fmt: skip
    more = [
        (10.0 + 0.3 * made, tuple(file(f"c-{one}", one, one) for one in range(8, 8 + made)))
        for made in range(5)
    ]
    assert [write.paths for write in checkpoints.writes(seen(*more))] == [
        ("c-8",), ("c-9",), ("c-10",), ("c-11",)
    ]  # fmt: skip
    again = [(10.0 + 0.3 * made, (file("c", 1, made, size=100 * (made % 3)),)) for made in range(7)]
    assert [write.bytes for write in checkpoints.writes(seen(*again))] == [200, 200, 0]


def test_files_of_ranks_are_one_checkpoint() -> None:
    first = [(10.0, ()), (10.1, (file("rank0", 1, 1, size=5),))]
    both = (10.3, (file("rank0", 1, 2), file("rank1", 2, 2)))
    assert checkpoints.writes(seen(*first, both)) == [Write(10.1, 10.3, 200, ("rank0", "rank1"))]


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


def test_a_checkpoint_that_was_seen_half_written_under_its_name_is_found() -> None:
    def unprotected(*looks: tuple[object, ...]) -> str | None:
        old = file("a", 1, 1, size=500)
        found = seen(*((10 + 0.3 * at, (old, *files)) for at, files in enumerate(looks)))
        return checkpoints.unprotected([found], checkpoints.written([found]))

    half, whole = file("b", 2, 2, size=100), file("b", 2, 3, size=500)
    assert unprotected((), (half,), (whole,)) == "b"
    assert unprotected((), (whole,)) is None
    assert unprotected((), (half._replace(path="new"),), (whole._replace(path="new"),), (whole,)) is None
    assert unprotected((), (whole,), (whole, file("log", 3, 3)), (whole, file("log", 3, 4, size=200))) is None


def test_a_checkpoint_that_was_cut_short_shows_nothing() -> None:
    """It may have been renamed later."""
    half, more = file("new", 2, 2, size=100), file("new", 2, 3, size=500)
    cut = attempt(1, (), (half,), (more,), pause=0.5)
    assert checkpoints.unprotected([cut], checkpoints.written([cut])) is None
