"""Params, last metrics and models of several runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.rundir import Record, Run, RunDirectory
from hpcdist.script.trial_table import table
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked
from hpcdist.tracking.files import Artifact
from tests.tracking.test_series import line, wrote
from tests.wording import Wording

RECORD = Record("train", "t", "local", "local", "d", "2026-11-23T00:00:00+00:00")


def run(folder: Path, **identity: Any) -> Run:
    path = folder / "train-1"
    path.mkdir(exist_ok=True)
    (path / "plan.json").write_text(json.dumps({"identity": identity}))
    return Run(RunDirectory(path), RECORD)


def kept(path: str, accuracy: float, kind: str = "model") -> dict[str, Any]:
    return {"kind": kind, "path": path, "sha256": "0" * 64, "bytes": 3, "metrics": {"accuracy": accuracy}}


def item(name: str, params: dict[str, Any], **metrics: float) -> Tracked:
    return Tracked(name, params, (), metrics, ())


def test_a_run_that_recorded_nothing_has_what_its_plan_has(tmp_path: Path) -> None:
    one = run(tmp_path, params={"lr": 0.1}, tags=["a"])
    found = comparison.tracked(one, one.directory.plan())
    assert found == [Tracked("train-1", {"lr": 0.1}, ("a",), {}, ())]


def test_what_a_program_recorded_comes_later_than_what_the_experiment_says(tmp_path: Path) -> None:
    one = run(tmp_path, params={"lr": 0.1, "seed": 1}, tags=["a"])
    wrote(
        one.directory.path,
        "7/0.0/rank-0",
        line(params={"lr": 0.2, "layers": [1, 2]}),
        line(tags=["b", "a"]),
        line(step=1, metrics={"loss": 1.0, "only here": 2.0}),
        line(artifact=kept("m", 0.5)),
        line(artifact=kept("notes", 0, kind="artifact")),
        line(step=2, metrics={"loss": 0.5}),
        line(artifact=kept("m", 0.75)),
    )
    wrote(one.directory.path, "7/0.0/rank-1", line(step=9, metrics={"loss": 3.0, "of rank 1": 4.0}))
    artifacts = (Artifact(**kept("m", 0.75)), Artifact(**kept("notes", 0, kind="artifact")))
    metrics = {"of rank 1": 4.0, "loss": 0.5, "only here": 2.0}
    found = Tracked("train-1", {"lr": 0.2, "seed": 1, "layers": [1, 2]}, ("a", "b"), metrics, artifacts)
    assert comparison.tracked(one, one.directory.plan()) == [found]
    assert [*comparison.models([found])] == [
        found._replace(metrics={"accuracy": 0.75}, artifacts=artifacts[:1])
    ]


def test_elements_of_an_array_are_apart_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    one = run(tmp_path)
    for element in (10, 9, 1):
        wrote(one.directory.path, f"7_{element}/0.0/rank-0", line(step=1, metrics={"loss": element}))
    assert [(each.name, each.metrics) for each in comparison.tracked(one, one.directory.plan())] == [
        ("train-1/1", {"loss": 1}),
        ("train-1/9", {"loss": 9}),
        ("train-1/10", {"loss": 10}),
    ]


ITEMS = [
    item("a", {"lr": 0.1, "opt": "sgd", "seed": 1}, loss=0.5),
    item("b", {"lr": 0.2, "seed": 1}, loss=math.nan),
    item("c", {"lr": 0.2, "opt": "adam", "seed": 1}, loss=math.inf),
    item("d", {"lr": 0.1, "opt": "sgd", "seed": 1}),
    item("e", {"lr": 0.1, "opt": "sgd", "seed": 1}, loss=-1.0),
]


def test_params_that_differ() -> None:
    assert comparison.differing(ITEMS) == ["lr", "opt"]
    assert comparison.differing(ITEMS[:1]) == []
    assert comparison.differing([]) == []


@pytest.mark.parametrize(
    ("by", "order"),
    [("loss", "eacbd"), ("-loss", "caebd"), ("lr", "adebc"), ("-lr", "bcade"), ("opt", "cadeb")],
)
def test_the_order(by: str, order: str) -> None:
    assert "".join(each.name for each in comparison.in_order(ITEMS, by)) == order


def test_a_name_that_begins_with_a_minus() -> None:
    items = [item("a", {"-x": 2}), item("b", {"-x": 1})]
    assert [each.name for each in comparison.in_order(items, "-x")] == ["b", "a"]


def test_a_name_that_none_has(wording: Wording) -> None:
    with pytest.raises(ConfigError) as error:
        comparison.in_order(ITEMS, "-los")
    wording(str(error.value))


def test_each_trial_of_a_search_has_its_own_params_also_before_it_records(tmp_path: Path) -> None:
    searched = run(tmp_path, params={"lr": 1})
    params = [{"POLYAXON_PARAMS": f'{{"lr": {number}}}'} for number in (1, 2, 3)]
    trials = [TrialTexts({}, "x", text, number) for number, text in enumerate(params, 1)]
    searched.directory.write("trials.tsv", table(trials))
    wrote(searched.directory.path, "7_2/0.0/rank-0", line(step=1, metrics={"loss": 0.5}))
    wrote(searched.directory.path, "7/0.0/rank-0", line(step=1, metrics={"of none": 1}))
    found = comparison.tracked(searched, searched.directory.plan())
    assert [(item.name, item.params, item.metrics) for item in found] == [
        ("train-1/1", {"lr": 1}, {}),
        ("train-1/2", {"lr": 2}, {"loss": 0.5}),
        ("train-1/3", {"lr": 3}, {}),
        ("train-1", {"lr": 1}, {"of none": 1}),
    ]


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda _: "", lambda text: text * 2])
def test_a_table_that_lacks_trials_is_an_error(tmp_path: Path, damage: Callable[[str], str]) -> None:
    searched = run(tmp_path)
    trials = [TrialTexts({}, "x", {"POLYAXON_PARAMS": '{"lr": 1}'}, number) for number in (1, 2, 3)]
    searched.directory.write("trials.tsv", table(trials))
    searched.directory.write("plan.json", '{"sweep": {"trials": 3}}')
    trial_params.whole(searched)
    searched.directory.write("trials.tsv", damage(table(trials)[:-40]))
    with pytest.raises(
        ConfigError, match=r"trials\.tsv is damaged: it does not have the 3 trials of its job"
    ):
        trial_params.whole(searched)
    found = comparison.tracked(searched, searched.directory.plan())
    said = f"{searched.directory.path}/trials.tsv is damaged: it does not have the 3 trials of its job"
    assert {item.unread for item in found} == {(said,)}


def test_a_search_whose_table_is_lost_does_not_show_the_params_of_its_first_trial(tmp_path: Path) -> None:
    searched = run(tmp_path)
    searched.directory.write("plan.json", '{"sweep": {"trials": 3}, "identity": {"params": {"lr": 1}}}')
    [found] = comparison.tracked(searched, searched.directory.plan())
    assert (found.name, found.params, len(found.unread)) == ("train-1", {}, 1)
