"""``hpcdist rm``: real jobs on this machine, and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from hpcdist.schedulers.job import JobState, Status
from tests.wording import Wording

from .conftest import Hpcdist, argv

MODEL = "from hpcdist_tracking import log_model; open('m', 'w').write('x'); log_model('m')"


def ended(runs: Path, name: str, created: str = "2026-01-01T00:00:00+00:00") -> Path:
    """Make a run whose job has ended."""
    directory = rundir.create(runs, name)
    status = Status(JobState.COMPLETED, exit_code=0)
    rundir.save(
        directory, Record(name, "t", "local", "local", "d", created, Phase.SUBMITTED, "1", ended=status)
    )
    return directory.path


def end(real: Hpcdist) -> None:
    real("cancel", "ranks-2")
    real("wait", "ranks-2")


def test_rm(real: Hpcdist, folder: Path) -> None:
    real("submit", "ranks.yml", "--wait")
    real("submit", "ranks.yml", "--set", "run.cmd=exec sleep 60")
    size = sum(path.stat().st_size for path in (folder / "runs" / "ranks-1").rglob("*") if path.is_file())
    done = real("rm", "ranks-1", "ranks-2", "none", "--force", "--json")
    assert done.code == 2
    assert json.loads(done.out) == [
        {
            "name": "ranks-1",
            "directory": f"{folder}/runs/ranks-1",
            "removed": True,
            "bytes": size,
            "reason": "",
        },
        {
            "name": "ranks-2",
            "directory": f"{folder}/runs/ranks-2",
            "removed": False,
            "bytes": 0,
            "reason": "ranks-2 is running; `hpcdist cancel ranks-2` ends its job",
        },
    ]
    assert done.err.splitlines()[-1] == "error: ranks-2 is running; `hpcdist cancel ranks-2` ends its job"
    end(real)
    done = real("rm", "ranks-2")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("ranks-2: removed, ")
    assert [path.name for path in (folder / "runs").iterdir() if path.is_dir()] == []


def test_old_runs_need_a_yes(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    old = ended(folder / "runs", "old")
    shown = hpcdist("rm", "--older", "30d")
    assert shown.code == 2
    wording(shown.err)
    assert [line.split()[0] for line in shown.out.splitlines()] == ["run", "old-1"]
    for words in (("--older", "30d", "--json"), (), ("old-1", "--older", "30d")):
        assert hpcdist("rm", *words).code == 2
    assert old.exists()


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_rm_of_old_runs_asks_on_a_terminal(folder: Path, answer: str, left: int) -> None:
    old = ended(folder / "runs", "old")
    terminal, stdin = pty.openpty()
    os.write(terminal, answer.encode())
    words = argv(["rm", "--older", "30d"])
    done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, timeout=60, check=False)
    os.close(terminal)
    os.close(stdin)
    assert (done.returncode, old.exists()) == (0, bool(left)), done.stderr
    assert "Remove 1 run? [y/N]" in done.stderr
    assert ("removed 1 run, " in done.stdout) is (left == 0)


def test_rm_removes_what_is_old_enough(hpcdist: Hpcdist, folder: Path) -> None:
    runs = folder / "runs"
    old, used = ended(runs, "old"), ended(runs, "used")
    new = ended(runs, "new", rundir.timestamp(time.time() - 3600))
    (used / "events").write_text(f"ended 1 {time.time():.0f} 0\n")
    (runs / ".removed-01").mkdir()
    shown = hpcdist("rm", "--older", "2h", "--yes")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[2].startswith("removed 1 run, ")
    assert sorted(path.name for path in runs.iterdir()) == ["new-1", "used-1"]
    assert not old.exists()
    assert new.exists()
    assert hpcdist("rm", "--older", "2h", "--yes").err == f"note: no runs to remove in {runs}\n"
    assert json.loads(hpcdist("rm", "--older", "2h", "--yes", "--json").out) == []


def test_rm_of_old_runs_keeps_models_and_live_jobs(real: Hpcdist, folder: Path) -> None:
    real("submit", "ranks.yml", "--wait", "--set", f'run.cmd={sys.executable} -c "{MODEL}"')
    real("submit", "ranks.yml", "--set", "run.cmd=exec sleep 60")
    damaged = ended(folder / "runs", "damaged") / "tracking" / "1" / "0.0"
    damaged.mkdir(parents=True)
    (damaged / "rank-0.host.1.jsonl").write_text("{what\n")
    shown = real("rm", "--older", "2100-01-01", "--yes")
    assert (shown.code, shown.out) == (0, "")
    assert sorted(shown.err.splitlines()) == [
        "note: kept: damaged-1 has damaged records, which may be of a model; --models removes it, too",
        "note: kept: ranks-1 recorded a model; --models removes it, too",
        "note: kept: ranks-2 is running; `hpcdist cancel ranks-2` ends its job",
        f"note: no runs to remove in {folder}/runs",
    ]
    shown = real("rm", "--older", "2100-01-01", "--yes", "--models", "--json")
    found = {one["name"]: one["removed"] for one in json.loads(shown.out)}
    assert found == {"ranks-1": True, "damaged-1": True, "ranks-2": False}
    end(real)


@pytest.mark.parametrize("older", ["soon", "-3d", "30", "0d"])
def test_a_time_that_is_none(hpcdist: Hpcdist, older: str, wording: Wording) -> None:
    shown = hpcdist("rm", f"--older={older}")
    assert shown.code == 2
    wording(shown.err)
