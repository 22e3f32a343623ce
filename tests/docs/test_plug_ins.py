"""What the how-to guides add works as it stands there: a site, a launcher, an importer, a scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import main
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Scheduler
from tests.docs.pages import block, keeps_block
from tests.plug_in import plugged_in

PROGRAM = """\
#!/bin/bash
# plaunch -n COUNT --hosts FILE COMMAND...: on this host alone; it ends as a task that failed.
count=$2 code=0
for ((rank = 0; rank < count; rank++)); do
  PL_RANK=$rank PL_SIZE=$count PL_LOCAL_RANK=$rank "${@:5}" &
  pids[rank]=$!
done
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit "$code"
"""
QUEUE = """\
#!/bin/bash
# qq submit --tag TAG --log LOG FILE | list | end ID...: a queue that starts every job at once.
cd "${0%/*}" || exit
case $1 in
submit)
  id=$(($(cat qq.jobs 2>/dev/null | wc -l) + 1))
  echo "$id $3" >>qq.jobs
  { QQ_ID=$id bash "$6" >"$5" 2>&1 </dev/null && echo done || echo bad; } >"qq.$id" 2>/dev/null &
  echo "$id"
  ;;
list)
  while read -r id tag; do
    state=$(cat "qq.$id")
    echo "$id $tag ${state:-runs}"
  done <qq.jobs
  ;;
esac
"""
FILES = {"job/qq.sh.j2": "scheduler template", "runtime/supervisor/qq.py": "scheduler inside"}
"""What a scheduler has in its template directory, and the blocks of the page."""

TASKS = """\
framework: pytorch
environment: {replicas: {n_workers: 2}}
run: {cmd: 'echo "rank $RANK of $WORLD_SIZE"'}
batch: {site: local, launcher: plaunch}
"""


def said(*words: str) -> str:
    done = CliRunner().invoke(main, words, prog_name="hpcdist")
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_site(folder: Path) -> None:
    (folder / "mycluster.yaml").write_text(block("site"))
    (folder / "resnet.yml").write_text(block("experiment"))
    said("sites", "check", "./mycluster.yaml")
    settings = ("--set=batch={walltime: 1h}", "--site=./mycluster.yaml")
    assert "8 tasks by srun, 4 nodes, 8 GPUs" in said("plan", "resnet.yml", *settings)


def test_a_launcher(folder: Path) -> None:
    (folder / "plaunch").write_text(PROGRAM)
    (folder / "plaunch").chmod(0o755)
    (folder / "tasks.yml").write_text(TASKS)
    with plugged_in(folder / "own", "launcher", "plaunch", block("launcher")):
        assert isinstance(launchers.get("plaunch"), Launcher)
        assert launchers.names()[-1] == "plaunch"
        (line,) = (line for line in said("render", "tasks.yml").splitlines() if "exec plaunch" in line)
        task = 'bash -c "$(declare -f task); task \\"\\$1\\"" task "$commands"'
        assert line == f'exec plaunch -n 3 --hosts "$HPCDIST_HOSTFILE" {task}'
        wrote = ran(folder, "submit", "tasks.yml", "--follow", own="own").splitlines()
    assert {f"{rank}: rank {rank} of 3" for rank in range(3)} <= {*wrote}


def test_an_importer(folder: Path) -> None:
    (folder / "toy.yml").write_text(block("foreign"))
    with plugged_in(folder / "own", "importer", "toytrain", block("importer")):
        done = CliRunner().invoke(main, ["import", "toy.yml"])
        keeps_block("imported", done.stdout)
        why = "the batch system has its own; choose it by `batch.partition`"
        said = f"toy.yml:4:8: queue: queue has no effect on a batch machine: {why}"
        assert (done.exit_code, done.stderr) == (0, f"warning: {said}\n")
        (folder / "toy.yml").write_text("tool: toytrain\nprocesses: many\ncolour: red\n")
        done = CliRunner().invoke(main, ["check", "toy.yml"])
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "error: toy.yml:1:1: 'run' is missing; write `run: {cmd: ...}`",
        "error: toy.yml:2:12: processes: expected a number of processes; write 1 or more",
        "error: toy.yml:3:1: colour: unknown key 'colour'; remove it",
    ]


def test_a_scheduler(folder: Path) -> None:
    with plugged_in(folder, "scheduler", "qq", block("scheduler")):
        assert isinstance(schedulers.get("qq"), Scheduler)
        exec(block("contract"), {})  # noqa: S102 - the page's own words
        with pytest.raises(AssertionError, match="'done' was read as completed, not running"):
            exec(block("contract").replace("STATES,", '{"done": STATES["runs"]},'), {})  # noqa: S102


def test_a_scheduler_runs_jobs_by_a_launcher_that_names_it(folder: Path) -> None:
    for name, text in {"plaunch": PROGRAM, "qq": QUEUE}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "here.yaml").write_text(block("qq site"))
    (folder / "tasks.yml").write_text(
        TASKS.replace("{site: local, launcher: plaunch}", "{site: ./here.yaml}")
    )
    with (
        plugged_in(folder / "one", "scheduler", "qq", block("scheduler")),
        plugged_in(folder / "two", "launcher", "plaunch", block("launcher")),
    ):
        for file, name in FILES.items():
            (folder / file).parent.mkdir(parents=True)
            (folder / file).write_text(block(name))
        submitted = ran(folder, "submit", "tasks.yml", "--wait", own="one:two")
        wrote = ran(folder, "logs", "tasks-1", own="one:two").splitlines()
        ran(folder, "submit", "tasks.yml", "--wait", "--set", "run.cmd=exit 7", own="one:two", code=7)
        told = json.loads(ran(folder, "status", "tasks-1", "tasks-2", "--json", own="one:two"))
    assert submitted.startswith("tasks-1: job 1 on site here, 3 tasks by plaunch, 1 node\n")
    assert {f"{rank}: rank {rank} of 3" for rank in range(3)} <= {*wrote}
    assert [(status["state"], status["exit_code"]) for status in told] == [("completed", 0), ("failed", 7)]


def ran(folder: Path, *words: str, own: str, code: int = 0) -> str:
    """Run hpcdist in a process of its own, with these plug-ins; programs and templates lie here."""
    python = os.pathsep.join(str(folder / name) for name in own.split(":"))
    path = f"{folder}:{os.environ['PATH']}"
    own_places = {"PATH": path, "PYTHONPATH": python, "HPCDIST_TEMPLATE_PATH": str(folder)}
    environment = os.environ | own_places
    argv = [sys.executable, "-m", "hpcdist", *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
