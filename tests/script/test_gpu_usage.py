"""The sampler of GPU use: real processes, and tools whose output is that of their manuals.

Sources: nvidia-smi(1), ``--query-gpu`` and ``--format``; ``rocm-smi --help`` and its output with ``--csv``;
the user guide of xpu-smi, ``dump``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcdist.script.renderer import render_job
from tests.plans import LOCAL, changed, planned
from tests.processes import holders
from tests.script.jobs import BASH, started
from tests.slurm.process import until

SAMPLER = Path("templates/runtime/gpu_usage.sh").resolve()
NVIDIA = """\
index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]
0, GPU-5f3c, 37, 8192, 81559
1, GPU-a901, 99, 70000, 81559
2, GPU-77de, [N/A], 5, 81559
"""
ROCM = """\
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

device,GPU use (%),GFX Activity,VRAM Total Memory (B),VRAM Total Used Memory (B)
card0,0,203885505,68702699520,10977280
card1,100,203885505,68702699520,34351349760
"""
XPU = """\
Timestamp, DeviceId, GPU Utilization (%), GPU Memory Used (MiB)
06:14:46.000,    0,  N/A, 28.02
06:14:46.000,    1,  N/A, 28.02
06:14:47.000,    0, 60.51, 4096.00
06:14:47.000,    1, 0.00, 28.02
"""


def tool(folder: Path, name: str, text: str) -> dict[str, str]:
    """Write a program, and return an environment in which it is found."""
    place = folder / "bin" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/bash\n{text}")
    place.chmod(0o755)
    return {"PATH": f"{place.parent}:{os.environ['PATH']}"}


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END\n"


def sampled(
    folder: Path, environ: Mapping[str, str], *lines: str, then: str, limited: bool = False
) -> subprocess.Popen[str]:
    """Start a shell with a sampler beside it, each second; ``limited``: but as its cost allows."""
    sampler = SAMPLER.read_text()
    assert ") * 10))" in sampler
    sampler = sampler if limited else sampler.replace(") * 10))", ") * 0))")
    script = [
        sampler,
        "declare -A hpcdist=([gpu_usage]=1)",
        f"HPCDIST_JOB_DIR={folder}/job HPCDIST_FAILURE={folder}/job/failure.2.1 HPCDIST_NODE=3",
        *lines,
        "hpcdist_begin_gpu_usage $$",
        then,
    ]
    words = [BASH, "-c", "\n".join(script)]
    return subprocess.Popen(
        words,
        env=dict(environ),
        stdin=subprocess.PIPE,  # which is open, so that `read` waits
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows(folder: Path) -> list[list[str]]:
    """Return the lines of the sampler's file, as words."""
    file = folder / "job" / "gpu_usage" / "2.1.3"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "text", "lines", "gpus"),
    [
        pytest.param("nvidia-smi", NVIDIA, "", "0:37:8192:81559 1:99:70000:81559 2:-:5:81559", id="nvidia"),
        pytest.param("nvidia-smi", NVIDIA, "hpcdist_visible=1", "1:99:70000:81559", id="by number"),
        pytest.param(
            "nvidia-smi", NVIDIA, "hpcdist_visible=GPU-5f,GPU-77de",
            "0:37:8192:81559 2:-:5:81559", id="by UUID",
        ),
        pytest.param(
            "nvidia-smi", NVIDIA, "hpcdist_visible=1 hpcdist[gpus]=launcher",
            "0:37:8192:81559 1:99:70000:81559 2:-:5:81559", id="by the launcher",
        ),
        pytest.param(
            "rocm-smi", ROCM, "hpcdist[gpu_variable]=ROCR_VISIBLE_DEVICES",
            "0:0:10:65520 1:100:32760:65520", id="rocm",
        ),
        pytest.param(
            "xpu-smi", XPU, "hpcdist[gpu_variable]=ZE_AFFINITY_MASK", "0:60:4096:- 1:0:28:-", id="xpu"
        ),
    ],
)  # fmt: skip
def test_what_a_tool_prints(tmp_path: Path, name: str, text: str, lines: str, gpus: str) -> None:
    with sampled(tmp_path, tool(tmp_path, name, prints(text)), lines, then="read") as shell:
        until(lambda: len(rows(tmp_path)) > 1, "a sample")
        shell.kill()
        head, first, *_ = rows(tmp_path)
        assert head == ["#", Path("/proc/sys/kernel/hostname").read_text().strip(), name]
        at, seconds, samples, cpu, *found = first
        assert found == gpus.split()
        assert all(word.isdecimal() for word in (at, seconds, samples))
        assert cpu == "-" or 0 <= int(cpu) <= 100


