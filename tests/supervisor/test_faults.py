"""Tasks that failed, and the processes on the nodes: two of them, on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from supervisor import faults
from supervisor.causes import Cause
from supervisor.job import Job, Row
from supervisor.start import Start

from hpcdist.runs import failures
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.failures import Failure, NodeFaults, Sign, TaskEnd
from hpcdist.runs.rundir import RunDirectory
from tests.processes import holders
from tests.script.jobs import started
from tests.slurm.process import until

HOST = os.uname().nodename
LOST = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system"


def on_nodes(words: Sequence[str]) -> list[list[str]]:
    return [[*words, str(number)] for number in range(2)]


@pytest.fixture(name="start")
def _start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """A start of a job with four tasks on two nodes, which have lost a GPU; nothing of it may be left."""
    for name, text in {"nvidia-smi": f"echo '{LOST}'; exit 15", "dmesg": "true"}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("MARK", str(tmp_path))
    job = Job._make([None] * len(Job._fields))
    job = job._replace(run=str(tmp_path), rows=(Row("worker", 0, 4, 2, 0, 0),))
    start = Start(job._replace(gpus=True, gpu_variable="V", gpu_visibility="task"), "12", "")
    start.nodes, start.restarts, start.tries = ["localhost", "n2"], 2, 1
    (tmp_path / "jobs" / "12").mkdir(parents=True)
    yield start
    until(lambda: not holders("MARK", str(tmp_path)), "the processes on the nodes to end", 3, 0.02)


def test_the_ends_of_tasks(start: Start) -> None:
    causes = [
        Cause(2, "n2", 1),
        Cause(None, "", 7),
        Cause(3, "", 137),
        Cause(0, "", 86, "text"),
        Cause(4, "", 1),
    ]
    found = faults.ends(causes, start, 5.25)
    ends = {0: f"# {HOST}\nend 5.250000 86 0 0\n", 1: "# n2\nend 5.250000 1 2 0\nend 5.250000 137 3 1\n"}
    assert (found, faults.write(start, found)) == (ends, [1, 0])
    start.tries = 2
    Path(start.folder, "faults", "2.2.0").mkdir()
    assert faults.write(start, ends) == [1]


@pytest.mark.parametrize("begun", [True, False])
def test_a_node_adds_what_it_shows(start: Start, *, begun: bool) -> None:
    nodes, began = faults.Nodes(start, on_nodes), time.monotonic()
    while begun and time.monotonic() < began + 1.5:
        nodes.tick()
    nodes.end(faults.write(start, faults.ends([Cause(2, "n2", 1)], start, 5.25)))
    assert time.monotonic() - began < 4
    Path(f"{start.failure}").write_text("1 2 n2\n")
    end = TaskEnd(5.25, 1, 2, 0, "n2")
    found = failures.of_attempt(RunDirectory(Path(start.job.run)), Numbered(1, "12", start.place))
    shown = NodeFaults("n2", (end,), (Sign(LOST, of_hardware=True),))
    assert found == Failure("12", 1, 2, "n2", 1, at=5.25, nodes=(shown,))
    assert sorted(file.name for file in Path(start.folder).rglob("*.2.1*")) == ["failure.2.1", "over.2.1"]


@pytest.mark.parametrize("hangs", [False, True])
def test_an_end_that_is_well_delays_nothing(start: Start, *, hangs: bool) -> None:
    nodes = faults.Nodes(start, lambda words: [["sleep", "1000"]] if hangs else on_nodes(words))
    while not holders("MARK", start.job.run):
        nodes.tick()
    began = time.monotonic()
    nodes.end()
    assert (time.monotonic() - began < 1.2, Path(start.folder, "faults").exists()) == (True, False)


def test_an_attempt_without_nodes_leaves_nothing(start: Start) -> None:
    nodes = faults.Nodes(start, on_nodes)
    nodes.tick()
    nodes.end()
    assert [*Path(start.folder).iterdir()] == []


def test_they_end_with_the_supervisor(start: Start) -> None:
    lines = (
        "import os, time",
        "from supervisor import faults, job, start",
        "plan = job.Job._make([None] * len(job.Job._fields))",
        f"begun = start.Start(plan._replace(run={start.job.run!r}), '12', '')",
        "nodes = faults.Nodes(begun, lambda words: [[*words, '0']])",
        "time.sleep(1)",
        "nodes.tick()",
        "print()",
        "time.sleep(60)",
    )
    words = [sys.executable, "-uc", "\n".join(lines)]
    environ = {**os.environ, "PYTHONPATH": str(Path(faults.__file__).parents[1])}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout
        assert supervisor.stdout.readline() == b"\n"
        until(lambda: len(holders("MARK", start.job.run)) == 2, "both of its processes to be there")
        supervisor.send_signal(signal.SIGKILL)


NVIDIA: Final = "index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"


def job_with_tool(folder: Path, waits: str, gpus: int, usage: int) -> list[list[str]]:
    """Run a job on this node, which has three GPUs; return which of them each of its samples is of."""
    (folder / "bin").mkdir()
    rows = "".join(f"{number}, GPU-{number}, 3, 5, 9\n" for number in range(3))
    (folder / "bin/nvidia-smi").write_text(f"#!/bin/bash\ncat <<'END'\n{NVIDIA}{rows}END\n")
    (folder / "bin/nvidia-smi").chmod(0o755)
    environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0,1"}
    each = {"resources": {"gpu": {"requests": gpus}}}
    job = started(
        folder, environ=environ, framework="pytorch", run={"cmd": f"cd $HPCDIST_JOB_DIR; {waits}; exit 3"},
        environment={**each, "replicas": {"n_workers": 1, "default_worker": each}},
        tracking={"gpu_usage": usage},
    )  # fmt: skip
    out, _ = job.communicate(timeout=60)
    assert (job.returncode, "Killed" in out) == (3, False), out
    files = [file.read_text().splitlines()[1] for file in (folder / "run").glob("jobs/*/gpu_usage/0.0.0")]
    return [[word.split(":")[0] for word in line.split()[4:]] for line in files]


@pytest.mark.parametrize(
    ("waits", "usage", "found"),
    [
        ("until [[ -s gpu_usage/0.0.0 ]]; do sleep 0.1; done", 1, [["0", "1"]]),
        ("until [[ -e over.0.0 ]]; do sleep 0.1; done; sleep 0.5", 0, []),
    ],
)
def test_a_job_with_gpus_has_one_process_on_each_node(
    tmp_path: Path, waits: str, usage: int, found: list[list[str]]
) -> None:
    assert job_with_tool(tmp_path, waits, 1, usage or False) == found


def test_a_job_without_gpus_has_none(tmp_path: Path) -> None:
    assert job_with_tool(tmp_path, "sleep 2; [[ ! -e over.0.0 ]] || exit 4", 0, usage=1) == []
