"""The one rule for what has parts: a job of several components, an array of elements."""

from __future__ import annotations

import pytest

from hpcdist.schedulers.job import JobState, Status, fold, fold_array


@pytest.mark.parametrize(
    ("parts", "folded"),
    [
        ("COMPLETED RUNNING FAILED", "RUNNING"),
        ("PENDING COMPLETED", "PENDING"),
        ("PENDING SUSPENDED", "SUSPENDED"),
        ("COMPLETED UNKNOWN FAILED", "UNKNOWN"),
        ("COMPLETED CANCELLED FAILED", "FAILED"),
        ("COMPLETED TIMEOUT FAILED", "TIMEOUT"),
        ("COMPLETED FAILED TIMEOUT", "FAILED"),
        ("VANISHED NODE_FAIL", "NODE_FAIL"),
        ("CANCELLED VANISHED COMPLETED", "VANISHED"),
        ("COMPLETED CANCELLED", "CANCELLED"),
        ("COMPLETED COMPLETED", "COMPLETED"),
    ],
)
def test_the_first_that_failed_counts_and_all_must_complete(parts: str, folded: str) -> None:
    assert fold([Status(JobState[name]) for name in parts.split()]).state is JobState[folded]


DONE = Status(JobState.COMPLETED, "F", 0)


@pytest.mark.parametrize(
    ("elements", "folded"),
    [
        ({0: DONE, 1: DONE}, DONE),
        ({4: Status(JobState.FAILED, "F", 7)}, Status(JobState.FAILED, "F", 7)),
        (
            {3: Status(JobState.FAILED, "F", 3), 0: DONE, 2: Status(JobState.FAILED, "F", 7, "why")},
            Status(JobState.FAILED, "F", 7, "first in element 2 (why); 1 of 3 elements completed"),
        ),
        (
            {0: DONE, 1: Status(JobState.CANCELLED, "F", 0), 2: DONE},
            Status(JobState.CANCELLED, "F", None, "first in element 1; 2 of 3 elements completed"),
        ),
        ({0: DONE, 1: Status(JobState.RUNNING, "R")}, Status(JobState.RUNNING, "R")),
    ],
)
def test_an_array_names_the_element_that_decides(elements: dict[int, Status], folded: Status) -> None:
    assert fold_array(elements) == folded
