"""Metrics in event files of TensorBoard, written by its own writer and by PyTorch's."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import tensorboard as tensorboard_package
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from hpcdist.runs.rundir import RunDirectory, encode
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import loggers, series
from hpcdist.tracking.series import SeriesKey
from tests.calls import calls
from tests.tracking.test_client import CHECKOUT
from tests.tracking.test_comparison import RECORD
from tests.tracking.test_loggers import curves, write

Values = Mapping[int, float]


def number(tag: str, value: float) -> Summary:
    """Return a value as TensorFlow 1 and PyTorch write it."""
    return Summary(value=[Summary.Value(tag=tag, simple_value=value)])


def wrote(run: Path, folder: str, *, at: float = 0, tensor: bool = False, **metrics: Values) -> Path:
    """Write one file below the outputs; return it."""
    writer = EventFileWriter(str(run / "outputs" / folder))
    for name, values in metrics.items():
        for step, value in values.items():
            summary = scalar_pb(name, value) if tensor else number(name, value)
            writer.add_event(Event(wall_time=at + step, step=step, summary=summary))
    writer.close()
    [file] = (run / "outputs" / folder).glob("*tfevents*")
    return file


@pytest.mark.parametrize("tensor", [False, True])
def test_both_forms_of_scalars(tmp_path: Path, tensor: bool) -> None:  # noqa: FBT001 - pytest's way
    file = wrote(tmp_path, "runs/a", at=1.8e9, tensor=tensor, loss={0: 2, 5: math.nan, 9: 0.5})
    write(tmp_path, "note", "")
    points = series.read(RunDirectory(tmp_path), StoredPlan()).series[SeriesKey("9", "loss", 0)]
    assert [*points.steps] == [0, 5, 9]
    assert [*map(str, points.values)] == ["2.0", "nan", "0.5"]
    assert [*points.times] == [1.8e9, 1.8e9 + 5, 1.8e9 + 9]
    assert file.name.startswith("events.out.tfevents.")


def test_what_is_no_scalar_is_left_out(tmp_path: Path) -> None:
    writer = EventFileWriter(str(tmp_path / "outputs"))
    image = Summary.Value(tag="image", image=Summary.Image(height=1, width=1, encoded_image_string=b"x"))
    text = scalar_pb("text", 1.0)
    text.value[0].metadata.plugin_data.plugin_name = "text"
    writer.add_event(Event(step=1, summary=Summary(value=[image, *number("loss", 1.5).value, *text.value])))
    writer.close()
    assert curves(write(tmp_path, "note", "")) == {"9 loss": [(1, 1.5)]}


FIRST: Final = {1: 1.0, 2: 2.0, 3: 3.0}
SECOND: Final = {3: 30.0, 4: 40.0}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("logs", "logs/Nov23_06-10-00_node1"),
        ("logs/Nov23_06-10-00_node1", "logs/Nov23_07-10-00_node7"),
        ("lightning_logs/version_0", "lightning_logs/version_1"),
        ("runs/1", "runs/2"),
    ],
)
def test_files_of_several_starts_are_one_line(tmp_path: Path, first: str, second: str) -> None:
    for at, (folder, values) in enumerate([(first, FIRST), (second, SECOND)]):
        file = wrote(tmp_path, folder, loss=values)
        os.utime(file, (at, at))
    assert curves(write(tmp_path, "note", "")) == {"9 loss": [(1, 1), (2, 2), (3, 30), (4, 40)]}


def test_two_files_of_one_folder_are_one_line(tmp_path: Path) -> None:
    """As of a training that was started again, which names its folder itself."""
    for at, values in enumerate([FIRST, SECOND]):
        file = wrote(tmp_path, f"start{at}", loss=values)
        file = file.rename(tmp_path / "outputs" / f"events.out.tfevents.{at}.node.1.0")
        os.utime(file, (at, at))
    assert curves(write(tmp_path, "note", "")) == {"9 loss": [(1, 1), (2, 2), (3, 30), (4, 40)]}


def test_folders_of_the_same_metric_are_curves_of_their_own(tmp_path: Path) -> None:
    wrote(tmp_path, "logs/20261123-061000/train", epoch_loss={0: 2}, lr={0: 0.5})
    wrote(tmp_path, "logs/20261123-061000/validation", epoch_loss={0: 3})
    assert curves(write(tmp_path, "note", "")) == {
        "9 train/epoch_loss": [(0, 2)],
        "9 validation/epoch_loss": [(0, 3)],
        "9 lr": [(0, 0.5)],
    }


def test_the_folders_of_add_scalars_stand_beside_that_of_the_writer(tmp_path: Path) -> None:
    for folder, value in {"tb": 1, "tb/acc_top1": 2, "tb/acc_top5": 3}.items():
        wrote(tmp_path, folder, acc={0: value})
    found = curves(write(tmp_path, "note", ""))
    assert found == {"9 acc": [(0, 1)], "9 acc_top1/acc": [(0, 2)], "9 acc_top5/acc": [(0, 3)]}


def test_elements_of_an_array_are_apart(tmp_path: Path) -> None:
    wrote(tmp_path, "3/logs", loss={0: 1})
    wrote(tmp_path, "logs", loss={0: 2})
    assert curves(write(tmp_path, "note", "")) == {"7_3 loss": [(0, 1)], "9 loss": [(0, 2)]}


@pytest.mark.parametrize("lost", [1, 5, 20, 40])
def test_a_half_written_event_is_left_out(tmp_path: Path, lost: int) -> None:
    file = wrote(tmp_path, "logs", loss=FIRST)
    file.write_bytes(file.read_bytes()[:-lost])
    assert curves(write(tmp_path, "note", "")) == {"9 loss": [(1, 1), (2, 2)]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * 100,
        struct.pack("<QI", 5, 0) + b"xxxxx" + bytes(4),
        struct.pack("<QI", 1 << 62, 0),
        struct.pack("<QI", 0, 0) + bytes(4),
    ],
)
def test_a_damaged_file_has_nothing_from_there_on(tmp_path: Path, content: bytes) -> None:
    file = wrote(tmp_path, "logs", loss={1: 1})
    file.write_bytes(file.read_bytes() + content)
    assert curves(write(tmp_path, "note", "")) == {"9 loss": [(1, 1)]}


def test_who_looks_for_models_reads_no_metrics(tmp_path: Path) -> None:
    run = write(tmp_path, "note", "")
    work = []
    for count in (1, 1000):
        wrote(tmp_path, f"logs{count}", loss=dict.fromkeys(range(count), 0.5))
        work.append(calls(lambda: series.read_others(run)))
        (tmp_path / "outputs" / f"logs{count}").rename(tmp_path / f"logs{count}")
    assert work[0] == work[1]


WITHOUT: Final = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "tensorboard":
            raise ModuleNotFoundError("No module named 'tensorboard'", name=name)
sys.meta_path.insert(0, Missing())
from hpcdist.cli import program
program()
"""


