"""What the user of a search is told before it is over, and after it."""

from __future__ import annotations

import json
from pathlib import Path

from hpcdist.runs import stopping
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.sweeps import remarks, trials
from tests.sweeps.test_trials import OVER, RUNNING, run


def searched(folder: Path, *events: str, count: int = 3) -> Run:
    found = run(folder, *events, count=count)
    plan = json.loads((found.directory.path / "plan.json").read_text())
    found.directory.write("plan.json", json.dumps(plan | {"sweep": {"order": "-accuracy"}}))
    return found


def told(report: Report) -> list[str]:
    return [*remarks.remarks(report, trials.trials(report, lambda _: (), 200))]


def record(found: Run, trial: int, metric: str) -> None:
    folder = found.directory.path / "tracking" / f"12_{trial}" / "0.0"
    folder.mkdir(parents=True)
    (folder / "rank-0.n.1.jsonl").write_text(f'{{"metrics":{{"{metric}":1}},"step":1,"at":1}}\n')


def test_a_metric_that_no_trial_records_is_told_after_the_first_one(tmp_path: Path) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "started 12_2 100 0", "ended 12_2 160 0")
    record(found, 1, "accuracy_of_test")
    record(found, 2, "loss")
    assert told(Report(found, RUNNING)) == [
        "no trial has recorded the metric 'accuracy', by which they are compared, and 1 has completed"
    ]
    record(found, 3, "accuracy")  # some trials may record it late
    assert told(Report(found, RUNNING)) == []


def test_a_metric_that_the_first_trial_records_is_no_remark(tmp_path: Path) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "ended 12_1 160 0")
    assert len(told(Report(found, RUNNING))) == 1
    record(found, 1, "accuracy")
    assert told(Report(found, RUNNING)) == []


def test_trials_that_did_not_end_are_named_with_what_runs_them(tmp_path: Path) -> None:
    found = searched(tmp_path, "started 12_1 100 0", "ended 12_1 160 0", count=8)
    record(found, 1, "accuracy")
    assert told(Report(found, OVER)) == [
        "trials 2, 3, 4, 5 and 3 more did not end: `hpcdist sweep resume mnist-1` runs what is left"
    ]


def test_a_search_whose_budget_is_used_up_is_not_to_be_resumed(tmp_path: Path) -> None:
    """A trial may take 2 GPUs for 60 s; what has no end yet is counted by the script alone."""
    found = run(tmp_path, "started 12_1 100 0", "ended 12_1 150 1", "started 12_2 100 0", count=2)
    anew = "submit what is left as a search of its own, with a `batch.budget` of its own"
    ways = {
        220: "`hpcdist sweep resume mnist-1` runs what is left",
        219: f"as its budget is used up, {anew}",
    }
    for budget, way in ways.items():
        plan = {"request": {"walltime": {"seconds": 60}}, "sweep": {"budget": budget, "cost": 120}}
        found.directory.write("plan.json", json.dumps(plan))
        assert told(Report(found, OVER)) == [f"trial 2 did not end: {way}"]


def test_trials_that_were_not_to_start_are_told_with_why(tmp_path: Path) -> None:
    """The script prints it: into the log of the trial, or of the job of packed trials."""
    began = ("started 12_1 100 0", "ended 12_1 160 1", "started 12_2 160 0", "ended 12_2 160 85")
    found = searched(tmp_path, *began, "started 12_3 160 0", "ended 12_3 160 85")
    left = "`hpcdist sweep resume mnist-1` runs what is left"
    assert told(Report(found, OVER)) == [f"trials 2, 3 did not end: {left}"]
    why = "1 trials have failed, and max_failures is 1"
    folder = found.directory.logs
    (folder / "job-2.out").write_text(f"hpcdist: trial 2 does not start: {why}\n")
    assert told(Report(found, OVER)) == [f"trials 2, 3 did not start: {why}", left]
    (folder / "job-2.out").rename(folder / "node-1.out")
    (folder / "node-1.out").write_text("hpcdist: this job runs no trials: 1 GPU-hours are spent\n")
    assert told(Report(found, OVER)) == ["trials 2, 3 did not start: 1 GPU-hours are spent", left]
    stopping.request(found.directory, "as a trial has reached accuracy 0.9")
    assert told(Report(found, OVER)) == [
        "trials 2, 3 did not start: a trial has reached accuracy 0.9", left
    ]  # fmt: skip
