"""Dependencies that name runs, with a Slurm made of a few functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.model import Experiment
from hpcdist.runs import awaited, cancelling, submission
from hpcdist.runs.rundir import Run
from tests.experiments import experiment
from tests.runs.test_submission import REQUEST, Queue
from tests.sites import site
from tests.wording import Wording

HERE = replace(site(), name="testbed", scheduler="slurm")
OWN = "a batch system waits for its own jobs alone"
ARRAY = '{"request": {"array": {"ranges": [{"first": 1, "last": 9}]}}}'


def waiting(*texts: str) -> Experiment:
    return replace(experiment(), batch=Batch(dependency=texts))


def resolved(queue: Queue, runs: Path, *texts: str) -> object:
    return awaited.resolved(waiting(*texts), HERE, runs, queue.services).batch.dependency


def refused(queue: Queue, runs: Path, *texts: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as error:
        resolved(queue, runs, *texts)
    return error.value.problems


def submitted(queue: Queue, runs: Path, name: str = "train", plan: str = "{}", **changes: object) -> Run:
    files = {"job.sh": "#!/bin/bash\n", "plan.json": plan}
    request = REQUEST._replace(name=name, experiment=name, files=lambda _: files)
    return submission.submit(request._replace(**changes), runs, queue.services)  # type: ignore[arg-type]


def test_without_names_nothing_is_read(tmp_path: Path) -> None:
    one = waiting("12", "afterany:13,singleton")
    assert awaited.resolved(one, HERE, tmp_path / "none", None) is one


def test_runs_and_elements_become_jobs(tmp_path: Path) -> None:
    queue = Queue()
    submitted(queue, tmp_path)
    submitted(queue, tmp_path, "tune", ARRAY)
    assert resolved(queue, tmp_path, "train-1") == ("100",)
    assert resolved(queue, tmp_path, "afterok:7:train-1:tune-1/3", "afterany:train-1+5") == (
        "afterok:7:100:101_3",
        "afterany:100+5",
    )
    assert resolved(queue, tmp_path, "singleton,aftercorr:tune-1") == ("singleton,aftercorr:101",)
    assert awaited.resolved(waiting("train-1"), HERE, tmp_path, None).batch.dependency == ("100",)


def test_all_jobs_of_a_run_count(tmp_path: Path) -> None:
    queue = Queue()
    submitted(queue, tmp_path, "tune", jobs=("1-2", "3-4"))
    submitted(queue, tmp_path, "long", jobs=("", "", ""), followed=True)
    assert resolved(queue, tmp_path, "afterok:tune-1") == ("afterok:100:101",)
    assert resolved(queue, tmp_path, "afterany:long-1") == ("afterany:102:103:104",)
    assert resolved(queue, tmp_path, "afterok:long-1") == ("afterok:102?afterok:103?afterok:104",)
    [problem] = refused(queue, tmp_path, "afternotok:long-1")
    assert problem.message == (
        "long-1 has several attempts as jobs (102, 103, 104): afternotok of them is no one condition"
    )
    queue.jobs["102"] = queue.jobs["103"] = "TIMEOUT"
    assert resolved(queue, tmp_path, "afterok:long-1") == ("afterok:104",)


def test_an_element_is_of_the_last_job_that_was_submitted(tmp_path: Path) -> None:
    queue = Queue()
    run = submitted(queue, tmp_path, "tune", ARRAY, jobs=("1-9", "1-9"))
    assert resolved(queue, tmp_path, "afterok:tune-1/3") == ("afterok:101_3",)
    record = json.loads(run.directory.path.joinpath("record.2.json").read_text())
    run.directory.write("record.2.json", json.dumps(record | {"job_id": None, "phase": "created"}))
    assert resolved(queue, tmp_path, "afterok:tune-1/3") == ("afterok:100_3",)


def test_of_several_arrays_one_that_failed_is_the_end_of_all(tmp_path: Path) -> None:
    queue = Queue()
    submitted(queue, tmp_path, "tune", jobs=("1-2", "3-4"))
    [problem] = refused(queue, tmp_path, "afternotok:tune-1")
    assert problem.message == "tune-1 has several jobs (100, 101): afternotok of them is no one condition"
    queue.jobs["100"] = "TIMEOUT"
    [problem] = refused(queue, tmp_path, "afterok:tune-1")
    assert problem.message == "the job would never start: tune-1 is timeout, and this waits for its success"
    assert resolved(queue, tmp_path, "afternotok:tune-1", "afterany:tune-1") == (
        "afterany:101",
        "afterany:101",
    )
    queue.jobs["100"] = "COMPLETED"
    assert resolved(queue, tmp_path, "afterok:tune-1", "afternotok:tune-1") == (
        "afterok:101",
        "afternotok:101",
    )


def test_a_search_whose_last_generation_is_not_submitted_yet_is_not_waited_for(tmp_path: Path) -> None:
    queue = Queue()
    run = submitted(queue, tmp_path, "tune", '{"sweep": {"trials": 2, "most_trials": 6}}')
    run.directory.write("trials.tsv", "")
    expected = Problem(
        "tune-1 goes on in generations, and the last one is not submitted yet (2 of at most 6 trials)",
        ("batch", "dependency"),
        "submit this after `hpcdist wait tune-1`, which submits all of them and waits for the last",
        word="tune-1",
    )
    for state in ("RUNNING", "COMPLETED"):
        queue.jobs["100"] = state
        for text in ("tune-1", "afterany:7:tune-1", "afternotok:tune-1?afterok:7"):
            assert refused(queue, tmp_path, text) == (expected,)
    assert resolved(queue, tmp_path, "after:tune-1") == ()
    cancelling.request(run.directory, "as a trial has reached loss 1")
    assert resolved(queue, tmp_path, "afterok:tune-1") == ()


def test_what_has_ended_is_left_out_or_refused(tmp_path: Path, wording: Wording) -> None:
    queue = Queue()
    for name in ("good", "bad", "runs"):
        submitted(queue, tmp_path, name)
    queue.jobs |= {"100": "COMPLETED", "101": "CANCELLED"}
    assert resolved(queue, tmp_path, "afterok:good-1:runs-1") == ("afterok:102",)
    assert resolved(queue, tmp_path, "good-1", "afterany:bad-1", "afternotok:bad-1") == ()
    assert resolved(queue, tmp_path, "afterok:bad-1?afterok:runs-1") == ("afterok:102",)
    assert resolved(queue, tmp_path, "afterok:good-1?afterok:runs-1") == ()
    [problem] = refused(queue, tmp_path, "afterok:runs-1:bad-1", "good-1")
    assert problem.word == "bad-1"
    wording(str(problem))
    [problem] = refused(queue, tmp_path, "afternotok:good-1")
    wording(str(problem))


def test_unknown_runs_and_those_elsewhere_are_refused_at_once(tmp_path: Path, wording: Wording) -> None:
    queue = Queue()
    submitted(queue, tmp_path, "there", site="elsewhere")
    found = refused(queue, tmp_path, "there-1", "afterany:gone-3")
    wording(str(problem).replace(str(tmp_path), "TMP") for problem in found)
    assert {problem.word for problem in found} == {"gone-3", "there-1"}
