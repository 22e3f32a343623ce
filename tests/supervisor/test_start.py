"""What a start of a job has of its surroundings, and writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from supervisor.job import Sweep
from supervisor.start import Failed, Start, without_another

from tests.supervisor.starts import start


def test_the_variables_of_a_job_that_started_this_one_are_left_out() -> None:
    another = dict.fromkeys(("SHELLOPTS", "HPCDIST_RANK", "HPCDIST_PORT", "HPCDIST_TRIAL"), "1")
    own = dict.fromkeys(("PATH", "RANK", "HPCDIST_TOKEN", "HPCDIST_PYTHON", "HPCDIST_PORTS"), "1")
    assert without_another({**another, **own}) == own


@pytest.mark.parametrize("workers", [0, 2])
def test_an_element_knows_its_earlier_starts(tmp_path: Path, workers: int) -> None:
    """That of packed trials is 7+2 in the log: 7_2 is a trial."""
    job = start(tmp_path).job._replace(sweep=Sweep(None, None, 0, 0, "", "", workers))
    for element in ("1", "2", "2"):
        Start(job, "7", element).log("started")
    assert [(one.what, one.job_id) for one in Start(job, "7", "2").own_events()] == [("started", "7_2")] * 2


def test_a_file_of_an_earlier_start_stays_intact_where_the_disk_is_full(tmp_path: Path) -> None:
    """Its processes may still read it."""
    own = start(tmp_path)
    file = Path(own.write("nodes", "n1\n"))
    (file.parent / "nodes.part").symlink_to("/dev/full")
    with pytest.raises(Failed, match="is the disk full, or your quota used up") as raised:
        own.write("nodes", "n2\n")
    assert (raised.value.code, file.read_text()) == (86, "n1\n")
