"""TensorBoard's own EventAccumulator reads what was written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.tracking import export
from tests.tracking.made import AT, COMPLETED, logged, made


def written(run: Run, folder: Path) -> int:
    found, _ = export.read(Report(run, COMPLETED), AT)
    return sum(count for _, _, count in export.write_tensorboard(found, folder))


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def curve(found: EventAccumulator, name: str) -> list[tuple[int, float, float]]:
    return [(event.step, event.wall_time - AT, event.value) for event in found.Scalars(name)]


def test_values_steps_and_times(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", f"started 7 {AT + 5} 0")
    logged(
        run,
        "7/0.0/rank-0",
        {"step": 1, "metrics": {"val/loss @1": 0.5, "m": 1}},
        {"step": 2.5, "metrics": {"val/loss @1": "nan"}},
        {"step": 3, "metrics": {"val/loss @1": "inf"}},
    )
    logged(run, "7/0.0/rank-2", {"step": 4, "at": 0, "metrics": {"m": 3}})
    assert written(run, tmp_path / "tb") == 5
    found = read(tmp_path / "tb/train-1")
    (first, second, third), m = curve(found, "val/loss @1"), curve(found, "m")
    assert (first, second[:2], third, m) == ((1, 1, 0.5), (2, 2), (3, 3, math.inf), [(1, 1, 1)])
    assert math.isnan(second[2])
    assert curve(read(tmp_path / "tb/train-1/rank-2"), "m") == [(4, 5, 3)]


def test_written_again_nothing_is_doubled_and_what_else_is_there_stays(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", f"started 7 {AT} 0")
    (tmp_path / "tb/train-1").mkdir(parents=True)
    (tmp_path / "tb/train-1/notes").write_text("mine")
    for count in (1, 3):
        logged(run, "7/0.0/rank-0", *({"step": step, "metrics": {"m": step}} for step in range(count)))
        written(run, tmp_path / "tb")
    assert curve(read(tmp_path / "tb/train-1"), "m") == [(0, 1, 0), (1, 2, 1), (2, 3, 2)]
    assert sorted(file.name for file in (tmp_path / "tb/train-1").iterdir()) == [
        f"events.out.tfevents.{AT}.tokentrain1", "notes"
    ]  # fmt: skip


def test_params_are_those_of_hparams(tmp_path: Path) -> None:
    params = {"lr": 0.1, "bn": True, "layers": [1, 2], "note": "a", "api_key": "sesame-open"}
    run = made(tmp_path / "runs", identity={"params": params})
    written(run, tmp_path / "tb")
    found = read(tmp_path / "tb/train-1")
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    shown: dict[str, Any] = {
        name: getattr(value, value.WhichOneof("kind")) for name, value in session.hparams.items()
    }
    masked = {"lr": 0.1, "bn": True, "layers": "[1, 2]", "note": "a", "api_key": "********"}
    assert (shown, session.group_name) == (masked, "tokentrain1")


def test_elements_of_an_array_are_folders_below_it(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", request={"array": "0-1"})
    for element in (0, 1):
        logged(run, f"7_{element}/0.0/rank-0", {"step": 1, "metrics": {"m": element}})
    written(run, tmp_path / "tb")
    assert [curve(read(tmp_path / f"tb/train-1/{n}"), "m") for n in (0, 1)] == [[(1, 1, 0)], [(1, 1, 1)]]


def test_what_protocol_buffers_do_not_take_becomes_text(tmp_path: Path) -> None:
    odd = {"seed": 10**400, "\ud800": "\udfff"}
    run = made(tmp_path / "runs", "started 7 1800000000 0", identity={"params": odd})
    run.directory.outputs.mkdir()
    (run.directory.outputs / "metrics.json").write_text('{"\\ud800": 1}')
    found, _ = export.read(Report(run, COMPLETED), AT + 100.0)
    [(_, folder, count)] = export.write_tensorboard(found, tmp_path / "boards")
    assert count == 1
    assert EventAccumulator(str(folder)).Reload().Tags()["scalars"] == ["\\ud800"]
