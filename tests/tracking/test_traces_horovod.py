"""Horovod's timeline: times of negotiation and of operations, while it is written and afterwards."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import series, traces
from tests.tracking.test_loggers import curves, write

HEAD: Final = (
    '[\n{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1}},\n'
)

EVENTS: Final = [
    ("NEGOTIATE_ALLREDUCE", 1_000_000, 1),
    ("NEGOTIATE_ALLREDUCE", 2_000_000, 2),
    (None, 3_000_000, 1),
    (None, 4_000_000, 2),
    ("ALLREDUCE", 4_000_000, 1),
    ("NCCL_ALLREDUCE", 4_500_000, 1),
    ("NEGOTIATE_BROADCAST", 4_500_000, 3),
    (None, 5_500_000, 1),
    (None, 5_500_000, 3),
    (None, 6_000_000, 1),
    ("BROADCAST", 8_000_000, 3),
    (None, 9_000_000, 3),
]
"""Two tensors that are negotiated at overlapping times, and a third during an operation of the first."""

WHOLE: Final = {
    "horovod/timeline/seconds": 8.0,
    "horovod/negotiation/seconds": 4.0,
    "horovod/negotiation/share": 0.5,
    "horovod/allreduce/seconds": 2.0,
    "horovod/allreduce/share": 0.25,
    "horovod/allreduce/nccl_allreduce/seconds": 1.0,
    "horovod/broadcast/seconds": 1.0,
    "horovod/broadcast/share": 0.125,
}


def trace(events: Iterable[tuple[str | None, int, int]], end: str = "]") -> str:
    """Return a trace as Horovod writes it: between events there is no end of a line."""
    return HEAD + ",".join(map(event, events)) + end


def event(values: tuple[str | None, int, int]) -> str:
    name, at, tensor = values
    kind: dict[str, Any] = {"ph": "B", "name": name} if name else {"ph": "E"}
    return json.dumps({**kind, "ts": at, "pid": tensor})


def summary(text: str) -> dict[str, float]:
    return traces.horovod(io.BytesIO(text.encode()))


def test_times_of_several_tensors_count_once() -> None:
    assert summary(trace(EVENTS)) == WHOLE


@pytest.mark.parametrize("before", range(100, 260, 10))
def test_an_event_at_the_border_of_two_pieces_is_read(before: int) -> None:
    """Horovod's file is read by the MiB."""
    text = trace(EVENTS, "")
    assert summary(text.replace(",{", f",{' ' * ((1 << 20) - before)}{{", 1)) == WHOLE


def test_what_goes_on_counts_up_to_the_last_event() -> None:
    """The job runs, or was killed: there is no last bracket, and half an event."""
    found = summary(trace(EVENTS[:6], ',{"ph": "E", "ts": 70'))
    assert found == {
        "horovod/timeline/seconds": 3.5,
        "horovod/negotiation/seconds": 3.0,
        "horovod/negotiation/share": pytest.approx(3 / 3.5),
        "horovod/allreduce/seconds": 0.5,
        "horovod/allreduce/share": pytest.approx(0.5 / 3.5),
        "horovod/allreduce/nccl_allreduce/seconds": 0.0,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("{}", {}),
        ("[1, 2]", {}),
        (HEAD, {}),
        (trace([(None, 5, 1), (None, 6, 2)]), {"horovod/timeline/seconds": pytest.approx(1e-6)}),
        (trace([("A", 9, 1), (None, 5, 1)]), {"horovod/timeline/seconds": 0, "horovod/a/seconds": 0}),
        (HEAD + "\0" * 5000 + '{"ph": "B", "name": "' + "A" * 5000, {}),
    ],
    ids=range(7),
)
def test_what_is_no_timeline_or_damaged(text: str, expected: dict[str, float]) -> None:
    assert summary(text) == expected


def test_a_damaged_one_is_bounded() -> None:
    """Activities inside one another without end, or each with a name of its own."""
    nested = summary(trace(("A", number, 1) for number in range(5000)))
    assert {*nested} == {
        "horovod/timeline/seconds", "horovod/a/seconds", "horovod/a/share", "horovod/a/a/seconds",
        "horovod/a/a/a/seconds",
    }  # fmt: skip
    named = summary(trace((f"A{number}", number, number) for number in range(5000)))
    assert len(named) == 1 + 2 * 101
    assert "horovod/other/seconds" in named


@pytest.mark.parametrize("name", ["timeline.json", "a/b/horovod.json"])
def test_it_is_among_the_metrics_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    write(tmp_path, "config.json", '{"loss": 1}')
    found = curves(write(tmp_path, name, trace(EVENTS)))
    assert found == {f"9 {metric}": [(0, value)] for metric, value in WHOLE.items()}


def test_of_a_large_one_the_first_part_is_read_which_is_said(tmp_path: Path) -> None:
    run = write(tmp_path, "timeline.json", trace(EVENTS[:4], ","))
    file = tmp_path / "outputs" / "timeline.json"
    with file.open("a") as stream:
        stream.truncate(traces.MOST_TIMELINE + 5000)
    with file.open("a") as stream:
        stream.write(trace(EVENTS[4:]))
    found = series.read(run, StoredPlan())
    assert {key.name: points.values[0] for key, points in found.series.items()} == {
        "horovod/timeline/seconds": 3,
        "horovod/negotiation/seconds": 3,
        "horovod/negotiation/share": 1,
    }
    assert found.unread == (f"{file} was read to its first 64 MiB",)


TRAINING: Final = """
import os, time
import horovod.torch as hvd, torch
hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
for _ in range(600):
    seen = "ALLGATHER" in open(os.environ["HOROVOD_TIMELINE"]).read()
    if hvd.allgather(torch.tensor([int(seen)]), name="losses").all():
        break
    time.sleep(0.1)
hvd.shutdown()
"""
"""What its thread has not written when Horovod ends is lost, so the program goes on until it has."""


@pytest.mark.real
@pytest.mark.extended
def test_what_horovod_writes(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "train.py").write_text(TRAINING)
    file = tmp_path / "outputs" / "t.json"
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "-x", f"HOROVOD_TIMELINE={file}"]
    subprocess.run([*words, sys.executable, "train.py"], cwd=tmp_path, check=True, timeout=300)
    found = curves(write(tmp_path, "note", ""))
    seconds = {name.removeprefix("9 horovod/"): values[0][1] for name, values in found.items()}
    operations = {name.partition("/")[0] for name in seconds}
    assert operations == {"timeline", "negotiation", "broadcast", "allreduce", "allgather"}
    whole = seconds.pop("timeline/seconds")
    assert all(0 <= value <= max(whole, 1) for value in seconds.values())
    assert seconds["allreduce/mpi_allreduce/seconds"] > 0
    assert seconds["allreduce/share"] == pytest.approx(seconds["allreduce/seconds"] / whole)
    json.loads(file.read_text())  # the format that the reader expects: a whole one is JSON
