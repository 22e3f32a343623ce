from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.shell import Shell, environment_of, signals_left
from tests.slurm.process import until


def bash(script: str, *words: str, timeout: float = 120, stdin: str = "") -> Completed:
    return Shell().run(Command(("bash", "-c", script, "bash", *words), timeout=timeout, stdin=stdin))


def test_output_and_exit_code() -> None:
    completed = bash('echo "$1"; echo bad >&2; exit 3', "a b;$(echo no)\n*")
    assert (completed.returncode, completed.stdout, completed.stderr, completed.ok) == (
        3,
        "a b;$(echo no)\n*\n",
        "bad\n",
        False,
    )


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -KILL $$", 137), ("kill -INT $$", 130)])
def test_a_command_with_our_own_input_and_output(script: str, code: int) -> None:
    assert Shell().attach(Command(("bash", "-c", script))) == code


def test_a_command_of_ours_that_is_missing(capfd: pytest.CaptureFixture[str]) -> None:
    assert Shell().attach(Command(("hpcdist-no-such-program",))) == 127
    assert capfd.readouterr().err == "hpcdist-no-such-program: No such file or directory\n"


def test_a_signal_to_us_reaches_the_command_and_ctrl_c_is_its_own(tmp_path: Path) -> None:
    script = (
        f"trap 'echo told >{tmp_path}/told; exit 7' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    )
    program = (
        "import sys; from hpcdist.base.shell import Shell; from hpcdist.base.command import Command; "
        "sys.exit(Shell().attach(Command(('bash', '-c', sys.argv[1]))))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, script])
    until((tmp_path / "up").exists, "the command to begin")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert (process.wait(60), (tmp_path / "told").read_text()) == (7, "told\n")


def test_a_signal_that_comes_before_the_command_has_started_reaches_it() -> None:
    with signals_left() as leave_to:
        os.kill(os.getpid(), signal.SIGTERM)
        process = subprocess.Popen(["sleep", "60"])
        leave_to(process)
    assert process.wait(60) == -signal.SIGTERM


def test_a_signal_that_comes_where_no_command_starts_is_ones_own() -> None:
    with pytest.raises(KeyboardInterrupt), signals_left():
        os.kill(os.getpid(), signal.SIGINT)


def test_a_missing_program() -> None:
    command = Command(("hpcdist-no-such-program", "--x"))
    assert Shell().run(command) == Completed(
        command, 127, stderr="hpcdist-no-such-program: No such file or directory", missing=True
    )


def test_missing_directory_is_not_reported_as_missing_program() -> None:
    completed = Shell().run(Command(("true",), cwd="/no/such/place"))
    assert (completed.returncode, completed.missing) == (126, False)
    assert "/no/such/place" in completed.stderr


def test_program_without_execute_permission(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    completed = Shell().run(Command((str(tmp_path / "plain"),)))
    assert (completed.returncode, completed.missing) == (126, False)


def test_timeout_kills_the_process_group(tmp_path: Path) -> None:
    script = 'echo before; sleep 60 & echo $! >"$1"; trap "" TERM; wait'
    completed = bash(script, str(tmp_path / "pid"), timeout=2)
    assert (completed.returncode, completed.timed_out, completed.stdout) == (124, True, "before\n")
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_timeout_does_not_wait_for_a_child_that_left_the_group(tmp_path: Path) -> None:
    script = 'setsid --fork bash -c \'echo $$ >"$1"; exec sleep 600\' bash "$1"; sleep 600'
    assert bash(script, str(tmp_path / "pid"), timeout=2).timed_out
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it lives, and holds the output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_commands_die_with_a_killed_hpcdist(tmp_path: Path, number: int) -> None:
    """Such as a wrapper of sbatch with the sbatch that it has started."""
    script = (
        'bash -c \'echo $$ >"$1"; sleep 60; echo late >"$1"\' bash "$1/inner" & echo $$ >"$1/outer"; wait'
    )
    program = "import sys; from hpcdist.base.shell import Shell; from hpcdist.base.command import Command\n"
    program += "Shell().run(Command(('bash', '-c', *sys.argv[1:])))"
    words = (sys.executable, "-c", program, script, "bash", str(tmp_path))
    with subprocess.Popen(words, start_new_session=True) as process:
        try:
            pids = [tmp_path / name for name in ("inner", "outer")]
            for _ in range(1200):
                if all(file.exists() and file.read_text().endswith("\n") for file in pids):
                    break
                time.sleep(0.1)
        finally:
            os.kill(process.pid, number)
    assert process.returncode == -number
    assert is_gone(int((tmp_path / "outer").read_text()))
    assert is_gone(int((tmp_path / "inner").read_text()))


def is_gone(pid: int) -> bool:
    for _ in range(600):
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_a_killed_program() -> None:
    assert bash("kill -KILL $$").returncode == -9


def test_stdin_of_a_command() -> None:
    assert bash("cat", stdin="ünï\n").stdout == "ünï\n"
    assert bash("cat").stdout == ""


def test_output_that_is_not_utf_8() -> None:
    assert bash(r"printf 'a\xffb'").stdout == r"a\xffb"


def test_environment() -> None:
    base = {"PATH": "/bin", "SLURM_JOB_ID": "1", "SLURM_CONF": "/etc/x", "SBATCH_X": "1", "LC_ALL": "de_DE"}
    command = Command(
        ("true",),
        environment=(("SLURM_MORE", "2"),),
        drop_environment=("SLURM_", "SBATCH_"),
        keep_environment=("SLURM_CONF",),
    )
    assert environment_of(command, base) == {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/x",
        "LC_ALL": "C",
        "SLURM_MORE": "2",
    }


def test_kept_lc_all_is_not_overridden() -> None:
    keeping = Command(("true",), keep_environment=("LC_ALL",))
    assert environment_of(keeping, {"LC_ALL": "de_DE"}) == {"LC_ALL": "de_DE"}
    assert environment_of(keeping, {}) == {}


def test_nothing_is_dropped_unless_named() -> None:
    completed = Shell().run(Command(("env",)))
    names = {line.partition("=")[0] for line in completed.stdout.splitlines()}
    assert set(os.environ) - {"_"} <= names


def test_a_command_of_ours_ends_with_us_however_we_end(tmp_path: Path) -> None:
    script = f"trap 'echo told >{tmp_path}/told; exit' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    program = (
        "import sys; from hpcdist.base.shell import Shell; from hpcdist.base.command import Command; "
        "sys.exit(Shell().attach(Command(('bash', '-c', sys.argv[1]))))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, script])
    until((tmp_path / "up").exists, "the command to begin")
    process.kill()
    until((tmp_path / "told").exists, "the command to get TERM")
    process.wait(60)


PRINTS = "while :; do printf '%010000d' 0; done"


@pytest.mark.parametrize("where", ["", ">&2"])
def test_what_prints_without_an_end_is_ended(where: str) -> None:
    done = Shell().run(Command(("bash", "-c", f"{PRINTS} {where}"), most=1 << 20, timeout=600))
    assert (done.returncode, done.timed_out) == (-signal.SIGKILL, False)
    assert len(done.stdout) <= 1 << 20
    assert done.stderr.endswith("it printed more than 1 MiB, and was ended")


def test_what_fills_a_file_without_an_end_is_ended(tmp_path: Path) -> None:
    limited = (
        f"while [[ $(ulimit -f) == unlimited ]]; do :; done; {PRINTS}"  # it is set a moment after the start
    )
    command = Command(("bash", "-c", limited), most=1 << 20, timeout=600, stdout=tmp_path / "out")
    done = Shell().run(command)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "it printed more than 1 MiB, and was ended")
    assert (tmp_path / "out").stat().st_size == (1 << 20) + 1


def test_what_ends_by_itself_and_was_too_long_is_so_too(tmp_path: Path) -> None:
    """A file of the answer is no larger than what whoever reads it expects."""
    command = Command(("head", "-c", "2000000", "/dev/zero"), most=1 << 20)
    assert not Shell().run(command).ok
    assert not Shell().run(command._replace(stdout=tmp_path / "out")).ok
    assert Shell().run(command._replace(stdout=tmp_path / "out", most=2_000_000)).ok
