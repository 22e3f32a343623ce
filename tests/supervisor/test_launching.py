"""One attempt: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from supervisor.causes import Cause

RUNTIME = Path(__file__).parents[2] / "templates" / "runtime"
FOLLOW = """\
import sys
from supervisor.causes import Watcher
from supervisor.launching import Program, Signals, attempt
program = None
def arrived(number, own):
    program.send(number)
signals = Signals(arrived)
program = Program(["bash", "-c", sys.argv[1]], None, group={group}, reads={reads})
print(tuple(attempt(program, signals, [], Watcher({{}}))[:2]), signals.told)
"""


def followed(script: str, *, group: bool = False, reads: bool = True) -> subprocess.Popen[str]:
    """Start what follows a script; it prints the outcome, and whether it was told to end."""
    return subprocess.Popen(
        [sys.executable, "-c", FOLLOW.format(group=group, reads=reads), textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(RUNTIME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=30)
    return out.strip(), err


def test_the_exit_code_and_the_first_failure_are_found() -> None:
    script = "echo 'srun: error: n2: task 5: Exited with exit code 7' >&2; exit 9"
    out, err = outcome(followed(script))
    assert out == f"{(9, Cause(5, 'n2', 7))} False"
    assert err == "srun: error: n2: task 5: Exited with exit code 7\n"


def test_a_signal_that_ends_the_script_is_its_code() -> None:
    assert outcome(followed("kill -KILL $$"))[0] == "(137, None) False"


def test_signals_are_passed_on_once(tmp_path: Path) -> None:
    script = f"""
        trap 'echo USR1 >>{tmp_path}/seen' USR1
        trap 'echo TERM >>{tmp_path}/seen; exit 3' TERM
        touch {tmp_path}/ready
        while :; do sleep 0.05; done
    """
    process = followed(script)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    while not (tmp_path / "seen").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert outcome(process)[0] == "(3, None) True"
    assert (tmp_path / "seen").read_text().split() == ["USR1", "TERM"]


def test_a_group_gets_signals_whole(tmp_path: Path) -> None:
    script = f"touch {tmp_path}/ready; sleep 60; echo over"
    process = followed(script, group=True, reads=False)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert outcome(process)[0] == "(143, None) True"


def test_much_output_is_copied_whole() -> None:
    out, err = outcome(followed("for ((i = 0; i < 50000; i++)); do echo line $i; done >&2"))
    assert out == "(0, None) False"
    assert err == "".join(f"line {number}\n" for number in range(50000))


def test_what_a_script_leaves_behind_does_not_hold_it_up() -> None:
    out, _ = outcome(followed("sleep 60 >/dev/null & echo $!"))
    left, rest = out.split("\n")
    os.kill(int(left), signal.SIGKILL)
    assert rest == "(0, None) False"
