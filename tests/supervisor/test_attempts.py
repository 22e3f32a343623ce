"""The files of attempts: which begin, which are over, and who may begin another one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from supervisor.attempts import Attempts
from supervisor.batch import System
from supervisor.job import Policy
from supervisor.restarts import Ended
from supervisor.start import Failed

from tests.supervisor.starts import POLICY, start


class Toy(System):
    """A batch system that says of any job whether it is alive: one word after another, the last for ever."""

    def __init__(self, *lives: bool | None) -> None:
        self.answers = list(lives)
        self.asked: list[str] = []

    def own_id(self) -> str:
        return "7 host"

    def lives(self, id: str) -> bool | None:  # noqa: A002 - as the others have it
        self.asked.append(id)
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)


def attempts(run: Path, job_id: str = "7", element: str = "", policy: Policy | None = POLICY) -> Attempts:
    """Return the attempts of a start whose clock goes on by its sleep alone."""
    slept: list[float] = []
    return Attempts(start(run, job_id, element, policy), slept.append, lambda: sum(slept))


def may_begin(own: Attempts) -> tuple[int | None, list[str], list[str]]:
    """Return the code if none may begin, the nodes of an attempt that was killed, and the events."""
    nodes: list[str] = []
    code = own.may_begin(Toy(False), nodes.extend, stop_file=False)  # noqa: FBT003 - its answer
    return code, nodes, [f"{event.what} {event.job_id} {event.value}" for event in own.start.events()]


def test_an_attempt_is_recorded_when_it_begins_and_what_the_one_before_had_saved(tmp_path: Path) -> None:
    own, folder = attempts(tmp_path, element="4"), tmp_path / "attempts/4"
    assert (own.announcement(), own.begin(Toy())) == ("", 0)
    (tmp_path / "checkpoints/4/new").touch()
    os.utime(tmp_path / "checkpoints/4/new", ns=(0, 1764550000_012345678))
    own.start.tries = 1
    assert (own.announcement(), own.begin(Toy())) == ("attempt 1 begins (job 7_4)", 1)
    files = {"0": "7_4 0.0 7 host\n", "1": "7_4 0.1 7 host\n", "0.saved": "1764550000.0123456780\n"}
    assert {file.name: file.read_text() for file in folder.iterdir()} == {**files, "end": " " * 512}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_each_of_several_jobs_that_begin_at_once_has_its_own_attempt(tmp_path: Path) -> None:
    jobs = [attempts(tmp_path, str(number), policy=None) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda job: job.begin(Toy()), jobs)) == list(range(8))


def test_an_attempt_that_cannot_be_recorded_has_not_begun(tmp_path: Path) -> None:
    own = attempts(tmp_path)
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts/end").symlink_to("/dev/full")
    with pytest.raises(Failed, match="is the disk full, or your quota used up"):
        own.begin(Toy())
    assert own.count() == 0


def test_the_last_end_is_written_into_its_place_and_nothing_begins_after_it(tmp_path: Path) -> None:
    own, file = attempts(tmp_path), tmp_path / "attempts/over"
    own.start.attempt = own.begin(Toy())
    own.record_why("timeout")
    assert own.ended(138, "timeout") == Ended(0, 0, 138, "timeout")
    own.over(138, "timeout; no more\nthan 0 restarts \u20ac" + 600 * "x")
    text = "138 timeout; no more?than 0 restarts \u20ac" + 600 * "x"
    assert file.read_bytes() == text.encode()[:511] + b"\n"
    assert sorted(each.name for each in file.parent.iterdir()) == ["0", "0.why", "over"]
    assert own.announcement() == ""
    assert may_begin(attempts(tmp_path, "8"))[2] == ["timeout 7 0", "over 7 timeout", "skipped 8 0"]
    (tmp_path / "events").unlink()  # as if the script had been killed before it could log this
    assert may_begin(attempts(tmp_path, "8")) == (138, [], ["over 7 timeout", "skipped 8 0"])


@pytest.mark.parametrize(
    ("why", "changes", "over"),
    [
        ("", {}, ""),
        ("", {"max": 0}, "86 lost; no more than 0 restarts"),
        ("timeout", {"max": 0}, "86 timeout; no more than 0 restarts"),
        (
            "terminated",
            {"on": ("failure",)},
            "86 it was ended from outside; only after failure there is another",
        ),
    ],
)
def test_an_attempt_whose_script_was_killed_may_have_been_the_last(
    tmp_path: Path, why: str, changes: dict[str, Any], over: str
) -> None:
    own, file = attempts(tmp_path, policy=POLICY._replace(**changes)), tmp_path / "attempts/over"
    own.begin(Toy())
    (tmp_path / "jobs/7/nodes.0").write_text("n1\nn2\n")
    if why:
        own.record_why(why)
    assert may_begin(own)[:2] == (86 if over else None, [] if why else ["n1", "n2"])
    if over:
        assert file.read_text().startswith(over)
        file.unlink()
    (tmp_path / "attempts/first").write_text("1\n")  # `hpcdist resume`
    assert may_begin(own)[0] is None
    (tmp_path / "cancelled").touch()
    assert may_begin(own)[0] == 143


@pytest.mark.parametrize(
    ("lives", "by", "first", "fails"),
    [
        ([True, None, False], "requeue", 0, ""),
        ([True], "follow", 1, "^job 7 of this run is alive, and would write the same checkpoints; cancel it"),
        ([None], "requeue", 0, "^nobody says whether job 7 of this run is alive, which would write the same"),
        ([None], "follow", 0, ""),
        ([None], "requeue", 1, ""),
    ],
)
def test_the_job_of_an_earlier_attempt_must_be_gone(
    tmp_path: Path, lives: list[bool | None], by: str, first: int, fails: str
) -> None:
    attempts(tmp_path).begin(Toy())
    (tmp_path / "attempts/first").write_text(f"{first}\n")
    (tmp_path / "attempts/1").touch()  # which a job is writing
    own, system = attempts(tmp_path, "8", policy=POLICY._replace(by=by)), Toy(*lives)
    with pytest.raises(Failed, match=fails) if fails else nullcontext():
        own.check_owner(0, system)
    own.check_owner(1, system)
    attempts(tmp_path).check_owner(0, system)  # its own
    assert system.asked == ["7 host"] * (25 if fails else len(lives))
