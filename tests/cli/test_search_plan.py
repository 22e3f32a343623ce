"""What `plan` shows of a search."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist

GOES_ON: Final = (
    "by `hpcdist sweep advance RUN --wait` or `submit --wait` from here, or `--by-job`: "
    "later trials follow from what earlier ones have reached"
)
TWO: Final = {"replicas": {"n_workers": 1}}


def written(folder: Path, **keys: Any) -> None:
    """Write x.yml, a search by bo on a site that gives whole nodes, with these keys."""
    site = (folder / "sites" / "toy.yaml").read_text() + "whole_nodes: true\n"
    (folder / "sites" / "toy.yaml").write_text(site)
    algorithm = {"n_initial_trials": 4, "n_iterations": 4, "metric": {"name": "loss"}}
    experiment = {
        "hptuning": {"concurrency": 2, "matrix": {"lr": {"uniform": [0, 1]}}, "bo": algorithm},
        "run": {"cmd": "x {{ lr }}"},
        **keys,
        "batch": {"site": "toy", "walltime": "1h", **keys.get("batch", {})},
    }
    (folder / "x.yml").write_text(json.dumps(experiment))


def test_all_generations_of_a_packed_search_are_shown_with_what_they_cost(
    hpcdist: Hpcdist, folder: Path
) -> None:
    written(folder, batch={"pack": True})
    shown = hpcdist("plan", "x.yml", "--site-path=sites")
    assert shown.out.splitlines()[:5] == [
        "x on site toy: at most 8 trials, 2 at once by srun, 1 node",
        "at most 8 trials of lr in 3 generations, 4 of them in the first, 2 at once (x.yml:1)",
        (
            "packed (x.yml:1): 2 at once on 1 node, in one job; "
            "each worker runs about 2 trials one after another within 01:00:00; "
            "`hpcdist resume RUN` runs those that are left"
        ),
        f"goes on: {GOES_ON}",
        "cost: at most 12 GPU-hours, 3 node-hours (1 node with 4 GPUs for 01:00:00, 3 of them)",
    ]
    data = json.loads(hpcdist("plan", "x.yml", "--site-path=sites", "--json").out)
    assert data["search"] == {
        "trials": 4,
        "most_trials": 8,
        "generations": 3,
        "params": ["lr"],
        "at_once": 2,
        "packed": {"workers": 2, "nodes": 1, "per_node": 2},
        "goes_on": GOES_ON,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"batch": {"pack": False}},
        {"framework": "mpi", "environment": TWO},
        {"environment": {"resources": {"gpu": {"requests": 4}}}},
    ],
    ids=["not asked for", "two tasks", "whole node"],
)
def test_where_each_trial_has_whole_nodes_plan_says_why(
    hpcdist: Hpcdist, folder: Path, keys: dict[str, Any], wording: Wording
) -> None:
    written(folder, **keys)
    wording(hpcdist("plan", "x.yml", "--site-path=sites").out.splitlines()[2])


def test_that_optuna_is_missing_is_told_before_anything_is_submitted(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    written(folder, batch={"pack": True})
    assert hpcdist("plan", "x.yml", "--site-path=sites").err == ""
    monkeypatch.setitem(sys.modules, "optuna", None)
    wording(hpcdist("plan", "x.yml", "--site-path=sites").err)


def test_other_experiments_have_no_search(hpcdist: Hpcdist) -> None:
    assert json.loads(hpcdist("plan", "ranks.yml", "--json").out)["search"] is None
