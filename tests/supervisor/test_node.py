"""The process on each node: a real one, on the oldest Python, and tools that print what their manuals have.

Sources: nvidia-smi(1), ``--query-gpu`` and ``--format``, and its messages of a GPU that is lost; ``rocm-smi
--help`` and its output with ``--csv``; the user guide of xpu-smi, ``dump``; dmesg(1).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from select import select
from typing import Final

import pytest
from supervisor import node

from hpcdist.checks.usage import node_use_of
from hpcdist.runs import failures
from hpcdist.runs.failures import Sign
from tests.processes import holders
from tests.pythons import python_of
from tests.slurm.process import until

PYTHON: Final = python_of("3.6") or sys.executable
HOST: Final = os.uname().nodename
HEAD: Final = "# named-by-the-supervisor\nend 5.5 1 6 0\nend 5.5 137 7 1\n"
NVIDIA: Final = """\
index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]
0, GPU-5f3c, 37, 8192, 81559
1, GPU-a901, 99, 70000, 81559
2, GPU-77de, [N/A], 5, 81559
"""
ROCM: Final = """\
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

device,GPU use (%),GFX Activity,VRAM Total Memory (B),VRAM Total Used Memory (B)
card0,0,203885505,68702699520,10977280
card1,100,203885505,68702699520,34351349760
"""
XPU: Final = """\
Timestamp, DeviceId, GPU Utilization (%), GPU Memory Used (MiB)
06:14:46.000,    0,  N/A, 28.02
06:14:46.000,    1,  N/A, 28.02
06:14:47.000,    0, 60.51, 4096.00
06:14:47.000,    1, 0.00, 28.02
"""
GPUS: Final = "0, GPU-a, 0, No\n1, GPU-b, 3, Yes\n2, GPU-c, [N/A], [N/A]\n"
HANGS: Final = "trap '' TERM; sleep 600 & wait; sleep 600"


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END"


class Runs:
    """The process of node 3, beside a job's folder with the file in which it is told of the end."""

    def __init__(
        self,
        folder: Path,
        tools: Mapping[str, str],
        words: str = "- V task",
        told: bytes = b"begin\n",
        **own: str,
    ) -> None:
        self.job, self.mark, self.usage = folder / "job", str(folder), folder / "job" / "gpu_usage" / "2.1.3"
        (self.job / "faults").mkdir(parents=True)
        (self.job / "faults" / "2.1.3").write_text(HEAD)
        (self.job / "over.2.1").touch()
        (folder / "bin").mkdir()
        for name, text in tools.items():
            (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
            (folder / "bin" / name).chmod(0o755)
        program = [PYTHON, "-IS", node.__file__, str(self.job), "2.1", str(int(time.time()) - 10)]
        environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "MARK": self.mark, **own}
        pipe, stdin = subprocess.PIPE, subprocess.PIPE if told else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [*program, *words.split(), "3"], 0, None, stdin, None, pipe, env=environ
        )
        self.say(told)

    def say(self, text: bytes) -> None:
        if self.process.stdin:
            self.process.stdin.write(text)

    def end(self, text: bytes = b"over\n") -> str:
        """Tell it of the end, which leaves nothing behind; return its file of faults."""
        self.say(text)
        _, errors = self.process.communicate(timeout=30)
        until(lambda: not holders("MARK", self.mark), "its tools to be killed", every=0.02)
        assert (self.process.returncode, errors) == (0, b"")
        return (self.job / "faults" / "2.1.3").read_text()


@pytest.mark.parametrize(
    ("tool", "visible", "words", "gpus"),
    [
        (("nvidia-smi", NVIDIA), "", "V task", "0:37:8192:81559 1:99:70000:81559 2:-:5:81559"),
        (("nvidia-smi", NVIDIA), "1", "V task", "1:99:70000:81559"),
        (("nvidia-smi", NVIDIA), "GPU-5f,GPU-77de", "V node", "0:37:8192:81559 2:-:5:81559"),
        (("nvidia-smi", NVIDIA), "1", "V launcher", "0:37:8192:81559 1:99:70000:81559 2:-:5:81559"),
        (("rocm-smi", ROCM), "", "ROCR_V task", "0:0:10:65520 1:100:32760:65520"),
        (("xpu-smi", XPU), "", "ZE_V task", "0:60:4096:- 1:0:28:-"),
    ],
    ids=["nvidia", "by number", "by UUID", "by the launcher", "rocm", "xpu"],
)
def test_what_a_tool_prints(
    tmp_path: Path, tool: tuple[str, str], visible: str, words: str, gpus: str
) -> None:
    beside = Runs(tmp_path, {tool[0]: prints(tool[1])}, f"0.1 {words}", V=visible)
    until(beside.usage.exists, "a sample", every=0.02)
    assert beside.end() == HEAD
    head, first, *_ = beside.usage.read_text().splitlines()
    at, seconds, count, cpu, *found = first.split()
    assert (head, found, seconds, count) == (f"# {HOST} {tool[0]}", gpus.split(), "0", "1")
    assert (abs(int(at) - time.time()) < 60, cpu == "-" or 0 <= int(cpu) <= 100) == (True, True)
    use = node_use_of(beside.usage.read_text(), "1", (2, 1), 3)
    assert use
    assert (use.host, use.samples, len(use.gpus)) == (HOST, 1, len(found))


