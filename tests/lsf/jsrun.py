"""A stand-in for jsrun: every line goes through the strict checker, and its tasks are really started."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType

from hpcdist.base.words import join
from tests.layers.launchers.jsrun_checker import Step, check
from tests.layers.launchers.jsrun_erf import Machine, Placed, RefusedError
from tests.lsf import state
from tests.lsf.hosts import send, start
from tests.lsf.state import Config, complain


def main(argv: list[str]) -> int:
    """Start the tasks, wait for them, end the others when one fails; return its exit code."""
    settings = state.config()
    machine = machine_of(settings)
    try:
        step = check(["jsrun", *argv], machine, os.environ, lambda path: Path(path).read_text())
    except RefusedError as error:
        complain(error)
        return 1
    with (state.folder() / "jsrun.log").open("a") as log:
        log.write(join(["jsrun", *argv]) + "\n")
    with tempfile.TemporaryDirectory(dir=state.folder()) as folder:
        return run(step, machine, settings, Path(folder))


def machine_of(settings: Config) -> Machine:
    """Return the compute hosts of this job, in jsrun's order."""
    hosts = os.environ.get("LSB_MCPU_HOSTS", "").split()[::2]
    hosts = hosts[1:] if settings.launch_host else hosts
    return Machine(
        tuple(reversed(hosts) if settings.backwards else hosts), gpus=settings.gpus, cores=settings.slots
    )


def run(step: Step, machine: Machine, settings: Config, folder: Path) -> int:
    command = "exec " + join(step.program)
    files = [folder / f"{task.rank}.pid" for task in step.tasks]
    processes = [
        start(settings, task.host, command, variables(task, step, machine), file)
        for task, file in zip(step.tasks, files, strict=True)
    ]

    def tell(number: int, _: FrameType | None = None) -> None:
        for task, file, process in zip(step.tasks, files, processes, strict=True):
            if process.poll() is None:
                send(settings, task.host, signal.Signals(number), file)

    # bkill's first signal is INT, to all processes of the job.
    signal.signal(signal.SIGINT, lambda _number, _frame: tell(signal.SIGTERM))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, tell)
    first = 0
    while any(process.poll() is None for process in processes):
        failed = [code for process in processes if (code := process.poll())]
        if failed and not first:
            first = failed[0]
            tell(signal.SIGTERM)
        time.sleep(0.02)
    return first or next((process.returncode for process in processes if process.returncode), 0)


def variables(task: Placed, step: Step, machine: Machine) -> dict[str, str]:
    """Return what a task finds: the whole environment, its rank, and its GPUs, numbered from 0."""
    own = {
        "PWD": str(Path.cwd()),
        "JSM_NAMESPACE_RANK": str(task.rank),
        "JSM_NAMESPACE_SIZE": str(len(step.tasks)),
        "JSM_NAMESPACE_LOCAL_RANK": str(task.local_rank),
        "FAKE_GPUS": ",".join(map(str, task.gpus)),
        "FAKE_CORES": ",".join(map(str, task.cores)),
    }
    threads = {"OMP_NUM_THREADS": str(len(task.cores) * machine.threads)}
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(len(task.gpus))))}
    added = {name: value for name, value in step.variables.items() if value is not None}
    return threads | dict(os.environ) | own | (visible if task.gpus else {}) | added
