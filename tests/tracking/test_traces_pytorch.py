"""Traces of PyTorch's profiler: how much of the time communication took, and how much nothing else hid."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import series, traces
from hpcdist.tracking.traces import Profile
from tests.tracking.test_loggers import write

STEPS: Final = [
    ("user_annotation", "ProfilerStep#2", 0, 4e6),
    ("user_annotation", "ProfilerStep#3", 4e6, 4e6),
]
GPU: Final = [
    ("user_annotation", "nccl:all_reduce", 0, 8e6),  # the CPU's call, which does not wait
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1e6, 2e6),
    ("kernel", "ncclDevKernel_AllGather", 2e6, 2e6),  # on another stream: 3 s together
    ("kernel", "ampere_sgemm_128x64", 0, 2e6),
    ("kernel", "ampere_sgemm_128x64", 3.5e6, 1e6),
]
CPU: Final = [("user_annotation", "gloo:all_reduce", 1e6, 2e6), ("cpu_op", "aten::mm", 1e6, 1e6)]


def trace(events: Sequence[tuple[str, str, float, float]], rank: int = 0) -> str:
    """Return a trace as PyTorch 2.13 writes it, with events of other kinds."""
    found: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "ts": 1.5, "pid": 1, "tid": 0}]
    found += [
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": -9e6, "dur": 99e6, "pid": "Spans"}
    ]
    found += [{"ph": "X", "cat": cat, "name": name, "ts": at, "dur": dur} for cat, name, at, dur in events]
    found += [{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "ts": 5e9}]
    head = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"backend": "nccl", "rank": rank}}
    return json.dumps({**head, "traceEvents": found, "traceName": "t.json"}, indent=2)


def summary(text: str | bytes) -> Profile | None:
    return traces.pytorch(io.BytesIO(text.encode() if isinstance(text, str) else text))


def test_kernels_of_several_streams_count_once_and_what_others_hide_is_not_exposed() -> None:
    assert summary(trace([*STEPS, *GPU], rank=3)) == Profile(
        3,
        3,
        {
            "pytorch/profile/seconds": 8.0,
            "pytorch/communication/seconds": 3.0,
            "pytorch/communication/share": 3 / 8,
            "pytorch/communication/exposed_share": 1.5 / 8,
        },
    )


def test_on_cpus_annotations_count() -> None:
    metrics = {
        "pytorch/profile/seconds": 8.0,
        "pytorch/communication/seconds": 2.0,
        "pytorch/communication/share": 0.25,
    }
    assert summary(trace([*STEPS, *CPU])) == Profile(0, 3, metrics)
    assert summary(gzip.compress(trace([*STEPS, *CPU]).encode())) == Profile(0, 3, metrics)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b'{"schemaVersion": 1}',
        b'{"schemaVersion": 1, "traceEvents": 3}',
        b'{"schemaVersion": 1, "traceEvents": [{"name": "gloo:x", "ts": "1", "dur": -1}]}',
        trace(STEPS).encode(),
        trace(CPU).encode()[:-200],
        gzip.compress(trace(CPU).encode())[:50],
        b"\x1f\x8b" + b"x" * 100,
        b'{"schemaVersion": 1, "traceEvents": ' + b"[" * 100_000,
    ],
    ids=range(10),
)
def test_what_is_no_trace_is_damaged_or_has_no_communication(text: bytes) -> None:
    assert summary(text) is None


@pytest.mark.extended
def test_a_small_file_that_is_huge_within_is_refused() -> None:
    zeros = gzip.compress(b" " * (traces.MOST_BYTES + 2))
    with pytest.raises(OSError, match="larger than 256 MiB"):
        summary(zeros)


def test_each_rank_has_a_line_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "traces/a.json", trace([*STEPS, *CPU], rank=1))
    found = series.read(write(tmp_path, "traces/b.json", trace([*STEPS, *GPU])), StoredPlan()).series
    assert {
        (key.rank, key.name): [*points.values] for key, points in found.items() if "share" in key.name
    } == {
        (1, "pytorch/communication/share"): [0.25],
        (0, "pytorch/communication/share"): [0.375],
        (0, "pytorch/communication/exposed_share"): [0.1875],
    }


TRAINING: Final = """
import gc, torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

def train():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    handler = tensorboard_trace_handler("outputs/traces", use_gzip=dist.get_rank() == 1)
    wanted = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=wanted, on_trace_ready=handler) as profiler:
        for _ in range(6):
            model(torch.ones(8, 64)).sum().backward()
            profiler.step()

dist.init_process_group("gloo")
train()
gc.collect()  # DistributedDataParallel, a reference cycle, would outlive the process group
dist.barrier()  # the first process to exit would close the connections of the others
dist.destroy_process_group()
"""
"""What DistributedDataParallel leaves behind may abort a process whose interpreter ends
(https://github.com/pytorch/pytorch/pull/179291)."""


@pytest.mark.extended
@pytest.mark.real
def test_what_pytorch_writes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, timeout=300)
    found = series.read(write(tmp_path, "note", ""), StoredPlan()).series
    shares = {key.rank: points for key, points in found.items() if key.name == "pytorch/communication/share"}
    assert {rank: [*points.steps] for rank, points in shares.items()} == {0: [3], 1: [3]}
    assert all(0 < points.values[0] < 1 for points in shares.values())
