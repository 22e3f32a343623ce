"""A search in a report: what is shown of its trials."""

from __future__ import annotations

from pathlib import Path

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.runs import attempts
from hpcdist.runs.states import Report
from hpcdist.tracking import comparison, report_plots
from hpcdist.tracking.report_plots import Column, Search, TrialSpan, importance
from tests.tracking import made_reports as made
from tests.tracking.made_reports import NOW
from tests.tracking.test_report_page import written

TRIALS = [{"lr": lr, "opt": opt, "n": 1} for lr in (0.001, 0.1) for opt in ("sgd", "adam")]


def found(report: Report) -> Search:
    [one] = report_content([report], NOW).searches
    return one


def test_the_trials_are_shown_with_params_metric_and_times(tmp_path: Path) -> None:
    shown = found(made.search(tmp_path, TRIALS, [0.5, 0.25, None, 0.75]))
    assert (shown.metric, shown.is_maximized, shown.best) == ("loss", False, "trial 2, 0.25")
    assert (shown.numbers.items, shown.reached) == ([1, 2, 3, 4], [0.5, 0.25, None, 0.75])
    assert shown.columns.items == [
        Column("lr", [0.001, 0.001, 0.1, 0.1], is_numeric=True, is_log=True),
        Column("opt", ["sgd", "adam", "sgd", "adam"], is_numeric=False, is_log=False),
    ]
    assert shown.bars.items == [
        TrialSpan(1, "completed", 0, 60, 2),
        TrialSpan(2, "completed", 0, 60, 2),
        TrialSpan(3, "failed", 60, 120, 2),
        TrialSpan(4, "completed", 60, 120, 2),
    ]
    assert shown.gpus == [(0, 4), (60, 4), (120, 0)]
    assert shown.importance is None  # of three values


def test_without_gpus_the_trials_that_run_are_counted(tmp_path: Path) -> None:
    shown = found(made.search(tmp_path, TRIALS, [1, 2, 3], gpus=0, order="-loss"))
    assert (shown.has_gpus, shown.gpus) == (False, [(0, 2), (60, 1), (120, 0)])
    assert (shown.best, shown.reached) == ("trial 3, 3", [1, 2, 3, None])
    assert shown.data(str)["use"] == {"name": "trials that run", "t": [0, 60, 120], "n": [2, 1, 0]}


def test_other_runs_have_no_search(tmp_path: Path) -> None:
    assert report_content([made.run(tmp_path, "train", {"loss": [1.0]})], NOW).searches == []


def search(report: Report, most: int) -> Search | None:
    items = comparison.tracked(report.run, report.run.directory.plan())
    return report_plots.search(report.run, attempts.read(report, NOW), items, NOW, most)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    report = made.search(tmp_path, TRIALS, [1, 2, 3, 4])
    shown = search(report, most=3)
    assert shown
    assert (shown.numbers.items, shown.numbers.left_out) == ([1, 2, 3], 1)
    assert [column.values for column in shown.columns.items] == [[0.001, 0.001, 0.1], ["sgd", "adam", "sgd"]]


def test_results_are_those_of_all_trials_also_of_those_that_are_not_shown(tmp_path: Path) -> None:
    report = made.search(tmp_path, [*TRIALS, *TRIALS], [1, 2, 3, 4, 5, 6, 7, 0.5])
    few, every = (search(report, most) for most in (6, 100))
    assert few
    assert every
    assert (few.numbers.left_out, few.best) == (2, "trial 8, 0.5")
    assert (few.best, few.gpus) == (every.best, every.gpus)
    spread = (0, 1, 2, 4, 5, 6)
    assert few.importance == importance(
        {name: [TRIALS[place % 4][name] for place in spread] for name in ("lr", "opt")},
        [(1, 2, 3, 4, 5, 6, 7, 0.5)[place] for place in spread],
    )


def test_the_page_shows_importance_and_a_plot_for_each_param(tmp_path: Path) -> None:
    lr = [0.1 * number for number in range(1, 9)]
    report = made.search(tmp_path, [{"lr": one, "n": number % 2} for number, one in enumerate(lr)], lr)
    read = written(report)
    text = " ".join(read.text.split())
    assert "8 trials; loss, the lower the better; best: trial 1, 0.1" in text
    assert "Importance of the params fANOVA by Optuna: the share" in text
    kinds = [value for name, value in read.attributes if name == "data-kind"]
    assert kinds == ["parallel", "against", "against", "time"]


def test_secrets_among_the_params_are_masked(tmp_path: Path) -> None:
    trials = [{"api_key": f"hunter{number}22"} for number in range(3)]
    read = written(made.search(tmp_path, trials, [1, 2, 3]))
    assert "hunter" not in read.text + "".join(read.scripts)
