"""The first failure of a run on its page, as `describe` prints it."""

from __future__ import annotations

from pathlib import Path

from hpcdist.cli.jobs.report import content as report_content
from tests.tracking import made_reports as made
from tests.tracking.made_reports import FAILED, HOSTILE, NOW
from tests.tracking.test_report_page import written

PLAN = {
    "identity": {},
    "launch": {"mode": "tasks"},
    "placement": {"rows": [{"tasks": 4}], "groups": [{"node": 0, "nodes": 2, "gpus": 0}]},
}


def test_the_page_names_the_first_failure(tmp_path: Path) -> None:
    report = made.run(tmp_path, "train", {}, status=FAILED, plan=PLAN)
    job = report.run.record.job_id or ""
    failure = report.run.directory.path / "jobs" / job / "failure.0.0"
    failure.parent.mkdir(parents=True)
    failure.write_text(f"134 2 n1 {HOSTILE[0]}\n")
    [view] = report_content([report], NOW).runs
    assert view.first_failure == f"rank 2 on n1 was the first to fail, with exit code 134: {HOSTILE[0]}"
    read = written(report)
    assert "First failure: rank 2 on n1 was the first to fail" in read.text
    assert HOSTILE[0] in read.text
