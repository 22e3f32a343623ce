"""What a node writes when a task on it fails: a real shell, with tools whose output is that of their manuals.

Sources: dmesg(1); nvidia-smi(1), ``--query-gpu``; the messages of a GPU that is lost.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist.nodes import faults
from hpcdist.nodes.faults import Sign
from tests.script.jobs import BASH

RUNTIME = Path("templates/runtime").resolve()
DMESG = """\
[    0.000000] Linux version 6.1.0
[    5.250000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
[99999999.250000] NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.
[99999999.500000] audit: type=1400
"""
GPUS = """\
0, GPU-a, 0, No
1, GPU-b, 3, Yes
2, GPU-c, [N/A], [N/A]
"""


def failed(folder: Path, tools: dict[str, str], *lines: str) -> str:
    """Let two tasks of a node fail one after the other; return what the node wrote."""
    for name, text in tools.items():
        place = folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/bash\n{text}\n")
        place.chmod(0o755)
    script = [
        f". {RUNTIME}/gpu_usage.sh",
        f". {RUNTIME}/node_faults.sh",
        "declare -A hpcdist=([gpus]=task)",
        f"HPCDIST_JOB_DIR={folder}/job HPCDIST_FAILURE={folder}/job/failure.2.1",
        "hpcdist_begin_faults",
        *lines,
        "HPCDIST_NODE=3 HPCDIST_RANK=6 HPCDIST_LOCAL_RANK=0 hpcdist_record_faults 1",
        "HPCDIST_NODE=3 HPCDIST_RANK=7 HPCDIST_LOCAL_RANK=1 hpcdist_record_faults 137",
        "echo over",
    ]
    environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        [BASH, "-c", "\n".join(script)], env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("over\n", "")
    file = folder / "job" / "faults" / "2.1.3"
    return file.read_text() if file.exists() else ""


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def signs(text: str) -> tuple[Sign, ...]:
    node = faults.of_text(text)
    assert node is not None
    assert node.host == Path("/proc/sys/kernel/hostname").read_text().strip()
    assert [end[1:4] for end in node.ends] == [(1, 6, 0), (137, 7, 1)]
    return node.signs


def test_kernel_messages_since_the_task_began_and_the_gpus_of_the_job(tmp_path: Path) -> None:
    tools = {"dmesg": prints(DMESG), "nvidia-smi": prints(GPUS)}
    assert signs(failed(tmp_path, tools, "hpcdist_visible=1,2")) == (
        Sign("kernel: NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.", of_hardware=True),
        Sign("GPU 1 3 uncorrected memory errors since its driver was loaded", of_hardware=True),
        Sign("GPU 1 has memory pages that wait to be retired", of_hardware=True),
    )


def test_counters_that_grew(tmp_path: Path) -> None:
    grown = "hpcdist_faults_before=(mc0/ue_count=1 mlx5_0/1/link_downed=2 mc1/ce_count=5)"
    now = "hpcdist_count_faults() { hpcdist_faults=(mc0/ue_count=1 mlx5_0/1/link_downed=4 mc1/ce_count=5); }"
    tools = {"dmesg": "exit 1", "journalctl": "exit 1", "nvidia-smi": "exit 9"}
    assert signs(failed(tmp_path, tools, grown, now)) == (
        Sign("the link mlx5_0/1 went down: 2 times", of_hardware=True),
    )


def test_where_dmesg_is_not_permitted_the_journal_is_read(tmp_path: Path) -> None:
    journal = "[99999999.250000] n3 kernel: mlx5_core 0000:81:00.0: Port module event: link_down\n"
    tools = {"dmesg": "exit 1", "journalctl": prints(journal), "nvidia-smi": prints(GPUS)}
    [kernel, *_] = signs(failed(tmp_path, tools))
    assert kernel == Sign(
        "kernel: n3 kernel: mlx5_core 0000:81:00.0: Port module event: link_down", of_hardware=True
    )


def test_a_gpu_that_is_lost(tmp_path: Path) -> None:
    lost = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system"
    tools = {"dmesg": "true", "nvidia-smi": f"echo '{lost}'; exit 15"}
    assert signs(failed(tmp_path, tools)) == (Sign(lost, of_hardware=True),)


@pytest.mark.extended
def test_tools_that_hang_are_given_up(tmp_path: Path) -> None:
    text = "trap '' TERM; sleep 600 & wait; sleep 600"
    found = signs(failed(tmp_path, dict.fromkeys(("dmesg", "journalctl", "nvidia-smi"), text)))
    assert {sign.of_hardware for sign in found} <= {False}


@pytest.mark.extended
@pytest.mark.parametrize("text", ["head -c 100000 /dev/urandom", "kill -SEGV $$", "exit 3"])
def test_tools_that_fail_or_print_junk_show_nothing(tmp_path: Path, text: str) -> None:
    assert signs(failed(tmp_path, dict.fromkeys(("dmesg", "journalctl", "nvidia-smi"), text))) == ()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("hpcdist_ended_by=TERM", id="ended from outside"),
        pytest.param("HPCDIST_JOB_DIR=/proc/self", id="not writable"),
    ],
)
def test_nothing_is_written(tmp_path: Path, line: str) -> None:
    assert failed(tmp_path, {"dmesg": "true", "nvidia-smi": "true"}, line) == ""
