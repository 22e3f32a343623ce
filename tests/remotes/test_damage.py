"""What is wrong with one mirror is named, and leaves other runs alone."""

from __future__ import annotations

import pytest

from tests.remotes.server import Laptop

pytestmark = pytest.mark.real


def test_a_file_that_cannot_be_written_here_is_named_and_the_others_come(here: Laptop) -> None:
    for name in ("bad", "good"):
        here.write(name, "echo done; exit 3")
        here.hpcdist("submit", f"{name}.yml", "--on", "box")
    log = here.work / "runs" / "bad-1" / "logs" / "job.out"
    log.mkdir(parents=True)
    while {one["state"] for one in here.json("status")} != {"failed"}:
        pass
    assert "done" in here.hpcdist("logs", "good-1").stdout
    said = here.hpcdist("logs", "bad-1", code=None).stderr
    assert f"bad-1 cannot be brought up to date: {log}: Is a directory" in said
    log.rmdir()
    assert "done" in here.hpcdist("logs", "bad-1").stdout
