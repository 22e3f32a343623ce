"""Shells in allocations of their own, on the real Slurm."""

from __future__ import annotations

import os
import pty
import signal
from contextlib import suppress
from typing import Any, Final

import pytest

from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

NODE: Final = {"resources": {"cpu": {"requests": 1}, "gpu": {"requests": 1}}}
EXPERIMENT: Final[dict[str, Any]] = {
    "framework": "mpi",
    "run": {"cmd": 'echo "rank $HPCDIST_RANK on $(uname -n) $EXTRA"'},
    "environment": {
        **NODE,
        "env_vars": {"ODD": "a 'b' $(no)\nc"},
        "replicas": {"n_workers": 4, "default_worker": NODE},
    },
}


def queue(user: User) -> str:
    return user.cluster.run(["squeue", "-h", "-o", "%i %T"], user=user.name).stdout


class Terminal:
    """A pseudo-terminal with hpcdist in it, and what it has printed so far."""

    def __init__(self, user: User, *words: str) -> None:
        self.cluster = user.cluster
        self._ours, theirs = pty.openpty()
        self.process = user.cluster.popen(
            ["setsid", "--ctty", "--wait", PYTHON, "-m", "hpcdist", *words],
            cwd=user.directory,
            env=ENVIRONMENT | {"HOME": str(user.directory)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.text = ""

    def has(self, text: str) -> bool:
        with suppress(OSError):  # nothing more now, or its other end is closed
            while data := os.read(self._ours, 4096):
                self.text += data.decode(errors="replace").replace("\r", "")
        return text in self.text

    def after(self, typed: str, text: str) -> None:
        """Type a line, and wait until this has been printed."""
        os.write(self._ours, typed.encode())
        until(lambda: self.has(text), f"{text!r} in the terminal", seconds=60)

    def end(self) -> int:
        until(lambda: self.has("\0") or self.process.poll() is not None, "the shell to end")
        os.close(self._ours)
        return self.process.returncode


def test_a_command_has_the_environment_of_the_job_and_launches_the_program(user: User) -> None:
    script = """\
echo "$(uname -n) $ODD $SLURM_JOB_NUM_NODES $CUDA_VISIBLE_DEVICES"
EXTRA=x launch
launch sh -c "exit 3" >ended
echo "code $?"
exit 7
"""
    done = user.hpcdist("shell", user.write("sh", EXPERIMENT), "--", "bash", "-c", script)
    assert done.returncode == 7, done.stderr
    first, second, *lines = done.stdout.splitlines()
    assert (first, second) == ("n1 a 'b' $(no)", "c 2 0,1,2")
    assert sorted(lines[:5]) == [f"{rank}: rank {rank} on n{1 + rank // 3} x" for rank in range(5)]
    assert lines[5] == "code 3"
    assert "Exited with exit code 3" in done.stderr
    assert user.hpcdist("wait", "sh-1").returncode == 7  # the job is over some time after its shell
    (report,) = user.json("status", "sh-1")
    assert (report["state"], report["exit_code"]) == ("failed", 7)
    assert user.hpcdist("submit", "sh.yml", "--dry-run").returncode == 0
    assert not queue(user)


def test_a_shell_in_a_terminal(user: User) -> None:
    (user.directory / ".bashrc").write_text("ODD=other; PS1='ready> '\n")
    terminal = Terminal(user, "shell", str(user.write("sh", EXPERIMENT)))
    terminal.after("", "ready> ")
    assert "`launch` starts the program on all nodes" in terminal.text
    terminal.after('test -t 0 && echo "odd=$ODD"\n', "odd=a 'b' $(no)\nc\n")
    terminal.after(
        "bash -c 'trap \"echo caught; exit\" INT; echo up; while :; do sleep 0.1; done'\n", "\nup\n"
    )
    terminal.after("\x03", "caught\nready> ")
    terminal.after("launch sh -c 'exit 3'\n", "Exited with exit code 3")
    terminal.after("exit 4\n", "exit\n")
    assert terminal.end() == 4
    assert not queue(user)


def test_the_allocation_ends_with_hpcdist(user: User) -> None:
    file = user.write("sh", EXPERIMENT)
    words = ("shell", str(file), "--", "bash", "-c", "echo >up; sleep 1000")
    process = user.cluster.popen([PYTHON, "-m", "hpcdist", *words], cwd=user.directory, env=ENVIRONMENT)
    until((user.directory / "up").exists, "the command to begin")
    user.cluster.signal(process, signal.SIGKILL)
    until(lambda: not queue(user), "the allocation to end")
    process.communicate()


def test_a_wait_for_nodes_is_given_up_by_a_key(user: User) -> None:
    whole = ["sbatch", "--parsable", "--partition=all", "--nodes=5", "--exclusive", "--wrap", "sleep 1000"]
    blocker = user.cluster.run(whole, user=user.name, cwd=user.directory, check=True)
    until(lambda: queue(user) == f"{blocker.stdout.strip()} RUNNING\n", "the nodes to be taken")
    terminal = Terminal(user, "shell", str(user.write("sh", EXPERIMENT)))
    terminal.after("", "queued and waiting for resources")
    (report,) = user.json("status", "sh-1")
    assert report["state"] == "pending"
    terminal.after("\x03", "revoked")
    assert terminal.end() == 1
    assert queue(user) == f"{blocker.stdout.strip()} RUNNING\n"
    (report,) = user.json("status", "sh-1")
    assert report["state"] in {"cancelled", "failed"}, report
