"""Steps beside the command: before it, after it and while it runs, by the scripts and a real bash."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from hpcdist.script.explained import lines
from tests.plans import changed, planned
from tests.script.jobs import ONE_PROCESS, started


def run(folder: Path, **data: Any) -> tuple[int, list[str]]:
    """Return a job's exit code, and what it prints but for the greeting."""
    machine = changed(ONE_PROCESS, node_local=str(folder / "local"))
    with started(folder, machine=machine, **data) as job:
        out, _ = job.communicate(timeout=60)
    return job.returncode, [line for line in out.splitlines() if not line.startswith("hpcdist: experiment: ")]


def test_a_step_before_and_one_after(tmp_path: Path) -> None:
    section = {
        "cmd": "echo program",
        "prepare": {"cmd": ["A=1; B=2", "echo before $HPCDIST_NODE $X $A"], "per": "node"},
        "finish": {"cmd": "echo after $HPCDIST_EXIT_CODE $X"},
    }
    code, said = run(tmp_path, run=section, environment={"env_vars": {"X": "it's $5"}})
    assert (code, said) == (0, ["before 0 it's $5 1", "program", "after 0 it's $5"])


@pytest.mark.parametrize(
    ("section", "code", "said"),
    [
        ({"cmd": "exit 3", "finish": {"cmd": "echo after $HPCDIST_EXIT_CODE"}}, 3, ["after 3"]),
        (
            {"cmd": "true", "finish": {"cmd": "exit 4"}},
            4,
            ["hpcdist: a step after the program failed, with exit code 4"],
        ),
        (
            {
                "cmd": "echo program",
                "prepare": {"cmd": "exit 5"},
                "finish": {"cmd": "echo after $HPCDIST_EXIT_CODE"},
            },
            86,
            [
                (
                    "hpcdist: a step before the program failed (exit code 5), so that it does not run; its "
                    "messages are above"
                ),
                "after 86",
            ],
        ),
    ],
)
def test_a_failure_is_the_jobs(tmp_path: Path, section: dict[str, Any], code: int, said: list[str]) -> None:
    found, printed = run(tmp_path, run=section)
    assert (found, [line for line in printed if not line.startswith("hpcdist: rank")]) == (code, said)


def test_a_program_beside_the_tasks_ends_with_them(tmp_path: Path) -> None:
    ready = "until [[ -e ready ]]; do sleep 0.1; done; echo program"
    server = "trap 'echo ended; exit' TERM; echo serving; touch ready; for ((;;)); do sleep 0.2; done"
    begun = time.monotonic()
    code, said = run(tmp_path, run={"cmd": ready, "beside": [{"cmd": server, "on": "each_node"}]})
    assert (code, said) == (0, ["program"])
    served = (tmp_path / "run/logs/job.beside-0.out").read_text().splitlines()
    assert (served[0], served[-1]) == ("serving", "ended")
    assert time.monotonic() - begun < 30


def test_a_program_beside_the_tasks_that_ends_at_once_is_reported(tmp_path: Path) -> None:
    cmd = "until grep -q gone run/logs/job.beside-0.out; do sleep 0.1; done; sleep 1"
    code, said = run(tmp_path, run={"cmd": cmd, "beside": [{"cmd": "echo gone; exit 7", "on": "each_node"}]})
    log = tmp_path / "run/logs/job.beside-0.out"
    assert (code, said) == (
        0,
        [f"hpcdist: a program beside the tasks ended with exit code 7; its output is in {log}"],
    )


def test_steps_are_explained() -> None:
    plan = planned(run={"cmd": "x", "prepare": {"cmd": "y", "per": "node"}, "finish": {"cmd": "z"}})
    found = [(text, str(origin)) for section, text, origin in lines(plan) if section == "steps"]
    assert found == [("before (node): y", "exp.yml run.prepare"), ("after (job): z", "exp.yml run.finish")]


def test_data_is_on_each_node_and_removed(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x").write_text("data\n")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a b" / "x", "inner/x")
    stage = [
        {"from": "a b"},
        {"from": str(tmp_path / "x.tar.gz"), "unpack": True},
        {"from": "x.tar.gz", "to": str(tmp_path / "kept")},
    ]
    cmd = 'cd "$HPCDIST_STAGE" && cat "a b/x" inner/x && ls'
    code, said = run(tmp_path, run={"cmd": cmd}, stage=stage)
    assert (code, said) == (0, ["data", "data", "a b", "inner"])
    assert list((tmp_path / "local").iterdir()) == []
    assert (tmp_path / "kept" / "x.tar.gz").exists()


def test_data_is_not_lost_where_it_lies_in_that_folder_already(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(__file__, "inner")
    size = (tmp_path / "x.tar").stat().st_size
    stage = [{"from": "x.tar", "to": str(tmp_path), "unpack": unpack} for unpack in (True, False)]
    code, _ = run(tmp_path, run={"cmd": "ls inner"}, stage=stage)
    assert (code, (tmp_path / "x.tar").stat().st_size) == (0, size)


def test_data_that_is_missing_ends_the_job_before_the_program(tmp_path: Path) -> None:
    code, said = run(tmp_path, run={"cmd": "echo program"}, stage=[{"from": "missing"}])
    assert code == 86
    assert "program" not in said


def test_replicas_have_commands_of_their_own(tmp_path: Path) -> None:
    replicas = {
        "n_workers": 3,
        "default_worker": {"cmd": "echo worker $HPCDIST_INDEX"},
        "worker": [{"index": 1, "cmd": ["X=1", "echo serving $X"]}],
    }
    section = {
        "framework": "tensorflow",
        "environment": {"replicas": replicas},
        "run": {"cmd": "echo master"},
    }
    code, said = run(tmp_path, **section)
    assert (code, sorted(said)) == (0, ["0: master", "1: worker 0", "2: serving 1", "3: worker 2"])
