"""Signals that batch systems send to a job's script, and what its event log says of its end then."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcdist.site.model import Site
from tests.experiments import environment
from tests.plans import changed
from tests.script.jobs import BASH, NO_CHANGE, ONE_PROCESS, started
from tests.sites import shipped_site

READY = "bash -c 'echo ready; exec sleep 20'"
"""One process from its line on: a signal to what a shell has just forked can be lost before its exec."""
AT_LIMITS = ("TERM", "INT", "QUIT", "ALRM", "XCPU", "XFSZ")


def events(folder: Path) -> list[tuple[str, str]]:
    """Return what the event log says, each event with its value."""
    lines = (folder / "run" / "events").read_text().splitlines()
    return [(line.split()[0], line.split()[3]) for line in lines]


def signalled(
    folder: Path,
    name: str,
    machine: Site = ONE_PROCESS,
    environ: Mapping[str, str] = NO_CHANGE,
    **data: Any,
) -> int:
    """Send this signal to the script when its program prints a line; return its exit code."""
    with started(folder, machine, environ, **data) as process:
        assert process.stdout
        while "ready" not in process.stdout.readline():
            pass
        process.send_signal(signal.Signals[f"SIG{name}"])
        process.communicate(timeout=30)
    return process.returncode


@pytest.mark.parametrize("launches", ["tasks", "once"])
@pytest.mark.parametrize("name", AT_LIMITS)
def test_a_job_at_its_limit_is_never_completed_0(tmp_path: Path, name: str, launches: str) -> None:
    data: dict[str, Any] = {"framework": "mpi", "backend": "mpi"} if launches == "once" else {}
    code = signalled(tmp_path, name, run={"cmd": READY}, **data)
    assert (code, events(tmp_path)) == (143, [("started", "0"), ("ended", "143")])


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_exit_code_0_after_term_is_marked_in_the_event_log(tmp_path: Path, name: str) -> None:
    """Else a program that did not finish would count as completed where its job was cancelled."""
    wait = "sleep 20 >/dev/null 2>&1 & wait"
    code = signalled(tmp_path, name, run={"cmd": f"trap 'exit 0' {name}; echo ready; {wait}"})
    assert (code, events(tmp_path)) == (0, [("started", "0"), ("terminated", "0"), ("ended", "0")])


@pytest.mark.extended
@pytest.mark.parametrize("name", ["VTALRM", "PROF", "IO", "PWR"])
def test_a_signal_that_nobody_expects_is_an_unknown_end(tmp_path: Path, name: str) -> None:
    code = signalled(tmp_path, name, run={"cmd": "echo ready; sleep 1"})
    assert code == -signal.Signals[f"SIG{name}"]
    assert events(tmp_path)[1:] in ([], [("ended", "unknown")])


FLUX = """\
#!{bash}
case $1-$2 in
job-id) echo 1 ;;
hostlist-*) uname -n ;;
jobs-*) echo 7 ;;
job-kill) kill -s "${{3#--signal=}}" -- "-$(<group)" ;;
run-*)
  while [[ $1 != bash ]]; do shift; done
  FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1 setsid bash -c 'echo $$ >group; exec "$@"' x "$@"
  ;;
esac
"""


def test_flux_at_the_time_limit(tmp_path: Path) -> None:
    """It sends ALRM, and may have forgotten the job when it is asked how that ended."""
    (tmp_path / "flux").write_text(FLUX.format(bash=BASH))
    (tmp_path / "flux").chmod(0o755)
    machine = changed(shipped_site("flux"), launcher="flux")
    environ = {"FLUX_ENCLOSING_ID": "f1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    code = signalled(tmp_path, "ALRM", machine, environ, run={"cmd": READY})
    assert (code, events(tmp_path)) == (143, [("started", "0"), ("timeout", "0"), ("ended", "143")])


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_the_shell_of_commands_awaits_what_it_runs(tmp_path: Path, name: str) -> None:
    """It starts nothing after TERM, and is not ended by a warning, which is for what it runs."""
    program = f"trap 'echo heard >>said; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
    (tmp_path / "program.sh").write_text(program)
    cmd = "bash program.sh\necho next $? >>said # mpirun"
    code = signalled(tmp_path, name, framework="mpi", backend="mpi", run={"cmd": cmd})
    said = ["heard"] if name == "TERM" else ["heard", "next 9"]
    assert (code, (tmp_path / "said").read_text().splitlines()) == (143 if name == "TERM" else 0, said)


def test_names_of_a_sites_own_functions(tmp_path: Path) -> None:
    names = ("setup", "run", "start", "main", "task", "finish", "forward", "fail", "write_file", "program")
    machine = changed(ONE_PROCESS, setup=tuple(f"{name}() {{ :; }}" for name in names))
    with started(tmp_path, machine, run={"cmd": "touch ran"}) as job:
        job.communicate(timeout=30)
    assert (job.returncode, (tmp_path / "ran").exists()) == (0, True)


@pytest.mark.parametrize("name", [*AT_LIMITS, "HUP"])
def test_a_signal_before_the_program_starts(tmp_path: Path, name: str) -> None:
    machine = changed(ONE_PROCESS, setup=(f"kill -s {name} $PPID; sleep 1",))
    with started(tmp_path, machine, run={"cmd": "touch ran"}) as process:
        process.communicate(timeout=30)
    code = 129 if name == "HUP" else 143
    assert (process.returncode, (tmp_path / "ran").exists()) == (code, False)
    assert events(tmp_path) == [("started", "0"), ("ended", str(code))]


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_warning_before_the_program_starts_does_not_end_the_job(tmp_path: Path, name: str) -> None:
    machine = changed(ONE_PROCESS, setup=(f"kill -s {name} $PPID; sleep 1",))
    with started(tmp_path, machine, run={"cmd": "touch ran"}) as process:
        process.communicate(timeout=30)
    assert (process.returncode, (tmp_path / "ran").exists()) == (0, True)


SERVERS: dict[str, Any] = {"framework": "mxnet", "environment": environment(1, ps=1)}


@pytest.mark.parametrize(
    "data",
    [
        {"framework": "pytorch", "environment": environment(1), "run": {"cmd": "exit $HPCDIST_RANK"}},
        {"batch": {"walltime": "1h"}, "run": {"cmd": "exit 4"}},
        SERVERS | {"run": {"cmd": "[[ $DMLC_ROLE == worker ]] || exec sleep 60"}},
    ],
    ids=["a task failed", "with a time limit", "servers were ended"],
)  # fmt: skip
def test_output_is_closed_when_the_job_ends(tmp_path: Path, data: dict[str, Any]) -> None:
    """Else ``bash job.sh | tee log`` would wait for what was left in the background."""
    process = started(tmp_path, **data)
    assert process.stdout
    with process:
        process.wait(timeout=120)
        process.communicate(timeout=8)  # what was ended may be dying yet; what waits does for 10 s or more
