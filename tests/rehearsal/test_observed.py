"""What the script of a rehearsal recorded."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpcdist.rehearsal import observed
from hpcdist.rehearsal.observed import Attempt, Ending, File, Look
from hpcdist.runs.rundir import RunDirectory

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

OLD = File(12, 6286, "1000.4", "990.5", "a checkpoint.pt")


def test_an_attempt_is_read_and_damaged_lines_are_left_out() -> None:
    assert observed.attempt(1, RECORDED.splitlines()) == Attempt(
        number=1,
        tracking="7/0.1",
        kind="write",
        began=1000.5,
        looks=(Look(1000.5, (OLD,)), Look(1002.0, (OLD, File(13, 10, "1001.9", "", "b")))),
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
    found = observed.read(RunDirectory(tmp_path))
    assert [each.number for each in found] == [0, 1]
    assert found[0].endings == (Ending(2.0, "notice"),)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r")), max_size=5))
def test_any_lines_are_read(lines: list[str]) -> None:
    found = observed.attempt(0, ["begin 1000 7/0.0 notice", *lines])
    assert found is None or found.number == 0