@pytest.mark.parametrize(
    "text", ["exit 9", "echo NVIDIA-SMI has failed", "head -c 100000 /dev/urandom", "echo index,uuid"]
)
def test_a_tool_that_fails_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/bash\necho x >>{tmp_path}/calls; {text}")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def wait(_: float, pipe: int | None = None) -> bool:
        return pipe is not None and bool(select([pipe], [], [], 9)[0])

    node.sample(f"{tmp_path}/usage", 30, "nvidia-smi", [], wait)
    assert ((tmp_path / "calls").read_text(), (tmp_path / "usage").exists()) == ("x\n" * 3, False)


def test_spans_and_the_time_of_cpus() -> None:
    stat = "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\nintr 5\n"
    assert node.cpu_time(stat, {0, 7}) == (21, 171)
    row = node.Reading(1, "GPU-1", 10, 500, 800)
    seen = [[row], [row._replace(use=13, used=400), row._replace(number=0, use=None, used=None, total=None)]]
    assert node.span(61.9, (30, 40), seen) == "61 2 75 0:-:-:- 1:11:500:800\n"
    assert node.span(61.9, (0, 0), []) == "61 0 -\n"


def test_without_a_tool_nothing_is_sampled(tmp_path: Path) -> None:
    beside = Runs(tmp_path, {}, "0.1 V task", PATH=str(tmp_path))
    time.sleep(0.5)
    assert (beside.process.poll(), beside.end(), beside.usage.exists()) == (None, HEAD, False)


def test_a_tool_that_hangs_delays_nothing(tmp_path: Path) -> None:
    beside = Runs(tmp_path, {"nvidia-smi": f"touch {tmp_path}/called; {HANGS}"}, "0.1 V task")
    until((tmp_path / "called").exists, "the tool")
    beside.end()


@pytest.mark.extended
def test_a_tool_that_takes_long_is_called_rarely(tmp_path: Path) -> None:
    """A tenth of a second of CPU time is a thousandth of a hundred seconds."""
    burns = "until read -ra s </proc/$$/stat && ((s[13] + s[14] >= 10)); do :; done"
    tool = f"echo >>{tmp_path}/calls\n{burns}\n{prints(NVIDIA)}"
    beside = Runs(tmp_path, {"nvidia-smi": tool}, "0.1 V task")
    until(beside.usage.exists, "the first sample")
    time.sleep(3)
    beside.end()
    assert (tmp_path / "calls").read_text() == "\n"


ENDS: Final[dict[str, Callable[[Runs], object]]] = {
    "told": lambda beside: beside.say(b"over\n"),
    "out of touch": lambda beside: beside.process.stdin and beside.process.stdin.close(),
    "by the file": lambda beside: (beside.job / "over.2.1").write_text("over\n"),
    "TERM": lambda beside: beside.process.send_signal(signal.SIGTERM),
}


@pytest.mark.parametrize("way", ENDS)
def test_it_ends_with_the_attempt(tmp_path: Path, way: str) -> None:
    beside = Runs(tmp_path, {}, told=b"" if way == "by the file" else b"begin\n")
    (beside.job / "over.2.1").write_text("ov")  # as it is being written
    until(lambda: catches_term(beside.process.pid), "it to set its signals")
    for name in ("HUP", "INT", "QUIT", "ALRM", "USR1", "USR2", "XCPU", "XFSZ"):
        beside.process.send_signal(signal.Signals[f"SIG{name}"])
    time.sleep(0.7)
    assert beside.process.poll() is None
    ENDS[way](beside)
    assert beside.process.wait(30) == 0
    for pipe in filter(None, (beside.process.stdin, beside.process.stderr)):
        pipe.close()


