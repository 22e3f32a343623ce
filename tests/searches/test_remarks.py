"""What the user of a search is told before it is over, and after it."""

from __future__ import annotations

import json
from pathlib import Path

from hpcdist.runs import cancelling
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.searches import progress, trials
from tests.searches.test_trials import OVER, RUNNING, run
from tests.wording import Wording


def searched(folder: Path, *events: str, count: int = 3) -> Run:
    found = run(folder, *events, count=count)
    plan = json.loads((found.directory.path / "plan.json").read_text())
    found.directory.write("plan.json", json.dumps(plan | {"sweep": {"order": "-accuracy"}}))
    return found


def told(report: Report) -> list[str]:
    return [*progress.remarks(report, trials.trials(report, lambda _: (), 200))]


def record(found: Run, trial: int, metric: str) -> None:
    folder = found.directory.path / "tracking" / f"12_{trial}" / "0.0"
    folder.mkdir(parents=True)
    (folder / "rank-0.n.1.jsonl").write_text(f'{{"metrics":{{"{metric}":1}},"step":1,"at":1}}\n')


def test_a_metric_that_no_trial_records_is_told_after_the_first_one(tmp_path: Path, wording: Wording) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "started 12_2 100 0", "ended 12_2 160 0")
    record(found, 1, "accuracy_of_test")
    record(found, 2, "loss")
    wording(told(Report(found, RUNNING)))
    record(found, 3, "accuracy")  # some trials may record it late
    assert told(Report(found, RUNNING)) == []


def test_a_metric_that_the_first_trial_records_is_no_remark(tmp_path: Path) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "ended 12_1 160 0")
    assert len(told(Report(found, RUNNING))) == 1
    record(found, 1, "accuracy")
    assert told(Report(found, RUNNING)) == []


def test_trials_that_did_not_end_are_named_with_what_runs_them(tmp_path: Path, wording: Wording) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "ended 12_1 160 0", count=8)
    record(found, 1, "accuracy")
    wording(told(Report(found, OVER)))


def test_a_search_whose_budget_is_used_up_is_not_to_be_resumed(tmp_path: Path, wording: Wording) -> None:
    """A trial may take 2 GPUs for 60 s; what has no end yet is counted by the script alone."""
    found = run(tmp_path, "started 12_1 100 0", "ended 12_1 150 1", "started 12_2 100 0", count=2)
    for budget in (220, 219):
        plan = {"request": {"walltime": {"seconds": 60}}, "sweep": {"budget": budget, "cost": 120}}
        found.directory.write("plan.json", json.dumps(plan))
        wording(told(Report(found, OVER)))


def test_trials_that_were_not_to_start_are_told_with_why(tmp_path: Path, wording: Wording) -> None:
    """The script prints it: into the log of the trial, or of the job of packed trials."""
    began = ("started 12_1 100 0", "ended 12_1 160 1", "started 12_2 160 0", "ended 12_2 160 85")
    found = searched(tmp_path, *began, "started 12_3 160 0", "ended 12_3 160 85")
    wording(told(Report(found, OVER)))
    why = "1 trials have failed, and max_failures is 1"
    folder = found.directory.logs
    (folder / "job-2.out").write_text(f"hpcdist: trial 2 does not start: {why}\n")
    wording(told(Report(found, OVER)))
    (folder / "job-2.out").rename(folder / "node-1.out")
    (folder / "node-1.out").write_text("hpcdist: this job runs no trials: 1 GPU-hours are spent\n")
    wording(told(Report(found, OVER)))
    cancelling.request(found.directory, "as a trial has reached accuracy 0.9")
    wording(told(Report(found, OVER)))  # fmt: skip
