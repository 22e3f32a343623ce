"""Pipelines from Python, with a Slurm of a few lines of bash."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import hpcdist
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.docs.pages import block

SLURM = {
    "sbatch": """\
for word in "$@"; do case $word in --comment=*) token=${word#*=};; esac; done
id=$((100 + $(ls jobs | wc -l)))
echo "${STATE:-PENDING} $token" >jobs/$id
echo $id""",
    "squeue": """\
for file in jobs/*; do
  read -r state token <$file
  case ${@: -1} in "%i|%k") echo "${file#jobs/}|$token";; *) echo "${file#jobs/}|$state|None|$token";; esac
done""",
    "scancel": 'for id; do read -r _ token <jobs/$id; echo "CANCELLED $token" >jobs/$id; done',
    "sacct": "exit 1",
    "scontrol": "exit 1",
}


@pytest.fixture(autouse=True)
def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs on PATH that keep the state of each job in a file."""
    (folder / "bin").mkdir()
    (folder / "jobs").mkdir()
    for name, text in SLURM.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\ncd {folder} || exit\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    (folder / "pipeline.yml").write_text(block("pipeline"))
    (folder / "one.yml").write_text("run: {cmd: x}\n")
    return folder / "jobs"


def end(jobs: Path, job: str, state: str) -> None:
    token = (jobs / job).read_text().split()[1]
    (jobs / job).write_text(f"{state} {token}\n")


def test_suspect_nodes_are_excluded_as_by_the_verbs(folder: Path) -> None:
    directory = rundir.create(folder / "runs", "train")
    record = Record("train", "t", "slurm", "slurm", "d", "2026-01-01T00:00:00+00:00")
    rundir.save(directory, replace(record, phase=Phase.SUBMITTED, job_id="7"))
    began = int(time.time()) - 3600
    (directory.path / "events").write_text(f"started 7 {began} 0\nlost 7 {began} n1\n")
    excluding = {"prep.batch.exclude_bad_nodes": True}
    pipeline = hpcdist.load_pipeline("pipeline.yml", params={"size": 7}, settings=excluding, site="slurm")
    scripts = {name: plan.render() for name, plan in pipeline.plan().items()}
    pipeline.submit()
    submitted = (folder / "runs/digits-1-prep-1/job.sh").read_text()
    assert ["#SBATCH --exclude=n1\n" in each for each in (*scripts.values(), submitted)] == [
        *(True, False, False, False),
        True,
    ]


def test_a_pipeline_is_planned_and_submitted(slurm: Path) -> None:
    pipeline = hpcdist.load_pipeline("pipeline.yml", params={"size": 7}, site="slurm")
    plans = pipeline.plan()
    assert [*plans] == ["prep", "small", "large", "compare"]
    assert "seq 7 >" in plans["prep"].render()
    made = pipeline.submit()
    assert (made.name, made.notes) == ("digits-1", ())
    assert {name: run.job_ids for name, run in made.runs.items()} == {
        name: (str(number),) for number, name in enumerate(plans, 100)
    }
    assert made.runs["small"] == hpcdist.find_run("digits-1/small")
    assert {status.state for status in made.status().values()} == {hpcdist.JobState.PENDING}
    for job, state in (("100", "COMPLETED"), ("101", "FAILED"), ("102", "COMPLETED"), ("103", "CANCELLED")):
        end(slurm, job, state)
    ended = hpcdist.find_pipeline("digits-1").wait()
    assert (ended["small"].state, ended["compare"].reason) == (
        hpcdist.JobState.FAILED,
        "it can never start: small is failed",
    )
    assert [run.name for run in made.resume()] == ["digits-1-small-1", "digits-1-compare-1"]
    assert made.cancel()
    assert {status.state for status in made.status().values()} == {
        hpcdist.JobState.COMPLETED,
        hpcdist.JobState.CANCELLED,
    }
    assert not made.cancel()


def test_the_program_of_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HPCDIST_SITE", "slurm")
    monkeypatch.setenv("STATE", "COMPLETED")
    exec(block("python pipeline"), {})  # noqa: S102 - the page's own words
    names = ("prep", "small", "large", "compare")
    plans = [f"{name}: 1 task by srun, 1 node (site slurm)" for name in names]
    ends = [f"digits-1-{name}-1: completed " for name in names]
    assert capsys.readouterr().out.splitlines() == [*plans, *ends]


def test_what_is_none_is_refused() -> None:
    with pytest.raises(hpcdist.ConfigError) as refused:
        hpcdist.load("pipeline.yml")
    assert str(refused.value) == (
        "pipeline.yml:4:7: kind: a pipeline is several runs, not one; "
        "`submit`, `check`, `plan` and `render` take one, and in Python `hpcdist.load_pipeline`"
    )
    with pytest.raises(hpcdist.ConfigError, match=r"one\.yml is no pipeline, but one experiment"):
        hpcdist.load_pipeline("one.yml")
    with pytest.raises(hpcdist.ConfigError, match="there is no pipeline 'digits-1' in "):
        hpcdist.find_pipeline("digits-1")
    with pytest.raises(hpcdist.ConfigError, match="there is no param 'sise'; did you mean 'size'"):
        hpcdist.load_pipeline("pipeline.yml", params={"sise": 1})
