"""Policies by which running trials end early: their arithmetic, and what a program does that one ends."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hpcdist_pruning import PRUNED, Others, reason

MODULES: Final = Path(__file__).parents[2] / "templates" / "python"
NAN: Final = math.nan


def is_ended(
    policy: dict[str, Any], own: Sequence[float], *others: Sequence[float], step: int | None = None
) -> bool:
    """Whether it ends a trial with these values, by those of others up to this step, by default its last."""

    def point(values: Sequence[float]) -> tuple[float, float, float]:
        known = [value for value in values if not math.isnan(value)] or [NAN]
        return values[-1], max(known), sum(known) / len(known)

    place = len(own) if step is None else step
    given = {"min_samples": 1, **policy}
    return bool(reason(given, point(own), [point(values[:place]) for values in others]))


@pytest.mark.parametrize(
    ("policy", "own", "others", "end"),
    [
        # The best value, 5, and the median of the others' values, 4, 6 and 9.
        ({"kind": "median"}, [5, 3], [[9, 4], [1, 6], [9, 9]], "ended"),
        ({"kind": "median"}, [6, 3], [[9, 4], [1, 6], [9, 9]], "goes on"),
        ({"kind": "median"}, [4.9], [[4], [6]], "ended"),
        ({"kind": "median"}, [NAN], [[4], [6]], "ended"),
        ({"kind": "median"}, [1], [[NAN], [0]], "goes on"),
        ({"kind": "median"}, [1], [], "goes on"),
        ({"kind": "median", "min_samples": 3}, [1], [[4], [6]], "goes on"),
        # Their means are 6.5, 3.5 and 9.
        ({"kind": "average"}, [6, 3], [[9, 4], [1, 6], [9, 9]], "ended"),
        ({"kind": "average"}, [7, 3], [[9, 4], [1, 6], [9, 9]], "goes on"),
        # Azure's example: of ten, the lowest 20 %.
        ({"kind": "truncation", "percent": 20}, [2], [[1], *([n] for n in range(3, 11))], "ended"),
        ({"kind": "truncation", "percent": 20}, [3], [[1], [2], *([n] for n in range(4, 11))], "goes on"),
        ({"kind": "truncation", "percent": 20}, [5], [[5]] * 9, "goes on"),
        ({"kind": "truncation", "percent": 20}, [NAN], [[5]] * 9, "ended"),
        ({"kind": "truncation", "percent": 20}, [1], [[5]] * 3, "goes on"),
        # Azure's example: a best value of 0.8 and a slack factor of 0.2 allow 0.8 / 1.2 = 0.6667.
        ({"kind": "difference", "percent": 20}, [0.66, 0.5], [[0.8, 0.1], [0.7, 0.7]], "ended"),
        ({"kind": "difference", "percent": 20}, [0.67, 0.5], [[0.8, 0.1], [0.7, 0.7]], "goes on"),
        # A loss is negative here: 1.0 and 20 % allow 1.2.
        ({"kind": "difference", "percent": 20}, [-1.21], [[-1.0]], "ended"),
        ({"kind": "difference", "percent": 20}, [-1.19], [[-1.0]], "goes on"),
        ({"kind": "difference", "amount": 0.2}, [0.59], [[0.8]], "ended"),
        ({"kind": "difference", "amount": 0.2}, [0.61], [[0.8]], "goes on"),
    ],
)
def test_by_hand(policy: dict[str, Any], own: list[float], others: list[list[float]], end: str) -> None:
    assert is_ended(policy, own, *others) is (end == "ended")


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_median_is_that_of_optuna(direction: str) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    chance, sign, seen = random.Random(7), 1 if direction == "maximize" else -1, set()  # noqa: S311
    for _ in range(60):
        pruner = optuna.pruners.MedianPruner(n_startup_trials=1)
        study = optuna.create_study(direction=direction, pruner=pruner)
        others = [[chance.choice([NAN, *range(9)]) for _ in range(4)] for _ in range(chance.randint(1, 6))]
        for values in others:
            steps = dict(enumerate(values))
            study.add_trial(optuna.trial.create_trial(value=0.0, intermediate_values=steps))
        trial, own = study.ask(), []
        for step in range(4):
            own.append(float(chance.choice([NAN, *range(9)])))
            trial.report(own[-1], step)
            ours = is_ended(
                {"kind": "median"},
                [sign * value for value in own],
                *([sign * value for value in values] for values in others),
            )
            assert ours == trial.should_prune(), (own, others)
            seen.add(ours)
    assert seen == {True, False}


def test_the_points_of_others_are_read_as_they_grow(tmp_path: Path) -> None:
    """Those that have not got as far are left out; one that began again repeats steps."""
    others = Others(str(tmp_path), "9")
    (tmp_path / "9").write_text("1.0 0 0 0\n")
    (tmp_path / "1").write_text("1.0 5 5 5\n2.0 6 6 5.5\n4.0 7 7 6\n")
    (tmp_path / "2").write_text("1.0 1 1 1\n2.")
    assert others.at(3) == [(6, 6, 5.5)]
    with (tmp_path / "2").open("a") as file:
        file.write("0 2 2 1.5\n3.0 nan 2 1.5\ncut\n")
    with (tmp_path / "1").open("a") as file:
        file.write("2.0 8 8 8\n")
    found = others.at(2)
    assert sorted(found) == [(2, 2, 1.5), (8, 8, 8)]
    assert [(math.isnan(value), best) for value, best, _ in others.at(3)] == [(True, 2)]


PROGRAM: Final = """
import sys, time
from hpcdist_tracking import log_metrics
for step in range(1, 6):
    log_metrics(step=step, loss=float(sys.argv[1]), other=1)
    time.sleep(0.15)