@pytest.mark.extended
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("exit 9\n", id="fails"),
        pytest.param("echo 'NVIDIA-SMI has failed because it could not communicate'\n", id="no driver"),
        pytest.param("head -c 100000 /dev/urandom\n", id="junk"),
        pytest.param("echo index,uuid\n", id="no GPUs"),
    ],
)  # fmt: skip
def test_a_tool_that_fails_is_given_up(tmp_path: Path, text: str) -> None:
    program = f"echo x >>{tmp_path}/calls; {text}"
    environ = tool(tmp_path, "nvidia-smi", program) | {"MARK": str(tmp_path)}
    with sampled(tmp_path, environ, then="read -r; echo over; exit 5") as shell:
        calls = tmp_path / "calls"
        until(lambda: calls.exists() and calls.read_text() == "x\n" * 3, "three calls")
        until(lambda: len(holders("MARK", str(tmp_path))) == 1, "the sampler to give up")
        assert shell.poll() is None
        assert rows(tmp_path) == []
        shell.kill()


def test_without_a_tool_nothing_is_sampled(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "MARK": str(tmp_path)}
    with sampled(tmp_path, environ, then="echo up; wait; read") as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "up\n"
        until(lambda: len(holders("MARK", str(tmp_path))) == 1, "the sampler to end")
        assert not (tmp_path / "job").exists()
        shell.kill()


@pytest.mark.extended
def test_a_tool_that_hangs_delays_nothing(tmp_path: Path) -> None:
    environ = tool(tmp_path, "nvidia-smi", f": >{tmp_path}/called; exec sleep 1000\n") | {
        "MARK": str(tmp_path)
    }
    shell = sampled(
        tmp_path, environ, then=f"until [[ -e {tmp_path}/called ]]; do :; done\nhpcdist_end_gpu_usage; exit 7"
    )
    out, _ = shell.communicate(timeout=60)
    assert (shell.returncode, out) == (7, "")
    until(lambda: not holders("MARK", str(tmp_path)), "the tool to be killed")


@pytest.mark.extended
@pytest.mark.parametrize(("limited", "calls"), [(True, 1), (False, 3)])
def test_a_tool_that_takes_long_is_called_rarely(tmp_path: Path, *, limited: bool, calls: int) -> None:
    """A tenth of a second of CPU time is a thousandth of a hundred seconds."""
    burns = "until read -ra s </proc/$$/stat && ((s[13] + s[14] >= 10)); do :; done\n"
    environ = tool(tmp_path, "nvidia-smi", f"echo >>{tmp_path}/calls\n{burns}{prints(NVIDIA)}")
    with sampled(tmp_path, environ, then="read", limited=limited) as shell:
        until((tmp_path / "calls").exists, "the first sample")
        time.sleep(6)
        shell.kill()
    found = len((tmp_path / "calls").read_text().splitlines())
    assert found == calls if limited else found >= calls


def test_it_ends_with_a_shell_that_was_killed(tmp_path: Path) -> None:
    environ = tool(tmp_path, "nvidia-smi", prints(NVIDIA)) | {"MARK": str(tmp_path)}
    with sampled(tmp_path, environ, then="read") as shell:
        until(lambda: rows(tmp_path), "a sample")
        shell.send_signal(signal.SIGKILL)
        shell.wait()
        until(lambda: not holders("MARK", str(tmp_path)), "the sampler to end")


def test_a_job_has_one_a_node(tmp_path: Path) -> None:
    environ = tool(tmp_path, "nvidia-smi", prints(NVIDIA)) | {"CUDA_VISIBLE_DEVICES": "0,1"}
    command = (
        f"until [[ -s {tmp_path}/run/jobs/$HPCDIST_JOB_ID/gpu_usage/0.0.0 ]]; do sleep 0.1; done; exit 3"
    )
    gpu = {"resources": {"gpu": {"requests": 1}}}
    shell = started(
        tmp_path, changed(LOCAL, launcher="processes"), environ, framework="pytorch", run={"cmd": command},
        environment={**gpu, "replicas": {"n_workers": 1, "default_worker": gpu}}, tracking={"gpu_usage": 1},
    )  # fmt: skip
    out, _ = shell.communicate(timeout=120)
    assert shell.returncode == 3, out
    assert "Killed" not in out
    [file] = (tmp_path / "run").glob("jobs/*/gpu_usage/*")
    assert file.name == "0.0.0"
    assert [word.split(":")[0] for word in file.read_text().splitlines()[1].split()[4:]] == ["0", "1"]


@pytest.mark.parametrize(("gpus", "tracking"), [(0, {}), (1, {"gpu_usage": False})])
def test_nothing_is_sampled(gpus: int, tracking: dict[str, bool]) -> None:
    plan = planned(environment={"resources": {"gpu": {"requests": gpus}}}, tracking=tracking)
    assert "[gpu_usage]" not in render_job(plan)
    assert plan.identity.tracking.gpu_usage_seconds == (30 if gpus == 0 else None)
