"""The modules of Python that a script brings to the programs of its job."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders
from hpcdist.script.renderer import MODULES, render
from tests.plans import planned
from tests.script.jobs import BASH, ONE_PROCESS, started

CODE = 'import hpcdist_tracking, os; print(hpcdist_tracking.__file__, os.environ["PYTHONPATH"])'
PRINT = f"{sys.executable} -c {shlex.quote(CODE)}"


def output(folder: Path, cmd: str, **environment: str) -> str:
    with started(folder, run={"cmd": cmd}, environ=environment) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 0, out
    return "".join(line for line in out.splitlines(keepends=True) if not line.startswith("hpcdist: "))


def script(folder: Path, cmd: str) -> None:
    text = render(planned(ONE_PROCESS, run={"cmd": cmd}), run_dir=str(folder / "run"))
    (folder / "job.sh").write_text(text)


def test_a_program_finds_them_behind_its_own(tmp_path: Path) -> None:
    place = tmp_path / "run" / "python"
    assert output(tmp_path, PRINT) == f"{place}/hpcdist_tracking.py {place}\n"
    assert output(tmp_path, PRINT, PYTHONPATH="/a:/b") == f"{place}/hpcdist_tracking.py /a:/b:{place}\n"
    own = tmp_path / "hpcdist_tracking.py"
    own.write_text("")
    assert output(tmp_path, PRINT, PYTHONPATH=str(tmp_path)).startswith(f"{own} ")


def test_each_is_written_as_it_is_shipped_and_again_if_it_was_cut_short(tmp_path: Path) -> None:
    [*_, shipped] = template_folders({})
    for content in ("", "cut short"):
        for name in MODULES:
            place = tmp_path / "run" / "python" / f"{name}.py"
            if content:
                place.write_text(content)
            output(tmp_path, "true")
            assert place.read_text() == (shipped / "python" / f"{name}.py").read_text()


def test_one_that_is_being_written_is_replaced_and_never_written_to(tmp_path: Path) -> None:
    [*_, shipped] = template_folders({})
    place = tmp_path / "run" / "python" / "hpcdist_tracking.py"
    place.parent.mkdir(parents=True)
    text = (shipped / "python" / place.name).read_text()
    place.write_text(text[:1000])
    with place.open() as half:
        output(tmp_path, "true")
        assert (half.read(), place.read_text()) == (text[:1000], text)
    number = place.stat().st_ino
    output(tmp_path, "true")
    assert place.stat().st_ino == number


@pytest.mark.extended
def test_each_of_many_jobs_in_one_directory_finds_whole_ones(tmp_path: Path) -> None:
    code = f"import {', '.join(MODULES)}; print('whole')"
    script(tmp_path, f"{sys.executable} -B -c {shlex.quote(code)}")
    with contextlib.ExitStack() as stack:
        jobs = [
            stack.enter_context(
                subprocess.Popen([BASH, "job.sh"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(6)
        ]
        assert [job.communicate(timeout=120)[0].splitlines()[-1] for job in jobs] == ["whole"] * 6


def test_a_first_start_calls_no_program_but_mkdir_and_its_own(tmp_path: Path) -> None:
    """Each would cost every job some milliseconds."""
    (tmp_path / "bin").mkdir()
    for name in ("bash", "mkdir"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    words = (BASH, "-c", f"export PATH={shlex.quote(str(tmp_path / 'bin'))}; . ./job.sh")
    script(tmp_path, "echo ran")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[1:], done.stderr) == (0, ["ran"], "")


def test_an_experiments_own_pythonpath_comes_first(tmp_path: Path) -> None:
    with started(
        tmp_path, run={"cmd": "echo $PYTHONPATH"}, environment={"env_vars": {"PYTHONPATH": "/own"}}
    ) as job:
        out, _ = job.communicate(timeout=60)
    assert out.splitlines()[1:] == [f"/own:{tmp_path}/run/python"]


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
    assert {path.name: path.read_text() for path in folder.glob("nodes*")} == {
        "nodes": "localhost\n",
        "nodes.0": "localhost\n",
    }


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
