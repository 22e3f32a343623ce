"""What is known of the nodes of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.nodes import failures
from hpcdist.runs.rundir import RunDirectory
from tests.nodes.records import ATTEMPT


@pytest.mark.parametrize(
    ("why", "has_failed"),
    [
        ("failure", True),
        ("node_failure", True),
        ("timeout", False),
        ("preempt", False),
        ("terminated", False),
    ],
)
def test_an_attempt_that_was_told_to_end_has_no_first_failure(
    tmp_path: Path, why: str, *, has_failed: bool
) -> None:
    (tmp_path / "jobs" / ATTEMPT.job).mkdir(parents=True)
    (tmp_path / "jobs" / ATTEMPT.job / f"failure.{ATTEMPT.name}").write_text("75 0 n1\n")
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / f"{ATTEMPT.number}.why").write_text(f"{why}\n")
    found = failures.of_attempts(RunDirectory(tmp_path), [ATTEMPT], ())
    assert (found.failure is not None) == has_failed