@pytest.mark.parametrize("verb", ["metrics", "compare"])
def test_without_the_extra_a_sentence_says_what_to_install(tmp_path: Path, verb: str) -> None:
    write(tmp_path / "train-1", "metrics.json", '{"accuracy": 0.5}')
    (tmp_path / "train-1" / "record.json").write_bytes(encode(RECORD))
    words = [sys.executable, "-c", WITHOUT, verb, "train-1", "--runs-dir", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ("accuracy" in done.stdout, done.stderr) == (True, "")
    wrote(tmp_path / "train-1", "logs", loss=FIRST)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    sentence = f"warning: {loggers.MISSING} (No module named 'tensorboard')\n"
    assert ("accuracy" in done.stdout, done.stderr) == (True, sentence)


def test_nothing_of_it_is_imported_without_such_a_file(tmp_path: Path) -> None:
    write(tmp_path, "metrics.json", '{"accuracy": 0.5}')
    program = (
        "import sys, pathlib\n"
        "from hpcdist.runs.rundir import RunDirectory\n"
        "from hpcdist.runs.stored_plan import StoredPlan\n"
        "from hpcdist.tracking import series\n"
        "assert series.read(RunDirectory(pathlib.Path(sys.argv[1])), StoredPlan()).series\n"
        "print([name for name in ('tensorboard', 'google.protobuf', 'numpy') if name in sys.modules])\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


TORCH: Final = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
for step in range(3):
    writer.add_scalar("loss", 1 / (step + 1), step)
    writer.add_scalar("new", step, step, new_style=True)
writer.add_scalars("acc", {"train": 0.5, "val": 0.25}, 2)
writer.add_hparams({"lr": 0.1}, {"best": 0.75}, run_name="1795421390.5")
writer.add_text("note", "text")
writer.close()
"""


@pytest.mark.extended
@pytest.mark.real
def test_what_pytorch_writes(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TORCH, str(tmp_path / "outputs" / "runs" / "Nov23_06-10-00_node1")]
    subprocess.run(words, check=True, timeout=300)
    assert curves(write(tmp_path, "note", "")) == {
        "9 loss": [(0, 1), (1, 0.5), (2, pytest.approx(1 / 3))],
        "9 new": [(0, 0), (1, 1), (2, 2)],
        "9 acc_train/acc": [(2, 0.5)],
        "9 acc_val/acc": [(2, 0.25)],
        "9 best": [(0, 0.75)],
    }


KERAS: Final = """
import sys
sys.path.append(sys.argv[2])
import numpy, tensorflow
model = tensorflow.keras.Sequential([tensorflow.keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = numpy.ones((32, 4)), numpy.ones((32, 1))
board = tensorflow.keras.callbacks.TensorBoard(sys.argv[1])
history = model.fit(x, y, validation_data=(x, y), epochs=3, callbacks=[board], verbose=0).history
print(history["loss"] + history["val_loss"])
"""


@pytest.mark.extended
@pytest.mark.real
def test_what_keras_writes(tmp_path: Path) -> None:
    python = CHECKOUT / ".frameworks" / "tensorflow" / "bin" / "python"
    packages = Path(tensorboard_package.__file__).parents[1]  # tensorflow has an environment of its own
    words = [str(python), "-c", KERAS, str(tmp_path / "outputs" / "20261123-061000"), str(packages)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    losses = json.loads(done.stdout.splitlines()[-1])
    found = curves(write(tmp_path, "note", ""))
    for name, values in {"train": losses[:3], "validation": losses[3:]}.items():
        assert [value for _, value in found[f"9 {name}/epoch_loss"]] == pytest.approx(values)
