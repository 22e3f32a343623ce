"""Searches by hyperband and bo on this machine: the generations follow each other until one stops it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.chaos import slurm
from tests.wording import Wording

from .conftest import Hpcdist, Result

LOSS: Final = {"name": "loss", "optimization": "minimize"}
BO: Final = {"bo": {"n_initial_trials": 2, "n_iterations": 4, "metric": LOSS}}
HYPERBAND: Final = {
    "hyperband": {
        "max_iterations": 4, "eta": 2, "resource": {"name": "epochs", "type": "int"}, "metric": LOSS
    }
}  # fmt: skip
ADVANCE: Final = "`hpcdist sweep advance x-1 --wait` continues"
HPCDIST: Final = [sys.executable, "-m", "hpcdist"]
MADE_BY: Final = re.compile(r"(?<=job )[0-9]+")
NEXT: Final = [
    "note: x-1: a generation has ended; job  runs trials 3-4",
    "note: x-1: a generation has ended; job  runs trials 5-6",
]
KEPT: Final = "echo {{ epochs }} >> $HPCDIST_CHECKPOINTS/epochs; echo loss={{ lr }}"


def submitted(hpcdist: Hpcdist, folder: Path, search: dict[str, Any], cmd: str, *words: str) -> Result:
    """Submit this search as x-1, two trials at once; words of `hpcdist submit`."""
    experiment = {
        "params": {"other": 3},
        "environment": {"env_vars": {"OTHER": "{{ other }}"}},
        "hptuning": {"concurrency": 2, "matrix": {"lr": {"uniform": [0, 1]}}, **search},
        "tracking": {"metrics": {"loss": "loss=(.*)"}},
        "run": {"cmd": cmd},
        "batch": {"site": "local", "launcher": "processes"},
    }
    (folder / "x.yml").write_text(json.dumps(experiment))
    return hpcdist("submit", "x.yml", *words)


def of_status(hpcdist: Hpcdist) -> dict[str, Any]:
    return dict(json.loads(hpcdist("sweep", "status", "x-1", "--json").out))


def test_submit_names_what_goes_on_and_what_waits_does_not_take_a_generation_for_the_search(
    hpcdist: Hpcdist, folder: Path
) -> None:
    done = submitted(hpcdist, folder, BO, "echo loss={{ lr }}")
    next_step = "then       hpcdist sweep advance x-1 --wait  # submits the next generations"
    assert (done.code, done.out.splitlines()[-1]) == (0, next_step)
    followed = hpcdist("sweep", "status", "x-1", "-f")
    assert (followed.code, "2 of at most 6 trials: 2 completed" in followed.err + followed.out) == (82, True)
    assert f"2 of at most 6 trials; {ADVANCE}" in hpcdist("status", "x-1").out
    shown = hpcdist("sweep", "status", "x-1").out.splitlines()[0]
    assert shown == f"x-1: 2 of at most 6 trials: 2 completed; generation 1 of at most 3; {ADVANCE}"
    found = of_status(hpcdist)
    assert [found[name] for name in ("number", "most_trials", "generation", "generations")] == [2, 6, 1, 3]
    assert [job["trials"] for job in found["jobs"]] == ["1-2"]
    done = hpcdist("sweep", "advance", "x-1", "--wait")
    assert (done.code, "is over: all its generations have ended" in done.err) == (0, True), done.err
    assert hpcdist("wait", "x-1").code == 0
    assert hpcdist("sweep", "status", "x-1").out.splitlines()[0] == "x-1: 6 trials in 3 jobs: 6 completed"


def test_submit_that_waits_submits_all_generations(hpcdist: Hpcdist, folder: Path) -> None:
    done = submitted(hpcdist, folder, BO, "echo loss={{ lr }}", "--wait")
    assert (done.code, MADE_BY.sub("", done.err).splitlines()) == (0, [*NEXT, "note: x-1 completed"])
    assert of_status(hpcdist)["states"] == {"completed": 6}


@pytest.mark.extended
def test_wait_ends_with_the_last_generation_whoever_else_submits_one(hpcdist: Hpcdist, folder: Path) -> None:
    submitted(hpcdist, folder, BO, "echo loss={{ lr }}")
    with ThreadPoolExecutor() as pool:
        waits = [
            pool.submit(subprocess.run, [*HPCDIST, "wait", "x-1", "--json"], capture_output=True, text=True)
            for _ in range(2)
        ]
    for done in (wait.result() for wait in waits):
        [state] = json.loads(done.stdout)
        assert (done.returncode, state["state"], len(state["job_ids"]), state["reason"]) == (
            0,
            "completed",
            3,
            "",
        ), done.stderr
    assert of_status(hpcdist)["states"] == {"completed": 6}


def test_wait_waits_for_others_when_a_search_cannot_go_on(hpcdist: Hpcdist, folder: Path) -> None:
    submitted(hpcdist, folder, BO, "echo nothing of {{ lr }}")
    submitted(hpcdist, folder, {"random_search": {"n_experiments": 1}}, "sleep 1; echo loss={{ lr }}")
    done = hpcdist("wait", "x-1", "x-2")
    why = "error: no trial of x-1 that completed recorded the metric 'loss'; they recorded none\n"
    assert (done.code, why in done.err) == (82, True), done.err
    assert [row.split()[2] for row in done.out.splitlines()[1:]] == ["completed", "completed"]


def test_a_search_that_is_stopped_between_generations_stays_so_until_it_is_resumed(
    hpcdist: Hpcdist, folder: Path
) -> None:
    submitted(hpcdist, folder, BO, "echo loss={{ lr }}")
    hpcdist("sweep", "status", "x-1", "-f")
    assert hpcdist("sweep", "stop", "x-1").out == "x-1: no further trial starts\n"
    for words in ((), ("--wait",)):
        done = hpcdist("sweep", "advance", "x-1", *words)
        reason = "note: the search of x-1 is over: it was stopped by `hpcdist sweep stop`\n"
        assert (done.out, done.err) == ("", reason)
    assert hpcdist("wait", "x-1").code == 0
    done = hpcdist("resume", "x-1")
    assert (done.code, done.err) == (0, f"note: all trials of x-1 have completed; {ADVANCE}\n")
    hpcdist("sweep", "advance", "x-1", "--wait")
    assert of_status(hpcdist)["number"] == 6
    for as_json in ((), ("--json",)):
        assert hpcdist("sweep", "stop", "x-1", *as_json).err == "note: x-1 has already ended\n"


def test_a_search_that_drains_submits_no_further_generation(hpcdist: Hpcdist, folder: Path) -> None:
    submitted(hpcdist, folder, BO, "until [ -e go ]; do sleep 0.1; done; echo loss={{ lr }}")
    assert hpcdist("sweep", "stop", "x-1").out == "x-1: no further trial starts\n"
    (folder / "go").touch()
    done = hpcdist("sweep", "advance", "x-1", "--wait")
    assert "note: the search of x-1 is over: it was stopped by `hpcdist sweep stop`" in done.err
    assert of_status(hpcdist)["number"] == 2


@pytest.mark.extended
def test_only_with_resume_a_trial_of_hyperband_has_the_checkpoints_of_the_one_before(
    hpcdist: Hpcdist, folder: Path
) -> None:
    def epochs(run: str) -> set[str]:
        files = (folder / "runs" / run / "checkpoints").glob("*/epochs")
        return {" ".join(path.read_text().split()) for path in files}

    submitted(hpcdist, folder, HYPERBAND, KEPT, "--wait")
    assert epochs("x-1") == {"1", "2", "4"}
    resumed = {"hyperband": {**HYPERBAND["hyperband"], "resume": True}}
    submitted(hpcdist, folder, resumed, KEPT, "--wait")
    assert epochs("x-2") == {"1", "2", "4", "1 2", "2 4", "1 2 4"}


def test_a_trial_that_failed_does_not_go_on_whatever_it_recorded(hpcdist: Hpcdist, folder: Path) -> None:
    cmd = "[ $HPCDIST_TRIAL = 1 ] && echo loss=-9 && exit 7; echo loss={{ lr }} # {{ epochs }}"
    submitted(hpcdist, folder, HYPERBAND, cmd)
    hpcdist("sweep", "status", "x-1", "-f")
    hpcdist("sweep", "advance", "x-1", "--wait")
    trials = of_status(hpcdist)["trials"]
    failed = trials[0]["params"]["lr"]
    assert [one["trial"] for one in trials if one["params"]["lr"] == failed] == [1]
    best, second = json.loads(hpcdist("sweep", "best", "x-1", "--top", "2", "--json").out)
    assert (best["run"], best["metrics"], best["state"]) == ("x-1/1", {"loss": -9.0}, "failed")
    assert second["state"] == "completed"
    assert hpcdist("sweep", "best", "x-1").out.split()[:2] == ["trial", "state"]


def test_a_search_ends_when_all_that_its_values_give_was_tried(hpcdist: Hpcdist, folder: Path) -> None:
    few = {**BO, "matrix": {"lr": {"values": [1, 2, 3]}}}
    done = submitted(hpcdist, folder, few, "echo loss={{ lr }}", "--wait")
    why = "note: the search of x-1 is over: all different trials that its values give were tried"
    assert (done.code, why in done.err.splitlines()) == (0, True), done.err
    assert [one["params"]["lr"] for one in of_status(hpcdist)["trials"]] in ([1, 2, 3], [3, 2, 1])


def test_what_would_start_later_by_itself_needs_a_batch_system(
    hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    submitted(hpcdist, folder, BO, "echo loss={{ lr }}")
    hpcdist("sweep", "status", "x-1", "-f")
    done = hpcdist("sweep", "advance", "x-1", "--by-job")
    assert (done.code, done.out) == (2, "")
    wording(done.err)
    assert of_status(hpcdist)["number"] == 2


def test_a_list_of_trials_is_not_extended(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    submitted(hpcdist, folder, {"matrix": {}, "mapping": [{"lr": 1}, {"lr": 2}]}, "echo loss={{ lr }}")
    hpcdist("wait", "x-1")
    done = hpcdist("sweep", "advance", "x-1", "--trials", "2")
    assert done.code == 2
    wording(done.err)


RANDOM: Final = {"random_search": {"n_experiments": 2}}


def test_without_a_batch_system_a_search_that_runs_is_not_extended_beyond_its_limit(
    hpcdist: Hpcdist, folder: Path
) -> None:
    submitted(hpcdist, folder, RANDOM, "until [ -e go ]; do sleep 0.1; done; echo loss={{ lr }}")
    done = hpcdist("sweep", "advance", "x-1", "--trials", "2")
    assert (done.code, "x-1 is not over: job" in done.err) == (2, True)
    (folder / "go").touch()
    hpcdist("wait", "x-1")
    assert hpcdist("sweep", "advance", "x-1", "--trials", "2").code == 0
    assert hpcdist("wait", "x-1").code == 0
    assert of_status(hpcdist)["states"] == {"completed": 4}


def test_the_job_that_extends_a_packed_search_begins_when_the_one_before_has_ended(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = slurm.make(folder / "slurm")
    sbatch = programs / "sbatch"
    sbatch.write_text(sbatch.read_text().replace("\n", '\necho "$@" >>"${0%/*}/../words"\n', 1))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (folder / "sites" / "toy.yaml").write_text(slurm.SITE)
    batch = {"site": "toy", "walltime": "1h", "pack": True}
    submitted(hpcdist, folder, RANDOM, "x {{ lr }}", "--site-path=sites", f"--set=batch={json.dumps(batch)}")
    hpcdist("sweep", "advance", "x-1", "--trials", "2")
    first, second = (folder / "slurm" / "words").read_text().splitlines()
    assert ("--dependency" in first, "--dependency=afterany:100" in second) == (False, True)


def test_a_job_that_is_added_names_the_suspect_nodes_that_it_does_without(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{slurm.make(folder / 'slurm')}:{os.environ['PATH']}")
    (folder / "sites" / "toy.yaml").write_text(slurm.SITE)
    batch = {"site": "toy", "walltime": "1h", "exclude_bad_nodes": True}
    submitted(hpcdist, folder, RANDOM, "x {{ lr }}", "--site-path=sites", f"--set=batch={json.dumps(batch)}")
    other, at = rundir.create(folder / "runs", "other"), int(time.time()) - 3600
    record = Record("other-1", "t", "toy", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    rundir.save(other, record)
    (other.path / "events").write_text(f"started 7 {at} 0\nlost 7 {at} n1\n")
    done = hpcdist("sweep", "advance", "x-1", "--trials", "2")
    excluded = "note: excluded as suspect: n1 (lost 1h ago in other-1); "
    assert (done.code, excluded in done.err) == (0, True), done.err
    assert "#SBATCH --exclude=n1" in (folder / "runs" / "x-1" / "job.2.sh").read_text()
