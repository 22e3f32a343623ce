"""Who failed first, by what launchers print."""

from __future__ import annotations

import pytest
from supervisor.causes import MEMORY, Cause, Watcher

SRUN = """\
srun: error: n2: task 5: Exited with exit code 7
srun: launch/slurm: _step_signal: Terminating StepId=5.0
0: slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-12-01T01:00:00 ***
srun: error: n1: tasks 0-3: Terminated
"""
MPIRUN = """\
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[24301,1],3]
  Exit code:    5
--------------------------------------------------------------------------
"""
PRTERUN = """\
   Process name: [prterun-n1-4711@1,2]
   Exit code:    5
"""
PRTERUN_SIGNAL = """\
prterun noticed that process rank 2 with PID 4715 on node n2 exited on signal 11 (Segmentation fault).
"""
HOROVODRUN = """\
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job \
to be terminated. The first process to do so was:
Process name: 1
Exit code:    3
"""
FLUX_TASK = """\
3: hpcdist: rank 3 on pc76 failed, with exit code 7
2: hpcdist: rank 2 on pc76 failed, with exit code 1
0.037s: flux-shell[0]: FATAL: task-exit: foo.sh: task rank 3 on host pc76 failed and exit-on-error is set
flux-job: task(s) exited with exit code 143
"""
FLUX = """\
0.037s: flux-shell[0]: FATAL: task-exit: foo.sh: task rank 1 on host pc76 failed and exit-on-error is set
0.038s: job.exception type=exec severity=0 foo.sh: task rank 1 on host pc76 failed and exit-on-error is set
flux-job: task(s) exited with exit code 4
"""
INTEL = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 1 PID 4242 RUNNING AT n2
=   KILL SIGNAL: 9 (Killed)
===================================================================================
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SRUN, Cause(5, "n2", 7)),
        ("srun: error: n2: task 5: Segmentation fault (core dumped)\n", Cause(5, "n2", 139)),
        ("srun: error: n2: tasks 4-7: Out Of Memory\n", Cause(4, "n2", 137, MEMORY.format(137))),
        (MPIRUN, Cause(3, "", 5)),
        (PRTERUN, Cause(2, "", 5)),
        (PRTERUN_SIGNAL, Cause(2, "n2", 139)),
        (HOROVODRUN, Cause(1, "", 3)),
        (FLUX, Cause(1, "pc76", 4)),
        (FLUX_TASK, Cause(3, "pc76", 7)),
        (INTEL, Cause(1, "n2", 137)),
        ("x1000c0s0b0n0: rank 3 died from signal 9\n", Cause(3, "x1000c0s0b0n0", 137)),
        ("3: hpcdist: rank 3 on n2: it sees 0 GPUs\n", Cause(3, "n2", 86, "it sees 0 GPUs", is_told=True)),
        ("n2: task 5 printed: srun: error: n2: task 5: Exited with exit code 7\n", None),
        ("srun: error: n2: task 5: Exited with exit code 0\n", None),
    ],
)
def test_the_first_failure_is_read(text: str, cause: Cause | None) -> None:
    watcher = Watcher({})
    for line in text.splitlines():
        watcher.line(line.encode())
    assert watcher.of(1) == cause
    assert watcher.of(0) is None


def test_a_task_of_the_step_of_its_role_has_the_rank_of_the_job() -> None:
    watcher = Watcher({"master": 0, "worker": 1})
    watcher.line(b"srun: error: n1: task 1: Exited with exit code 5\n")
    watcher.line(b"hpcdist: a task of worker was the first to fail, with exit code 5\n")
    assert watcher.of(5) == Cause(2, "n1", 5)


def test_a_kill_for_lack_of_memory_is_told_as_such() -> None:
    watcher = Watcher({})
    watcher.line(b"srun: error: n1: task 0: Killed")
    watcher.line(
        b"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. "
        b"Some of the step tasks have been OOM Killed."
    )
    assert str(watcher.of(137)) == f"rank 0 on n1: {MEMORY.format(137)}"


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (Cause(5, "n2", 7), "rank 5 on n2 was the first to fail, with exit code 7"),
        (Cause(5, "n2", 139), "rank 5 on n2 was the first to end, killed by signal SEGV"),
        (Cause(None, "", 143), "rank ? on ? was the first to end, killed by signal TERM"),
    ],
)
def test_a_cause_is_a_sentence(cause: Cause, text: str) -> None:
    assert str(cause) == text
