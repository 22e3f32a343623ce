"""Why a job failed: the log's last message; the first failure, read from files that may be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.runs import failures
from hpcdist.runs.failures import NodeFaults, Sign, TaskEnd
from hpcdist.runs.rundir import RunDirectory
from tests.checks.records import ATTEMPT, BEGAN, run, write_faults

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
TEXT = f"""\
# n1.site
end 1795460001.500000 134 5 1
kernel [13039.27] {XID}
kernel [13039.30] NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, Ch 00000008, intr 00000000. MMU Fault
counter mlx5_0/1/link_downed 3 5
counter mlx5_0/1/symbol_error 0 1
counter mc0/ce_count 7 8
gpu 2 4 uncorrected memory errors since its driver was loaded
tool nvidia-smi did not answer within 3 s
end 1795460000.250000 1 4 0
"""
SIGNS = (
    Sign(f"kernel: {XID}", of_hardware=True),
    Sign("kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, Ch 00000008, intr 00000000. MMU Fault"),
    Sign("the link mlx5_0/1 went down: 2 times", of_hardware=True),
    Sign("symbol errors on the link mlx5_0/1: once"),
    Sign("corrected memory errors of mc0: once"),
    Sign("GPU 2 4 uncorrected memory errors since its driver was loaded", of_hardware=True),
    Sign("nvidia-smi did not answer within 3 s"),
)
NODE = NodeFaults(
    "n1.site", (TaskEnd(BEGAN + 0.25, 1, 4, 0, "n1.site"), TaskEnd(BEGAN + 1.5, 134, 5, 1, "n1.site")), SIGNS
)


def test_what_a_node_showed() -> None:
    assert failures.faults_in(TEXT) == NODE


@pytest.mark.parametrize(
    "more",
    [
        "end 1795460001.5 1",
        "end 1795460001.5 1 7 2",
        "end x 1 7 2\n",
        "counter mc0/ue_count 8 7\n",
        "counter unknown 1 2\n",
        "\x00\nkernel\nkernel \n",
        "9" * 500 + "\n",
    ],
)
def test_a_line_that_was_cut_short_or_is_none_is_left_out(more: str) -> None:
    assert failures.faults_in(TEXT + more) == NODE


def test_control_characters_of_the_kernel_are_not_shown() -> None:
    node = failures.faults_in("# n1\nend 1.5 1 0 0\nkernel [1.2] \x1b[31mlink_down\x07\n")
    assert node is not None
    assert node.signs == (Sign("kernel:  [31mlink_down", of_hardware=True),)


@pytest.mark.parametrize("text", ["", "# n1\n", "end 1 1 0", "kernel [1.2] link_down\n"])
def test_without_the_end_of_a_task_there_is_nothing(text: str) -> None:
    assert failures.faults_in(text) is None


@pytest.mark.parametrize(
    ("message", "of_hardware"),
    [
        ("mlx5_core 0000:81:00.0: health poll failed", True),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", True),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", False),
        ("NVRM: Xid (PCI:0000:3b:00): 13, Graphics SM Warp Exception", False),
        ("NVRM: Xid (PCI:0000:3b:00): 94, Contained ECC error", True),
        ("ib0: link down", True),
        ("Memory cgroup out of memory: Killed process 17 (python3)", False),
        ("nfs: server home not responding, timed out", False),
    ],
)
def test_what_is_of_the_hardware(message: str, *, of_hardware: bool) -> None:
    node = failures.faults_in(f"end 1 1 0 0\nkernel [ 1.25] {message}\n")
    assert node == NodeFaults("", (TaskEnd(1.0, 1, 0, 0, ""),), (Sign(f"kernel: {message}", of_hardware),))


def test_the_first_is_who_left_its_name_first(tmp_path: Path) -> None:
    directory = run(tmp_path)
    (tmp_path / "jobs" / "12" / "failure.0.0").write_text("3 2 n0.site\n")
    write_faults(tmp_path, 0, "# n0.site\nend 1795460000.125 3 2 2\n")
    write_faults(tmp_path, 1, TEXT)
    found = failures.of_attempt(directory, ATTEMPT)
    assert found is not None
    assert (found.rank, found.host, found.code, found.at) == (2, "n0.site", 3, BEGAN + 0.125)
    assert found.text == (
        "rank 2 on n0.site was the first to fail, with exit code 3, 0.125 s before rank 4 on n1.site and 1 "
        f"others; n1.site: {', '.join(sign.text for sign in SIGNS[:3])} and 4 more"
    )


def test_clocks_that_differ_do_not_change_who_was_first(tmp_path: Path) -> None:
    directory = run(tmp_path)
    (tmp_path / "jobs" / "12" / "failure.0.0").write_text("3 2 n0.site\n")
    write_faults(tmp_path, 0, "# n0.site\nend 1795460009.125 3 2 2\n")
    write_faults(tmp_path, 1, "# n1.site\nend 1795460000.125 1 4 0\n")
    found = failures.of_attempt(directory, ATTEMPT)
    assert found is not None
    assert found.text == (
        "rank 2 on n0.site was the first to fail, with exit code 3, "
        "and rank 4 on n1.site next, by whose clock it was 9 s earlier"
    )


def test_what_its_wrapper_knew(tmp_path: Path) -> None:
    directory = run(tmp_path)
    why = "the kernel killed a process for lack of memory (exit code 137); ask for more"
    (tmp_path / "jobs" / "12" / "failure.0.0").write_text(f"137 2 n0 {why}\n")
    found = failures.of_attempt(directory, ATTEMPT)
    assert found is not None
    assert found.text == f"rank 2 on n0 was the first to fail, with exit code 137: {why}"


def test_without_a_failure_there_is_none(tmp_path: Path) -> None:
    assert failures.of_attempt(run(tmp_path), ATTEMPT) is None


@pytest.mark.parametrize(
    ("why", "has_failed"),
    [
        ("failure", True),
        ("node_failure", True),
        ("timeout", False),
        ("preempt", False),
        ("terminated", False),
    ],
)
def test_an_attempt_that_was_ended_by_a_signal_has_no_first_failure(
    tmp_path: Path, why: str, *, has_failed: bool
) -> None:
    directory = run(tmp_path)
    (tmp_path / "jobs" / ATTEMPT.job / f"failure.{ATTEMPT.name}").write_text("75 0 n1\n")
    (tmp_path / "attempts" / f"{ATTEMPT.number}.why").write_text(f"{why}\n")
    assert (failures.first_failure(directory, [ATTEMPT]) is not None) == has_failed


FIRST = "rank 1 on n1 was the first to fail, with exit code 3"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hpcdist: x: 2 tasks by mpirun, 1 node: n1 (job 7)\nboom\n", ""),
        (f"hpcdist: x: 2 tasks: n1 (job 7)\n1: boom\nhpcdist: {FIRST}\nmpirun: bye\n", FIRST),
        ("0: hpcdist: a task's\n", ""),
    ],
)
def test_failure_reason(tmp_path: Path, text: str, sentence: str) -> None:
    run = RunDirectory(tmp_path)
    run.logs.mkdir()
    assert not failures.failure_reason(run)
    (run.logs / "job.out").write_text(text)
    assert failures.failure_reason(run) == sentence
