"""The modules of Python that a run brings to the programs of its jobs, and what their environment has."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.script.jobs import started

CODE = 'import hpcdist_tracking, os; print(hpcdist_tracking.__file__, os.environ["PYTHONPATH"])'
PRINT = f"{sys.executable} -c {shlex.quote(CODE)}"


def output(folder: Path, cmd: str, **environment: str) -> str:
    with started(folder, run={"cmd": cmd}, environ=environment) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 0, out
    return "".join(line for line in out.splitlines(keepends=True) if not line.startswith("hpcdist: "))


def test_a_program_finds_them_behind_its_own(tmp_path: Path) -> None:
    place = tmp_path / "run/runtime/python"
    assert output(tmp_path, PRINT) == f"{place}/hpcdist_tracking.py {place}\n"
    assert output(tmp_path, PRINT, PYTHONPATH="/a:/b") == f"{place}/hpcdist_tracking.py /a:/b:{place}\n"
    own = tmp_path / "hpcdist_tracking.py"
    own.write_text("")
    assert output(tmp_path, PRINT, PYTHONPATH=str(tmp_path)).startswith(f"{own} ")


def test_an_experiments_own_pythonpath_comes_first(tmp_path: Path) -> None:
    with started(
        tmp_path, run={"cmd": "echo $PYTHONPATH"}, environment={"env_vars": {"PYTHONPATH": "/own"}}
    ) as job:
        out, _ = job.communicate(timeout=60)
    assert out.splitlines()[1:] == [f"/own:{tmp_path}/run/runtime/python"]


@pytest.mark.parametrize("restarts", [0, 1])
def test_each_attempt_records_in_a_folder_of_its_own(tmp_path: Path, restarts: int) -> None:
    cmd = "echo $HPCDIST_TRACKING; exit 3"
    with started(tmp_path, run={"cmd": cmd}, environment={"max_restarts": restarts}) as job:
        out, _ = job.communicate(timeout=60)
    folders = [line for line in out.splitlines() if line.startswith("/")]
    assert [folder.rpartition("/")[2] for folder in folders] == [
        f"0.{number}" for number in range(restarts + 1)
    ]
    assert {Path(folder).parents[1] for folder in folders} == {tmp_path / "run" / "tracking"}


def test_each_restart_is_an_event_and_each_start_keeps_its_nodes(tmp_path: Path) -> None:
    with started(tmp_path, run={"cmd": "exit 3"}, environment={"max_restarts": 2}) as job:
        job.communicate(timeout=60)
    lines = (tmp_path / "run" / "events").read_text().splitlines()
    words = [(what, value) for what, _, _, value in map(str.split, lines)]
    assert words == [("started", "0"), ("restarted", "3"), ("restarted", "3"), ("ended", "3")]
    [folder] = (tmp_path / "run" / "jobs").iterdir()
    names = ("nodes", "nodes.0", "nodes.0.1", "nodes.0.2")
    found = {path.name: path.read_text() for path in folder.glob("nodes*")}
    assert found == dict.fromkeys(names, "localhost\n")


CLIENT = "echo $POLYAXON_IS_OFFLINE $POLYAXON_IS_MANAGED ${POLYAXON_OFFLINE_ROOT##*/} $POLYAXON_RUN_INSTANCE"


def test_polyaxons_client_records_in_a_folder_of_each_rank(tmp_path: Path) -> None:
    replicas = {"replicas": {"n_workers": 1}}
    with started(
        tmp_path, framework="pytorch", pytorch={"launch": "env"}, environment=replicas, run={"cmd": CLIENT}
    ) as job:
        out, _ = job.communicate(timeout=60)
    [number] = (path.name for path in (tmp_path / "run" / "jobs").iterdir())
    run = f"hpcdist.hpcdist.runs.{number:0>32}"
    assert sorted(out.splitlines()[1:]) == [f"{rank}: true true polyaxon-{rank} {run}" for rank in range(2)]


def test_polyaxons_own_server_is_left_to_who_has_one(tmp_path: Path) -> None:
    assert output(tmp_path, CLIENT, POLYAXON_HOST="https://polyaxon.example.com") == "\n"
