from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.runs.elements import Elements
from hpcdist.runs.job_states import JobStatuses
from hpcdist.schedulers.job import Job, JobState, Rest, Status, fold_array
from tests.plans import stored

RANGES = st.lists(st.builds(range, st.integers(0, 20), st.integers(0, 30), st.integers(1, 4)), max_size=5)
KNOWN = st.sets(st.integers(0, 30))
STATUSES = st.sampled_from(
    [Status(JobState.COMPLETED, "CD", 0), Status(JobState.FAILED, "F", 3), Status(JobState.CANCELLED, "CA")]
)


@given(RANGES, KNOWN)
def test_elements_are_the_set_of_their_indices(ranges: list[range], known: set[int]) -> None:
    indices, elements = {index for part in ranges for index in part}, Elements(ranges)
    assert (bool(elements), elements.size) == (bool(indices), len(indices))
    assert {index for index in range(40) if index in elements} == indices
    assert {*elements.outside(known)} == indices - known
    assert elements.first_outside(known) == min(indices - known, default=None)


def test_a_trillion_elements_take_no_room() -> None:
    elements = Elements([range(10**12)])
    assert (elements.size, elements.first_outside({0, 1}), 10**11 in elements) == (10**12, 2, True)


@given(st.dictionaries(st.integers(0, 30), STATUSES), st.sets(st.integers(0, 30), min_size=1), STATUSES)
def test_the_rest_counts_as_its_elements_would(
    known: dict[int, Status], others: set[int], status: Status
) -> None:
    unknown = others - known.keys()
    rest = Rest(min(unknown), len(unknown), status) if unknown else None
    if known or rest:
        assert fold_array(known, rest) == fold_array(dict.fromkeys(unknown, status) | known)


@pytest.mark.parametrize("ended", ["", "cancelled 12 5 0\n", "ended 12_3 5 1\n"])
@pytest.mark.parametrize("said", [None, "PENDING", "CANCELLED", "COMPLETED"])
def test_the_state_of_a_million_lists_no_indices(ended: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "events").write_text(f"started 12_3 2 0\n{ended}")
    assert bytes_of("0-999999", tmp_path, said) - bytes_of("0-9", tmp_path, said) < 100_000


def bytes_of(array: str, directory: Path, said: str | None) -> int:
    """Return how much memory it takes at most to find out the status of such an array."""
    (directory / "plan.json").write_text(stored(array))
    status_of(directory, said)  # with what it imports
    tracemalloc.start()
    try:
        status_of(directory, said)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def status_of(directory: Path, said: str | None) -> Status | None:
    """Return what is known of an array of which the batch system said this, and the event log the rest."""
    known = JobStatuses(Job("12", "a-1", str(directory), "t"))
    known.is_unresolved()
    if said:
        known.add(None, Status(JobState[said], said), provisional=False)
    known.read_events()
    known.is_unresolved()
    return known.status()