def catches_term(pid: int) -> bool:
    """Whether a process has come so far: it does not at its start, nor does its shell."""
    with suppress(OSError):
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
        return caught is not None and bool(int(caught[1], 16) & 1 << signal.SIGTERM - 1)
    return False


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    command = f"{PYTHON} -IS {node.__file__} {tmp_path} 2.1 0 - - - 3 & echo; wait"
    environ = {**os.environ, "MARK": str(tmp_path)}
    with subprocess.Popen(["bash", "-c", command], env=environ, stdout=subprocess.PIPE) as shell:
        assert shell.stdout
        shell.stdout.readline()
        until(lambda: any(map(catches_term, holders("MARK", str(tmp_path)))), "it to know its parent")
        shell.kill()
        until(lambda: not holders("MARK", str(tmp_path)), "it to end", 8)


def signs(text: str) -> tuple[Sign, ...]:
    found = failures.faults_in(text)
    assert found
    assert found.host == "named-by-the-supervisor"
    assert [end[1:4] for end in found.ends] == [(1, 6, 0), (137, 7, 1)]
    return found.signs


def test_kernel_messages_since_the_attempt_began_and_the_gpus_of_the_job(tmp_path: Path) -> None:
    up = int(float(Path("/proc/uptime").read_text().split()[0]))
    xid = "NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus."
    log = f"[    0.000000] Linux 6.1\n[{up - 30}.5] {xid}\n[{up - 5:8}.5] {xid}\n[{up}.5] audit: type=1400\n"
    tools = {"dmesg": prints(log), "nvidia-smi": prints(GPUS)}
    beside = Runs(tmp_path, tools, V="1,2")
    assert signs(beside.end(b"failed 2 3 33\n")) == (
        Sign(f"kernel: {xid}", of_hardware=True),
        Sign("GPU 1 3 uncorrected memory errors since its driver was loaded", of_hardware=True),
        Sign("GPU 1 has memory pages that wait to be retired", of_hardware=True),
    )


def test_counters_that_grew(tmp_path: Path) -> None:
    counts = {
        "class/infiniband/mlx5_0/ports/1/counters/link_downed": "2\n",
        "class/infiniband/mlx5_0/ports/1/counters/symbol_error": "N/A (no PMA)\n",
        "devices/system/edac/mc/mc0/ue_count": "1\n",
    }
    for name, count in counts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(count)
    before = node.counters(str(tmp_path))
    assert before == {"mlx5_0/1/link_downed": 2, "mc0/ue_count": 1}
    (tmp_path / next(iter(counts))).write_text("4\n")
    lines = node.grown(before, node.counters(str(tmp_path)))
    assert signs(HEAD + "\n".join(lines) + "\n") == (
        Sign("the link mlx5_0/1 went down: 2 times", of_hardware=True),
    )


LINK: Final = "n3 kernel: mlx5_core 0000:81:00.0: Port module event: link_down"
LOST: Final = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system"
JUNK: Final = ("head -c 100000 /dev/urandom", "kill -SEGV $$", "exit 3")


@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        (
            {"dmesg": "exit 1", "journalctl": prints(f"[99999999.25] {LINK}\n"), "nvidia-smi": "exit 9"},
            (Sign(f"kernel: {LINK}", of_hardware=True),),
        ),
        ({"dmesg": "true", "nvidia-smi": f"echo '{LOST}' >&2; exit 15"}, (Sign(LOST, of_hardware=True),)),
        *((dict.fromkeys(("dmesg", "journalctl", "nvidia-smi"), text), ()) for text in JUNK),
        (
            dict.fromkeys(("dmesg", "journalctl", "nvidia-smi"), HANGS),
            (Sign("nvidia-smi did not answer within 3 s"),),
        ),
    ],
    ids=["journal", "lost", "random", "crash", "fails", "hang"],
)
def test_what_tools_show(tmp_path: Path, tools: dict[str, str], shown: tuple[Sign, ...]) -> None:
    assert signs(Runs(tmp_path, tools).end(b"failed 3\n")) == shown


def test_nothing_is_written_of_another_node(tmp_path: Path) -> None:
    tools = {"dmesg": prints(f"[99999999.25] {LINK}\n"), "nvidia-smi": prints(GPUS)}
    assert Runs(tmp_path, tools).end(b"failed 2 33\n") == HEAD