print("whole")
"""


def run(folder: Path, trial: int, loss: float, program: str = PROGRAM, **policy: Any) -> tuple[int, str]:
    given = {"metric": "loss", "sign": -1, "evaluation_interval": 1, "min_interval": 0, "min_samples": 1}
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(MODULES),
        "HPCDIST_RUN_DIR": str(folder),
        "HPCDIST_TRIAL": str(trial),
        "HPCDIST_TRACKING": str(folder / f"tracking-{trial}"),
        "HPCDIST_FAILURE": str(folder / f"failure-{trial}"),
        "HPCDIST_POLICIES": json.dumps([{**given, "kind": "median", **policy}]),
    }
    words = [sys.executable, "-c", program, str(loss)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_trial_that_is_worse_ends_and_says_why(tmp_path: Path) -> None:
    assert run(tmp_path, 1, 2.0) == (0, "whole\n")
    assert run(tmp_path, 2, 1.0) == (0, "whole\n")
    code, out = run(tmp_path, 3, 3.0, min_interval=2, evaluation_interval=2)
    why = "loss 3 at step 2: its best value is worse than the median of the values of others\n"
    assert (code, out) == (PRUNED, f"hpcdist: this trial ends early, by {why}")
    assert (tmp_path / "failure-3.pruned").read_text() == why
    [file] = (tmp_path / "tracking-3").iterdir()
    assert len(file.read_text().splitlines()) == 2  # with the value by which it ended


def test_a_policy_that_cannot_be_followed_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "pruning").touch()
    code, out = run(tmp_path, 1, 2.0)
    assert (code, "this trial is not compared with others: NotADirectoryError" in out) == (0, True)


def test_a_thousand_values_a_second_are_few_points(tmp_path: Path) -> None:
    many = (
        "from hpcdist_tracking import log_metrics\nimport time\nbegun = time.perf_counter()\n"
        "for step in range(20000): log_metrics(step=step, loss=1)\n"
        "print(time.perf_counter() - begun)"
    )
    code, out = run(tmp_path, 1, 2.0, many)
    points = len((tmp_path / "pruning" / "0" / "1").read_text().splitlines())
    assert code == 0
    assert 1 <= points <= 10 * float(out) + 1
