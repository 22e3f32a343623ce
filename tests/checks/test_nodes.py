"""What the runs of a user show against nodes, and which nodes are suspect."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcdist.checks.nodes import (
    DAYS,
    Evidence,
    Kind,
    NodeEvidence,
    evidence_of,
    grouped,
    known_nodes,
    recent_runs,
)
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record, RunDirectory
from tests.checks import records
from tests.checks.records import write_faults

NOW = 1.8e9
DAY = 86400.0
LOST = "the batch system reported it as down, and job 7 lost it"
FAILED = "the first task of job 7 to fail ran on it, and the training completed later"


def run(runs_dir: Path, *events: str) -> RunDirectory:
    """A run with these events of its job, each a word, a time before now and a value."""
    directory = rundir.create(runs_dir, "train")
    record = Record("train", "t", "toy", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    rundir.save(directory, record)
    extend(directory, *events)
    return directory


def extend(directory: RunDirectory, *events: str) -> None:
    rows = (event.split() for event in events)
    with (directory.path / "events").open("a") as log:
        log.writelines(f"{what} 7 {int(NOW) - int(ago)} {value}\n" for what, ago, value in rows)
    os.utime(directory.path / "events", (NOW, NOW))


def evidence(runs_dir: Path) -> list[Evidence]:
    """All evidence, sorted."""
    return sorted(one for node in known_nodes(runs_dir, NOW) for one in node.evidence)


def test_a_loss_counts_at_once_and_a_failure_when_the_training_has_completed(tmp_path: Path) -> None:
    own = run(tmp_path, "started 900 0", "blamed 800 n2", "restarted 790 3", *["lost 700 n1"] * 2)
    lost = Evidence(NOW - 700, "toy", "n1", "lost", "train-1", 1, LOST)
    assert evidence(tmp_path) == [lost]  # nothing shows yet that the program is not at fault
    extend(own, "again 600 node_failure", "started 500 1", "over 400 completed", "ended 400 0")
    failed = Evidence(NOW - 800, "toy", "n2", "failed", "train-1", 0, FAILED)
    assert evidence(tmp_path) == [failed, lost]
    assert known_nodes(tmp_path, NOW, "elsewhere") == []


def test_evidence_counts_for_two_weeks_and_of_a_clock_that_is_ahead_as_of_now(tmp_path: Path) -> None:
    run(tmp_path, "started 900 0", f"lost {14 * 86400} n1", f"lost {14 * 86400 + 1} n2", "lost -5000 n3")
    assert [(one.node, one.at) for one in evidence(tmp_path)] == [("n1", NOW - DAYS * DAY), ("n3", NOW)]


def test_old_logs_and_removed_runs_are_not_read(tmp_path: Path) -> None:
    run(tmp_path, "lost 700 n1").path.rename(tmp_path / ".removed-train")
    run(tmp_path, "lost 700 n2")
    later = NOW + DAYS * DAY
    assert [directory.name for directory in recent_runs(tmp_path, later - 1)] == ["train-1"]
    assert [*recent_runs(tmp_path, later + 1)] == []
    assert [node.name for node in known_nodes(tmp_path, NOW)] == ["n2"]
    assert known_nodes(tmp_path / "none", NOW) == []


def test_a_run_without_a_record_has_no_evidence(tmp_path: Path) -> None:
    own = run(tmp_path, "lost 700 n1", "lost 600 -w")
    assert [one.node for one in evidence(tmp_path)] == ["n1"]
    (own.path / "record.json").write_text("{")
    assert evidence(tmp_path) == []


def against(node: str, kind: Kind, days: float = 0, site: str = "toy") -> Evidence:
    return Evidence(NOW - days * DAY, site, node, kind, "train-1", 0, "it was so")


@pytest.mark.parametrize(
    ("kinds", "is_suspect"),
    [(["lost"], True), (["failed"], False), (["failed", "failed"], True), (["failed", "lost"], True)],
)
def test_one_loss_or_two_failures_make_a_node_suspect(kinds: list[Kind], *, is_suspect: bool) -> None:
    [node] = grouped(against("n1", kind, day) for day, kind in enumerate(kinds))
    assert node.is_suspect is is_suspect


def test_the_node_with_the_most_evidence_comes_first() -> None:
    one, old = against("n1", "failed", 1), against("n3", "lost", 9.5)
    two, other = against("n2", "lost", 9), against("n2", "failed", 2)
    assert grouped([one, two, other, old]) == [
        NodeEvidence("toy", "n2", (other, two)),
        NodeEvidence("toy", "n3", (old,)),
        NodeEvidence("toy", "n1", (one,)),
    ]


def test_a_node_with_its_domain_and_without_it_is_one() -> None:
    names = ("n1", "n1.cluster", "n2", "n2.a", "n2.b")
    found = grouped([*(against(name, "lost") for name in names), against("n1", "lost", site="other")])
    assert sorted((node.site, node.name, len(node.evidence)) for node in found) == [
        ("other", "n1", 1),
        ("toy", "n1.cluster", 2),
        *(("toy", name, 1) for name in names[2:]),
    ]


XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


MMU = "NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault"


@pytest.mark.parametrize(
    ("kernel", "events", "has_evidence"),
    [
        (XID, ["started 0 0", "ended 12 1"], True),
        (XID, ["lost 0 -w", "started 0 0"], False),
        (MMU, ["started 0 0", "ended 12 1"], False),
    ],
)
def test_faults_of_hardware_are_a_loss_once_the_attempt_is_over(
    tmp_path: Path, kernel: str, events: list[str], *, has_evidence: bool
) -> None:
    directory, began = records.run(tmp_path), int(records.BEGAN)
    record = Record("train", "t", "toy", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "12")
    rundir.save(directory, record)
    rows = (event.split() for event in events)
    lines = (f"{what} 12 {began + int(after)} {value}\n" for what, after, value in rows)
    (tmp_path / "events").write_text("".join(lines))
    write_faults(tmp_path, 1, f"# n1\nend {began + 1}.5 134 5 1\nkernel [13039.27] {kernel}\n")
    expected = Evidence(began + 1.5, "toy", "n1.site", "lost", tmp_path.name, 0, f"kernel: {kernel}")
    assert evidence_of(directory, began + 100) == ([expected] if has_evidence else [])
