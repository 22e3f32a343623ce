"""Pipelines by the verbs of jobs, with a Slurm of a few functions."""

from __future__ import annotations

from pathlib import Path

from hpcdist.cli.jobs.wait import exit_code
from hpcdist.runs import states
from tests.pipelines.test_submitting import REPAIRED, Person


def test_an_operation_that_was_not_needed_is_no_failure(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", REPAIRED)
    stored, found = person.submit()
    person.queue.jobs |= dict.fromkeys(("100", "102", "104"), "COMPLETED")
    person.queue.jobs |= dict.fromkeys(("101", "103"), "CANCELLED")
    reports = states.status([*found.values()], person.queue.services)
    assert exit_code(reports) == 0
    assert exit_code([report for report in reports if report.run.record.operation == "diamond-1/check"]) == 1
    (stored.directory.path / "pipeline.json").unlink()
    assert exit_code(reports) == 1
