"""What a remote answers in another form than that which was asked for is one sentence, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import HpcdistError
from hpcdist.runs.remotes import fetching, machines, program
from hpcdist.runs.remotes.channel import Channel, RemoteRunner
from hpcdist.runs.remotes.fetching import Version
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services, Unanswered
from hpcdist.testing import FakeShell
from tests.runs.remotes import far
from tests.runs.remotes.far import At
from tests.wording import Wording

LONG = "9" * 5000
SERVICES = Services(FakeShell())
NOW: At = ("now 1800000000", b"")

LOOKS: dict[str, list[At]] = {
    "a run that is none": [NOW, ("gone 2", b"")],
    "a run without a number": [NOW, ("gone", b"")],
    "a run below none": [NOW, ("gone -1", b"")],
    "a file of a run that is none": [NOW, ("file 7 0 1 1 events", b"x")],
    "a file without a name": [NOW, ("file 0 0 1 1", b"x")],
    "a file with an empty name": [NOW, ("file 0 0 1 1 ", b"x")],
    "a file with a name of NUL": [NOW, ("file 0 0 1 1 a\0b", b"x")],
    "a file of a length that is no number": [NOW, ("file 0 0 x 1 a", b"x")],
    "a file of a long length": [NOW, (f"file 0 0 {LONG} 1 a", b"x")],
    "a file of a long size": [NOW, (f"file 0 0 1 {LONG} a", b"x")],
    "a file that begins before itself": [NOW, ("file 0 -1 1 1 a", b"x")],
    "a file of a number in other digits": [NOW, ("file 0 0 1 \u0661 a", b"x")],
    "a long time": [(f"now {LONG}", b"")],
    "a time after all years": [("now 999999999999999", b"")],
    "no time": [],
    "the time twice": [NOW, NOW],
    "a claim of a run that is none": [("claimed 2", b""), NOW],
    "a claim without a number": [("claimed", b""), NOW],
    "an answer of a run that is none": [("answer 2 0", b"7"), ("errors 2", b""), NOW],
    "an answer with a long code": [(f"answer 0 {LONG}", b"7"), ("errors 0", b""), NOW],
    "an answer without errors": [("answer 0 0", b"7"), NOW],
    "output without errors": [("out", b""), NOW],
    "errors without an output": [("err 0", b""), NOW],
    "more outputs than commands": [("out", b""), ("err 0", b""), NOW],
    "something else": [("surprise", b""), NOW],
    "nothing": [("", b""), NOW],
}


def pulled(folder: Path, answer: list[At]) -> str:
    """Return why runs could not be brought up to date."""
    with pytest.raises(HpcdistError) as caught:
        machines.pull(far.runner(folder, answer), far.runs(folder), SERVICES, whole=True)
    return str(caught.value)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_that_is_answered_in_another_form_is_one_without_an_answer(
    tmp_path: Path, name: str, wording: Wording
) -> None:
    """Nothing of it is written here."""
    wording(pulled(tmp_path, LOOKS[name]))
    there = far.runner(tmp_path, LOOKS[name])
    runs = far.runs(tmp_path)
    assert isinstance(machines.look(there, runs, SERVICES), Unanswered)
    assert [*tmp_path.rglob("events"), *tmp_path.rglob("remote.json")] == []


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [("out", b"")],
        [("err 0", b"")],
        [("out", b""), ("err", b"")],
        [("out", b""), ("err x", b"")],
        [("out", b""), (f"err {LONG}", b"")],
        [("out", b""), ("err 0", b""), ("out", b""), ("err 0", b"")],
    ],
)
def test_a_command_or_a_submission_that_is_answered_in_another_form_has_no_answer(
    tmp_path: Path, answer: list[At]
) -> None:
    there, command = far.runner(tmp_path, answer), Command(("sbatch", "job.sh"))
    said = there.run(command)
    assert (said.returncode, said.stdout) == (255, "")
    with pytest.raises(HpcdistError, match="answer of box"):
        there.start(far.runs(tmp_path, 1, Phase.SUBMITTING)[0], command)


def folder(channel: Channel, run: Run) -> object:
    return fetching.make_folder(channel, "/far", run.record.name)


ASKS: dict[str, tuple[Callable[[Channel, Run], object], list[At]]] = {
    "two lists": (fetching.listing, [("out", b""), ("out", b"")]),
    "no list": (fetching.listing, []),
    "a list of something else": (fetching.listing, [("now 1", b"")]),
    "a folder without a number": (folder, [("folder x /far", b"")]),
    "a folder of a long number": (folder, [(f"folder {LONG} /far", b"")]),
    "a folder of NUL": (folder, [("folder 1 /far\0", b"")]),
    "a folder that is none": (folder, [("folder 1 ", b"")]),
    "a run that came and was taken": (fetching.send, [("received", b""), ("taken", b"")]),
}


@pytest.mark.parametrize("name", ASKS)
def test_any_request_that_is_answered_in_another_form_has_no_answer(tmp_path: Path, name: str) -> None:
    ask, answer = ASKS[name]
    with pytest.raises(HpcdistError, match="answer of box"):
        ask(far.channel(far.Far(answer), tmp_path), far.runs(tmp_path, 1)[0])


def test_a_file_that_no_file_can_be_is_no_output(tmp_path: Path) -> None:
    rows = (
        b"7 1700000000.5 ./model",
        LONG.encode() + b" 1 ./a",
        b"1 " + LONG.encode() + b" ./b",
        b"1 1 ../c",
        b"x",
    )
    made = far.channel(far.Far([("out", b"\0".join(rows))]), tmp_path)
    [run] = far.runs(tmp_path, 1)
    assert fetching.listing(made, run) == {"model": Version(7, 1_700_000_000_500_000_000)}


@pytest.mark.parametrize("head", ["file 0 7 1 0 -", "file 0 0 1 0 -\nx"])
def test_a_piece_that_was_not_asked_for_is_not_taken(tmp_path: Path, head: str) -> None:
    version = ("version", b"1 1700000000.5 ./model\0")
    made = far.channel(far.Far([(head, b"x"), version]), tmp_path)
    [run] = far.runs(tmp_path, 1)
    with pytest.raises(HpcdistError):
        fetching.fetch(made, run, {"model": Version(1, 1_700_000_000_500_000_000)}, bool)
    assert not (run.directory.outputs / "model").exists()


def test_a_part_that_begins_behind_the_end_of_a_file_is_named_and_others_come(tmp_path: Path) -> None:
    runs = far.runs(tmp_path)
    parts = [("file 0 1000000000000 1 1000000000001 logs/job.out", b"x"), ("file 1 0 1 1 events", b"y")]
    with pytest.raises(HpcdistError, match=r"train-1 cannot be brought up to date: .*/logs/job\.out: "):
        machines.pull(far.runner(tmp_path, [NOW, *parts]), runs, SERVICES)
    assert not (runs[0].directory.logs / "job.out").exists()
    assert (runs[1].directory.path / "events").read_bytes() == b"y"


def test_a_remote_that_claims_more_than_it_sends_is_not_asked_for_ever(tmp_path: Path) -> None:
    shell = far.Far([NOW, (f"file 0 0 1 {10**17} logs/job.out", b"x")])
    machines.pull(
        far.runner(tmp_path)._replace(channel=far.channel(shell, tmp_path)),
        far.runs(tmp_path),
        SERVICES,
        whole=True,
    )
    assert len(shell.requests) == 1


def test_a_good_answer_is_taken(tmp_path: Path) -> None:
    runs = far.runs(tmp_path)
    sections = [("out", b"all"), ("err 0", b""), NOW, ("file 1 0 2 2 events", b"y\n")]
    there = far.runner(tmp_path, sections)
    assert there.channel.call([], 1, "out err now file ")[0].text == "all"
    machines.pull(far.runner(tmp_path, sections[2:]), runs, SERVICES)
    assert [(run.directory.path / "events").exists() for run in runs] == [False, True]
    assert there._replace(channel=far.channel(far.Far(sections[:2]), tmp_path)).run(
        Command(("a",))
    ) == Completed(Command(("a",)), 0, "all")


def test_a_file_for_which_there_was_no_room_is_left_as_it_is(tmp_path: Path) -> None:
    """It is asked for again, and all that is larger than what came with it."""
    [run] = far.runs(tmp_path, 1)
    (run.directory.path / "events").write_text("old")
    full = b"x" * program.PART
    first = [NOW, (f"file 0 0 {len(full)} {len(full)} logs/a", full), ("file 0 0 0 1 events", b"")]
    shell = far.Far(first, [NOW, ("file 0 0 1 1 events", b"y")])
    machines.pull(RemoteRunner(far.channel(shell, tmp_path)), [run], SERVICES)
    assert (machines.seen(run).there, (run.directory.path / "events").read_text()) == (0, "old")
    shell = far.Far(first, [NOW, ("file 0 0 1 1 events", b"y")])
    machines.pull(RemoteRunner(far.channel(shell, tmp_path)), [run], SERVICES, whole=True)
    assert (machines.seen(run).there, (run.directory.path / "events").read_text()) == (1_800_000_000, "y")


def test_an_answer_without_an_end_is_not_read(tmp_path: Path, wording: Wording) -> None:
    made = far.channel(far.Far([("out", b"x" * 2_000_000)]), tmp_path)
    with pytest.raises(HpcdistError) as caught:
        made.call([], 1, "out ", most=1 << 20)
    wording(str(caught.value))
