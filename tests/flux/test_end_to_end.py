"""hpcdist's verbs as real processes, through a flux that keeps Flux's rules (fake.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.flux.conftest import User
from tests.schedulers.flux_transcripts import recorded

pytestmark = pytest.mark.namespaces  # of each host its name

PROBE = (
    "echo probe $HPCDIST_RANK $HPCDIST_ROLE $HPCDIST_INDEX $(uname -n) $HPCDIST_LOCAL_RANK "
    "${CUDA_VISIBLE_DEVICES:--} $MASTER_ADDR"
)


def write(user: User, command: str = PROBE, workers: int = 3, **keys: Any) -> str:
    """Write an experiment of equal replicas."""
    each = keys.pop("each", {"cpu": {"requests": 8}})
    data = {
        "name": "exp",
        "framework": "pytorch",
        "environment": {
            "resources": each,
            "replicas": {"n_workers": workers, "default_worker": {"resources": each}},
        },
        "run": {"cmd": command},
        "batch": {"walltime": "00:10:00"},
    }
    (user.folder / "exp.yml").write_text(yaml.safe_dump(data | keys, sort_keys=False))
    return "exp.yml"


def lands_as_planned(user: User, file: str) -> None:
    planned = user.json("plan", file)["tasks"]
    done = user.hpcdist("submit", file, "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert done.returncode == 0, done.stderr + log
    found = re.findall(r"(?:(\d+): )?probe (\d+) (\w+) (\d+) n(\d+) (\d+) (\S+) (\S+)", log)
    assert sorted(
        (
            {
                "label": label,
                "rank": int(rank),
                "role": role,
                "index": int(index),
                "node": int(host) - 1,
                "local_rank": int(local_rank),
                "gpus": [] if gpus == "-" else [int(gpu) for gpu in gpus.split(",")],
                "head": head,
            }
            for label, rank, role, index, host, local_rank, gpus, head in found
        ),
        key=lambda record: record["rank"],
    ) == [
        {"label": str(task["rank"]) if len(planned) > 1 else "", "head": "n1"}
        | {key: task[key] for key in ("rank", "role", "index", "node", "local_rank", "gpus")}
        for task in planned
    ]


@pytest.mark.parametrize(
    ("workers", "each"),
    [
        (3, {"cpu": {"requests": 8}, "gpu": {"requests": 2}}),
        pytest.param(7, {"cpu": {"requests": 4}, "gpu": {"requests": 1}}, marks=pytest.mark.extended),
        pytest.param(0, {"cpu": {"requests": 1}, "gpu": {"requests": 1}}, marks=pytest.mark.extended),
        pytest.param(4, {"cpu": {"requests": 6}, "gpu": {"requests": 1}}, marks=pytest.mark.extended),
    ],
)
def test_tasks_land_as_planned(user: User, workers: int, each: Mapping[str, Any]) -> None:
    lands_as_planned(user, write(user, workers=workers, each=each))


def sized(cpu: int, gpu: int) -> Mapping[str, Any]:
    return {"resources": {"cpu": {"requests": cpu}, "gpu": {"requests": gpu}}}


@pytest.mark.extended
@pytest.mark.parametrize(
    "replicas",
    [
        {"n_workers": 3, "default_worker": sized(6, 3), "worker": [{"index": 1, **sized(10, 1)}]},
        {"n_workers": 4, "default_worker": sized(4, 1)},  # nodes have different numbers of them
    ],
)
def test_unequal_tasks_land_as_planned(user: User, replicas: Mapping[str, Any]) -> None:
    lands_as_planned(user, write(user, environment={**sized(10, 1), "replicas": replicas}))


def test_status_logs_cancel_and_wait(user: User) -> None:
    file = write(user, 'echo "here $RANK"; exec sleep 60')
    said = user.hpcdist("submit", file)
    assert (said.returncode, said.stderr) == (0, "")
    job = said.stdout.split()[2]
    assert re.fullmatch("f[1-9A-Za-z]+", job)
    user.await_log("exp-1", "3: here 3")
    assert user.status("exp-1")["state"] == "running"
    assert user.hpcdist("logs", "exp-1", "--rank", "2").stdout == "here 2\n"
    assert user.hpcdist("cancel", job).returncode == 0
    assert user.hpcdist("wait", "exp-1").returncode != 0
    status = user.status("exp-1")
    assert (status["state"], status["reason"]) == ("cancelled", "cancel")


@pytest.mark.extended
def test_a_snapshot_is_where_the_job_starts(user: User) -> None:
    file = write(user, "echo at $PWD", batch={"walltime": "1m", "code": "snapshot"})
    done = user.hpcdist("submit", file, "--wait")
    run = user.folder / "runs" / "exp-1"
    log = (run / "logs" / "job.out").read_text()
    assert (done.returncode, log.count(f"at {run}/code\n")) == (0, 4), done.stderr + log


def test_the_exit_code_of_a_task_is_that_of_the_job(user: User) -> None:
    file = write(user, "((RANK == 2)) && exit 7; sleep 60")
    done = user.hpcdist("submit", file, "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert done.returncode == 7, log
    assert "hpcdist: rank 2 on n2 was the first to fail, with exit code 7" in log


def test_what_tasks_say_before_they_fail_together_is_in_the_log(user: User) -> None:
    assert user.hpcdist("submit", write(user, "echo why; exit 7"), "--wait").returncode == 7
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert sorted(re.findall(r"\d: why", log)) == [f"{rank}: why" for rank in range(4)]


def test_more_nodes_than_there_are_is_told(user: User) -> None:
    done = user.hpcdist("submit", write(user, workers=15), "--wait")
    assert done.returncode != 0
    status = user.status("exp-1")
    assert (status["state"], status["exit_code"], status["reason"]) == (
        "failed",
        None,
        "alloc: unsatisfiable request: need 8 node(s) with 16 cores each, only 4 eligible",
    )


def test_the_time_limit_and_the_signal_before_it(user: User) -> None:
    command = "trap 'sleep 1; echo saved; exit 0' USR1; sleep 60 & wait"
    file = write(user, command, batch={"walltime": "16s", "signal": "USR1@8"})
    done = user.hpcdist("submit", file, "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert (done.returncode, sorted(re.findall(r"\d: saved", log))) == (
        0,
        ["0: saved", "1: saved", "2: saved", "3: saved"],
    )


def test_the_notice_before_the_time_limit_reaches_the_program(user: User) -> None:
    each = {"resources": {"cpu": {"requests": 8}}}
    section = each | {
        "replicas": {"n_workers": 3, "default_worker": each},
        "restart": {"notice": "6s", "max": 0},
    }
    command = "trap 'echo saved; exit 0' USR1; sleep 60 & wait"
    file = write(user, command, environment=section, batch={"walltime": "16s"})
    done = user.hpcdist("submit", file, "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert (done.returncode, sorted(re.findall(r"\d: saved", log))) == (
        0,
        ["0: saved", "1: saved", "2: saved", "3: saved"],
    ), log


@pytest.mark.extended
def test_a_job_that_does_not_end_in_time(user: User) -> None:
    done = user.hpcdist("submit", write(user, "sleep 60", batch={"walltime": "5s"}), "--wait")
    status = user.status("exp-1")
    assert (status["state"], done.returncode) == ("timeout", 143)
    assert status["exit_code"] in {142, 143}  # ALRM, or TERM for tasks that it was handed on to


@pytest.mark.extended
def test_servers_are_ended_when_the_others_have_ended(user: User) -> None:
    each = {"resources": {"cpu": {"requests": 8}}}
    section = each | {"replicas": {"n_workers": 1, "n_ps": 2, "default_worker": each, "default_ps": each}}
    command = "[[ $HPCDIST_ROLE != ps ]] || exec sleep 60; sleep 1; echo well"
    done = user.hpcdist("submit", write(user, command, framework="tensorflow", environment=section), "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert (done.returncode, "ended well; ending those that served" in log) == (0, True), log


@pytest.mark.extended
def test_the_launch_is_tried_again(user: User) -> None:
    section = {"resources": {"cpu": {"requests": 1}}, "max_restarts": 1}
    command = "echo try; [[ -e again ]] || { : >again; exit 9; }"
    done = user.hpcdist("submit", write(user, command, environment=section), "--wait")
    log = (user.folder / "runs" / "exp-1" / "logs" / "job.out").read_text()
    assert (done.returncode, log.count("try\n")) == (0, 2), log


@pytest.mark.extended
def test_a_failed_job_cannot_be_waited_for(user: User) -> None:
    assert user.hpcdist("submit", write(user, "exit 3"), "--wait").returncode == 3
    job = user.hpcdist("status", "exp-1", "--json").stdout.split('"job_id": "')[1].partition('"')[0]
    done = user.hpcdist("submit", "exp.yml", "--set", f"batch.dependency={job}")
    assert (done.returncode, user.submitted()) == (5, 1)
    said = f"afterok: job \u0192{job[1:]} failed or was canceled; the job it waits for is unknown to Flux, or"
    assert said in done.stderr


def test_a_refusal_is_told_with_the_words_of_flux(user: User) -> None:
    site = user.folder / "sites" / "toy.yaml"
    site.write_text(site.read_text().replace("pbatch", "pdeep"))
    done = user.hpcdist("submit", write(user))
    assert (done.returncode, user.submitted()) == (5, 0)
    assert "Flux refused the job: flux-batch: ERROR: Invalid queue 'pdeep'" in done.stderr
    assert "`flux queue list` shows the queues" in done.stderr


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (
            {"walltime": "11m"},
            "requested duration (660s) exceeds policy limit of 10m for queue pdebug; `flux",
        ),
        ({"walltime": "5m"}, "requested nnodes (2) exceeds policy limit of 1 for queue pdebug; `flux queue"),
    ],
)
def test_limits_of_queues(user: User, batch: Mapping[str, Any], said: str) -> None:
    site = user.folder / "sites" / "toy.yaml"
    site.write_text(site.read_text().replace("pbatch", "pdebug"))
    done = user.hpcdist("submit", write(user, batch=batch))
    assert (done.returncode, user.submitted(), said in done.stderr) == (5, 0, True), done.stderr


@pytest.mark.extended
def test_a_job_that_flux_has_forgotten_is_not_called_over(user: User) -> None:
    assert user.hpcdist("submit", write(user, "exit 0")).returncode == 0
    while "COMPLETED" not in user.run("flux", "jobs", "-a", "--json").stdout:
        pass
    (record,) = (user.flux_folder / "jobs").glob("*.json")
    record.unlink()
    (user.folder / "runs" / "exp-1" / "events").unlink()
    done = user.hpcdist("cancel", "exp-1")
    job = user.status("exp-1")["job_id"]
    told = f"error: the state of {job} (exp-1) is unknown: flux does not list it, and flux-cancel: ERROR: "
    hint = "a job that was just submitted may not be listed yet: cancel it again in a minute"
    assert (done.returncode, done.stderr) == (5, f"{told}{job}: unknown job id; {hint}\n")


@pytest.mark.extended
def test_an_answer_that_was_lost_leads_to_no_second_job(user: User) -> None:
    done = user.hpcdist("submit", write(user, "sleep 60"), env={"FAKE_FLUX_SILENCE": "1"})
    assert (done.returncode, user.submitted()) == (0, 1)
    assert re.search("exp-1: job f[1-9A-Za-z]+ on site toy", done.stdout)
    assert user.hpcdist("cancel", "exp-1").returncode == 0
    user.hpcdist("wait", "exp-1")


@pytest.mark.extended
def test_a_job_waits_for_another(user: User) -> None:
    (user.flux_folder / "hold").touch()
    first = user.hpcdist("submit", write(user)).stdout.split()[2]
    number = user.run("flux", "job", "id", "--to=dec", first).stdout.strip()
    done = user.hpcdist("submit", "exp.yml", "--set", f"batch.dependency=afterany:{number}")
    assert done.returncode == 0, done.stderr
    assert user.status("exp-2")["state"] == "pending"
    (user.flux_folder / "hold").unlink()
    assert user.hpcdist("wait", "exp-1", "exp-2").returncode == 0


def test_the_script_runs_by_hand(user: User) -> None:
    script = user.hpcdist("render", write(user)).stdout
    (user.folder / "job.sh").write_text(script)
    job = user.run("flux", "batch", "job.sh").stdout.strip()
    assert job.startswith("\u0192")
    plain = f"f{job[1:]}"
    log = user.folder / f"exp-{job}.out"
    while "COMPLETED" not in user.run("flux", "jobs", "--json", plain).stdout:
        pass
    assert len(re.findall(r"probe \d", log.read_text())) == 4


def test_without_flux_the_script_is_still_rendered(user: User) -> None:
    (user.folder / "bin" / "flux").unlink()
    done = user.hpcdist("submit", write(user))
    assert (done.returncode, "there is no `flux` on this machine" in done.stderr) == (5, True)
    assert user.hpcdist("render", "exp.yml").stdout.startswith("#!/bin/bash\n#flux: --output=")
    assert user.hpcdist("check", "exp.yml", "--site", "toy").returncode == 0


SCRIPTS = {
    "ok.sh": "true",
    "d1.sh": "#flux: --colour\ntrue",
    "d2.sh": "#flux: -n1\ntrue\n#flux: -N1",
    "d4.sh": '#flux: --job-name="a\ntrue',
    "d5.sh": "#flux: --cores-per-task=2\ntrue",
    "d6.sh": "#flux: -n1\ntrue\n#flux: -N1",
    "d7.sh": "#flux: word\ntrue",
}
"""Scripts about which a real Flux has said what is recorded."""

OTHERWISE = ("host:n9", "a&&&b", "--urgency=99", "-nxx", "f123", "xyz", "-n-1", "afternotok")
"""Requests that hpcdist never makes, and the stand-in does not know."""


@pytest.mark.extended
def test_the_stand_in_refuses_as_flux_did(user: User) -> None:
    for name, text in SCRIPTS.items():
        (user.folder / name).write_text(f"#!/bin/sh\n{text}\n")
    number = user.run("flux", "job", "id", "--to=dec", "fBSmuzWv3").stdout.strip()
    record = {"id": int(number), "state": "INACTIVE", "result": "FAILED"}
    (user.flux_folder / "jobs" / f"{number}.json").write_text(json.dumps(record))
    seen = 0
    for done in recorded("refusals.txt"):
        words = done.command.argv
        asked = words[:2] == ("flux", "batch") and words[-1] in SCRIPTS
        if done.ok or not asked or any(part in " ".join(words) for part in OTHERWISE):
            continue
        found = user.run(*words)
        # Two forms of one sentence of argparse; lines that explain come after it.
        assert (found.returncode, told(found.stderr)) == (done.returncode, told(done.stderr)), words
        seen += 1
    assert seen > 12


def told(stderr: str) -> list[str]:
    """Return the lines that say what is wrong, with jobs and flags as one word."""
    lines = [line for line in stderr.splitlines() if "rror: " in line or "ERROR: " in line]
    return [re.sub("unrecognized arguments: .*", "unrecognized arguments", line) for line in lines]
