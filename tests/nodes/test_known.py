"""What runs recorded against nodes comes into the ledger once, and no ledger ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpcdist.errors import warning
from hpcdist.nodes import known, ledger
from hpcdist.nodes.ledger import Evidence, Forgotten, Ledger
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record, RunDirectory

NOW = 1.8e9
LOST = "the batch system reported it as down, and job 7 lost it"
FAILED = "the first task of job 7 to fail ran on it, and the training completed later"


def run(runs_dir: Path, *events: str, mark: str = "t") -> RunDirectory:
    """A run with these events of its job, each a word, a time before now and a value."""
    directory = rundir.create(runs_dir, "train")
    record = Record("train", mark, "toy", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    rundir.save(directory, record)
    extend(directory, *events)
    return directory


def extend(directory: RunDirectory, *events: str) -> None:
    rows = (event.split() for event in events)
    with (directory.path / "events").open("a") as log:
        log.writelines(f"{what} 7 {int(NOW) - int(ago)} {value}\n" for what, ago, value in rows)


def evidence(runs_dir: Path, shared: Path | None = None) -> list[Evidence]:
    """All that is known, after it was written."""
    found = known.read(runs_dir, shared, NOW)
    assert (found.problems, found.save()) == ((), ())
    return sorted(found.ledger.evidence)


def test_a_log_is_taken_up_once_and_again_when_it_has_grown(tmp_path: Path) -> None:
    own = run(tmp_path, "started 900 0", "blamed 800 n2", "restarted 790 3", "lost 700 n1")
    lost = Evidence(NOW - 700, "toy", "n1", "lost", "train-1", 1, LOST)
    assert evidence(tmp_path) == [lost]  # nothing shows yet that the program is not at fault
    size = ledger.own_file(tmp_path).stat().st_size
    assert evidence(tmp_path) == [lost]
    assert ledger.own_file(tmp_path).stat().st_size == size
    extend(own, "again 600 node_failure", "started 500 1", "over 400 completed", "ended 400 0")
    failed = Evidence(NOW - 800, "toy", "n2", "failed", "train-1", 0, FAILED)
    assert evidence(tmp_path) == [failed, lost]
    assert evidence(tmp_path) == [failed, lost]


def test_a_run_that_was_removed_stays_known_and_another_of_its_name_is_read(tmp_path: Path) -> None:
    own = run(tmp_path, "started 900 0", "lost 700 n1")
    assert [one.node for one in evidence(tmp_path)] == ["n1"]
    own.path.rename(tmp_path / ".removed-train")
    run(tmp_path, "started 800 0", "lost 600 n2", mark="u")
    assert [(one.run, one.node) for one in evidence(tmp_path)] == [("train-1", "n1"), ("train-1", "n2")]


def test_the_clock_of_a_node_may_be_ahead_and_its_time_is_now(tmp_path: Path) -> None:
    run(tmp_path, "started 900 0", "lost -5000 n1")
    assert [one.at for one in evidence(tmp_path)] == [NOW]
    assert known.read(tmp_path, None, NOW + 9999).new == Ledger()


def test_processes_at_once_do_not_double_it(tmp_path: Path) -> None:
    for number in range(5):
        run(tmp_path, "started 900 0", f"lost 700 n{number}", mark=f"t{number}")
    program = (
        "import sys\nfrom pathlib import Path\nfrom hpcdist.nodes import known\n"
        "assert not known.read(Path(sys.argv[1]), Path(sys.argv[1], 'shared'), float(sys.argv[2])).save()"
    )
    words = (sys.executable, "-c", program, str(tmp_path), str(NOW))
    running = [subprocess.Popen(words) for _ in range(4)]
    assert [process.wait(300) for process in running] == [0, 0, 0, 0]
    assert [one.node for one in evidence(tmp_path, tmp_path / "shared")] == [
        f"n{number}" for number in range(5)
    ]
    assert len(ledger.read(tmp_path / "shared").entries) == 5


def test_a_group_knows_what_one_of_it_knows_and_forgets_it_together(tmp_path: Path) -> None:
    shared, mine, other = tmp_path / "shared", tmp_path / "mine", tmp_path / "other"
    run(mine, "started 900 0", "lost 700 n1")
    other.mkdir()
    assert [one.node for one in evidence(mine, shared)] == ["n1"]
    found = known.read(other, shared, NOW)
    assert [node.name for node in found.nodes("toy")] == ["n1"]
    assert found.nodes("elsewhere") == []
    assert found.save((Forgotten("n1", "toy", "me", NOW),)) == ()
    assert (evidence(mine, shared), evidence(other)) == ([], [])
    extend(RunDirectory(mine / "train-1"), "started 600 1", "lost -60 n1")
    found = known.read(mine, shared, NOW + 60)
    assert [(node.name, len(node.evidence)) for node in found.nodes()] == [("n1", 1)]


def test_what_a_clock_that_is_ahead_forgot_hides_nothing_that_comes_after_it_was_read(tmp_path: Path) -> None:
    own = run(tmp_path, "started 900 0", "lost 700 n1")
    assert known.read(tmp_path, None, NOW).save((Forgotten("n1", "", "me", NOW + 86400),)) == ()
    assert evidence(tmp_path) == []  # read by a clock that is right
    extend(own, "started -500 1", "lost -600 n1")
    found = known.read(tmp_path, None, NOW + 900)
    assert [(node.name, len(node.evidence)) for node in found.nodes()] == [("n1", 1)]
    assert found.new.forgotten == ()  # it is written once


def test_a_ledger_that_cannot_be_read_does_not_grow(tmp_path: Path) -> None:
    run(tmp_path, "started 900 0", "lost 700 n1")
    shared = tmp_path / "shared"
    for file in (ledger.own_file(tmp_path), shared):
        with file.open("wb") as stream:
            stream.truncate((1 << 26) + 1)
    found = known.read(tmp_path, shared, NOW)
    assert len(found.problems) == 2
    assert ([node.name for node in found.nodes()], found.save()) == (["n1"], ())
    assert {file.stat().st_size for file in (ledger.own_file(tmp_path), shared)} == {(1 << 26) + 1}


def test_a_node_with_its_domain_and_without_it_is_one(tmp_path: Path) -> None:
    run(tmp_path, "started 900 0", "lost 90000 n1", "lost 700 n1.cluster", "lost 600 n2.a", "lost 500 n2.b")
    run(tmp_path, "started 900 0", "lost 700 n2", mark="u")
    found = known.read(tmp_path, None, NOW)
    assert sorted((node.name, len(node.evidence)) for node in found.nodes()) == [
        ("n1.cluster", 2), ("n2", 1), ("n2.a", 1), ("n2.b", 1),
    ]  # fmt: skip
    found.save((Forgotten("n1.cluster", "", "me", NOW),))
    assert "n1.cluster" not in {node.name for node in known.read(tmp_path, None, NOW).nodes()}


def test_a_shared_ledger_that_cannot_be_written_is_a_warning_and_is_written_later(tmp_path: Path) -> None:
    shared = tmp_path / "group" / "shared"
    run(tmp_path / "runs", "started 900 0", "lost 700 n1")
    hint = "what is known of nodes is not written there"
    found = known.read(tmp_path / "runs", shared, NOW)
    assert found.save() == (warning(f"{shared}: No such file or directory", hint=hint),)
    shared.parent.mkdir()
    assert len(evidence(tmp_path / "runs", shared)) == 1
    assert len(ledger.read(shared).entries) == 1


def test_damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    run(tmp_path, "started 900 0", "lost 700 n1")
    [one] = evidence(tmp_path)
    file = ledger.own_file(tmp_path)
    good = next(line for line in file.read_text().split("\n") if '"key"' in line)
    data = json.loads(good)
    changes = (
        {"node": "-w n2"},
        {"at": -1},
        {"at": float("nan")},
        {"at": 10**400},
        {"at": "7"},
        {"kind": "odd"},
        {"attempt": "0"},
        {"text": 1},
    )
    bad = [good[:40], "[]", "[" * 9999, "\x00", "17", *(json.dumps(data | each) for each in changes)]
    file.write_text("\n".join([*bad, good]))
    found = known.read(tmp_path, None, NOW)
    assert found.problems == (warning(f"{file}: {len(bad)} lines cannot be read and are skipped"),)
    assert [*found.ledger.evidence] == [one]


@given(st.binary())
def test_any_file_is_a_ledger(text: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "ledger")
        file.write_bytes(text)
        found = ledger.read(file)
    assert found.unread <= len(text.split(b"\n"))


def test_a_ledger_that_is_none_is_a_warning(tmp_path: Path) -> None:
    os.mkfifo(ledger.own_file(tmp_path))
    found = known.read(tmp_path, None, NOW)
    hint = "what it has of nodes is not used, and nothing is added to it; move it away to begin anew"
    assert found.problems == (
        warning(f"{ledger.own_file(tmp_path)}: it is a FIFO, not a regular file", hint=hint),
    )
