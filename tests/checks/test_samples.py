"""The samples of GPU use: what is read of the files that nodes wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.checks.usage import GpuUse, NodeUse, Samples, node_use_of, read_samples
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan

TEXT = """\
# n1.site nvidia-smi
1795461918 30 1 100 0:40:8192:81559 1:-:5:81559
1795461948 30 1 95 0:20:9000:81559 1:2:5:81559
1795462008 60 2 5 0:0:9000:81559 1:4:7:81559
"""
USE = NodeUse(
    "12",
    (0, 1),
    3,
    "n1.site",
    120,
    4,
    51.25,
    (GpuUse(0, 15.0, 0.5, 9000, 81559), GpuUse(1, 10 / 3, 1.0, 7, 81559)),
    60,
    0.5,
)


def test_spans_add_up_by_their_time() -> None:
    assert node_use_of(TEXT, "12", (0, 1), 3) == USE
    assert USE.use == pytest.approx((15 + 10 / 3) / 2)


@pytest.mark.parametrize(
    "more",
    [
        "1795462038 30 1 100 0:40:81",
        "junk\n",
        "\x00\n1 2\n",
        "1795462038 30 1 100\n",
        "1795462038 -30 1 100 0:40:8192:81559\n",
        "1795462038 30 1 100 0:4000:8192:81559\n",
        "9" * 400 + "\n",
        "²\n",
    ],
)
def test_a_line_that_was_cut_short_or_is_none_is_left_out(more: str) -> None:
    assert node_use_of(TEXT + more, "12", (0, 1), 3) == USE


@pytest.mark.parametrize("text", ["", "# n1 nvidia-smi\n", "# n1 nvidia-smi\n1795461918 30 1 100 0:40:81"])
def test_without_a_line_there_is_nothing(text: str) -> None:
    assert node_use_of(text, "12", (0, 0), 0) is None


def test_what_a_tool_does_not_know_is_unknown() -> None:
    found = node_use_of("# n1 xpu-smi\n1 30 1 - 0:-:-:-\n", "12", (0, 0), 0)
    assert found == NodeUse("12", (0, 0), 0, "n1", 30, 1, None, (GpuUse(0),), 0, None)


def test_the_files_of_a_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for job, name in (("12_3", "0.1.3"), ("12_3", "junk"), ("12_3", "0.1.3.x"), ("12_4", "0.0.0")):
        folder = tmp_path / "jobs" / job / "gpu_usage"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TEXT)
    found = read_samples(RunDirectory(tmp_path), StoredPlan(), ["12_3", "12_5"])
    assert found == Samples((USE._replace(job="12_3"),))


def test_of_many_nodes_evenly_spaced_ones_are_read_and_the_others_counted(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    folder = tmp_path / "jobs" / "12" / "gpu_usage"
    folder.mkdir(parents=True)
    for name in (*(f"0.{number}.0" for number in range(150)), *(f"1.0.{node}" for node in range(250))):
        (folder / name).write_text(TEXT)
    found = read_samples(RunDirectory(tmp_path), StoredPlan(), ["12"])
    read = [(use.attempt, use.node) for use in found.nodes]
    before = [((0, number), 0) for number in range(0, 150, 2)]
    assert read == [*before, *(((1, 0), node) for node in range(0, 250, 3))]
    assert found.left_out == 75 + 166
