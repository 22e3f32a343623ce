"""A signal that reaches a task's wrapper alone is passed on to the program, and over ssh to all nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.host.resources import shipped
from hpcdist.script.renderer import runtime

HEAR = """\
for name in INT USR1 TERM; do trap "echo $name >>heard" "$name"; done
echo >>ready
until [[ -e over ]]; do sleep 0.05; done
exit 5
"""
ALONE = """\
declare -A hpcdist=()
hpcdist_is_signalled_alone() { :; }
hpcdist_trap_task_signals
hpcdist_run_signalled PROGRAM
echo "code $?"
"""
"""As below slurmstepd with control groups."""


def started(folder: Path, lines: str) -> subprocess.Popen[str]:
    functions, _, _ = runtime((shipped("templates"),)).rpartition("\nmain\n")
    script = folder / "lines.sh"
    script.write_text(f"{functions}\ntrap - EXIT\n{lines}")
    (folder / "hear.sh").write_text(HEAR)
    (folder / "command.sh").write_text("trap : INT USR1 TERM\nbash hear.sh\nexit 7\n")
    return subprocess.Popen(
        ["env", "--default-signal", "bash", script], cwd=folder, stdout=subprocess.PIPE, text=True
    )


def until_there(file: Path) -> str:
    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end, f"{file} did not come"
        time.sleep(0.02)
    return file.read_text()


@pytest.mark.parametrize(
    ("program", "code"), [("bash hear.sh", 5), ("bash ./command.sh", 7), ("nice -n 1 bash hear.sh", 5)]
)
def test_the_program_hears_what_its_wrapper_hears(tmp_path: Path, program: str, code: int) -> None:
    wrapper = started(tmp_path, ALONE.replace("PROGRAM", program))
    until_there(tmp_path / "ready")
    for number, name in enumerate((signal.SIGUSR1, signal.SIGINT, signal.SIGTERM), 1):
        wrapper.send_signal(name)
        while len(until_there(tmp_path / "heard").split()) < number:
            time.sleep(0.02)
    (tmp_path / "over").touch()
    assert wrapper.communicate(timeout=60)[0] == f"code {code}\n"
    assert (tmp_path / "heard").read_text().split() == ["USR1", "INT", "TERM"]


def test_a_signal_does_not_keep_a_task_from_saying_that_it_failed(tmp_path: Path) -> None:
    """Flux sends ALRM to all processes of a task, and again."""
    os.mkfifo(tmp_path / "failure")
    lines = """\
declare -A hpcdist=()
HPCDIST_FAILURE=failure hpcdist_rank=3
hpcdist_record_faults() { :; }
uname() { : >ready && echo n1; }
hpcdist_trap_task_signals
hpcdist_first_to_fail 142
"""
    task = started(tmp_path, lines)
    until_there(tmp_path / "ready")
    for child in Path(f"/proc/{task.pid}/task/{task.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGALRM)
    reader = os.open(tmp_path / "failure", os.O_RDONLY | os.O_NONBLOCK)
    assert task.communicate(timeout=60)[0] == ""
    assert os.read(reader, 100) == b"142 3 n1\n"
    os.close(reader)


def test_each_node_is_sent_the_same_words_and_they_signal_the_ranks(tmp_path: Path) -> None:
    lines = f"""\
HPCDIST_JOB_DIR={tmp_path}
hpcdist_nodes=(n1 n2 n3)
ssh() {{ cat >"said.${{@: -3:1}}"; }}
hpcdist_signal_by_ssh USR1
wait
"""
    script = started(tmp_path, lines)
    assert (script.communicate(timeout=60)[0], script.returncode) == ("", 0)
    said = [(tmp_path / f"said.{node}").read_text() for node in ("n1", "n2", "n3")]
    assert said == said[:1] * 3
    (tmp_path / "task.sh").write_text("trap : USR1\nbash hear.sh\nexit 3\n")
    task = subprocess.Popen(["bash", tmp_path / "task.sh"], cwd=tmp_path, env=dict(os.environ))
    until_there(tmp_path / "ready")
    subprocess.run(["bash", "-s"], input=said[2], text=True, check=True, timeout=60)
    assert until_there(tmp_path / "heard") == "USR1\n"
    (tmp_path / "over").touch()
    assert task.wait(60) == 3


ENDS = """\
trap hpcdist_signal=USR1 USR1
declare -A hpcdist=([tasks]=1)
sleep 60 >/dev/null &
other=$!
disown
for ((number = 0; number < 300; number++)); do
  HPCDIST_PARENT=$$ code=0
  export HPCDIST_PARENT
  {starts}
  ((code == 75 || code == 1)) || echo "code $code"
done
kill "$other"
"""
"""A program that signals its parent as its last act; bash 5.2 then forgets the exit code of one in ten."""

SIGNALS = """perl -e '$SIG{USR1} = "IGNORE"; kill USR1, $ENV{HPCDIST_PARENT}; exit 75'"""
WAITED = f"{SIGNALS} & hpcdist_program=$! hpcdist_code=127; hpcdist_wait_for_program; code=$hpcdist_code"
LAUNCHED = f"start_processes {SIGNALS}; code=$?"


@pytest.mark.parametrize("starts", [WAITED, LAUNCHED], ids=["a launcher", "the launcher of this machine"])
def test_a_signal_at_the_moment_of_the_end_does_not_hide_it(tmp_path: Path, starts: str) -> None:
    """``wait`` would last as long as the other child, which lives for a minute."""
    process = started(tmp_path, ENDS.replace("{starts}", starts))
    assert process.communicate(timeout=50)[0] == ""
