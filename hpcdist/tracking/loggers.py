"""Metrics that other loggers write into the outputs of a run.

``metrics.json``, ``metrics.jsonl``, ``metrics.csv`` and ``progress.csv``: Lightning's CSVLogger writes
``metrics.csv``, Ray and RLlib ``progress.csv``. Event files of TensorBoard. Runs of MLflow; runs in
``mlruns-N`` are of rank N, as the importer of Azure ML arranges. Other files in JSON are opened, as the
traces of Horovod and PyTorch (`hpcdist.tracking.traces`) may have any name.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hpcdist.base import ownership
from hpcdist.runs import attempt_files, events
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import files, traces
from hpcdist.tracking.files import Artifact, Losses, TrackedEntry

_STEPS: Final = ("step", "global_step", "training_iteration", "iteration", "epoch")
"""The keys of a line that may be its step; the first present one is."""

_DEPTH: Final = 4
_MOST_BYTES: Final = 1 << 30
_MOST_JSON: Final = 1 << 26
"""A JSON document takes many times its size in memory; lines are read one by one."""

_LONGEST_LINE: Final = 1 << 20
_RANK: Final = re.compile(r"(?:^|/)mlruns-([0-9]{1,9})/")


class LoggerFile(NamedTuple):
    """Metrics read from one file, attributed to a rank; files come in the order of their times."""

    job: str
    entries: Iterable[TrackedEntry]
    rank: int = 0


def read(directory: RunDirectory, losses: Losses) -> Iterator[LoggerFile]:
    """Yield the metrics of these files; files that cannot be read are added to ``losses``."""
    boards: dict[str, list[Path]] = {}
    for file, job, outputs in _places(directory, _may_have_metrics):
        if is_board(file.name):
            boards.setdefault(job, []).append(file)
            continue
        with _noted(file, losses):
            if file.name == META:
                yield from _mlflow_logs(file, job, outputs)
            elif reader := _READERS.get(file.name):
                yield LoggerFile(job, _rows(file, reader, losses))
            else:
                yield from _of_trace(file, job, losses)
    try:
        for job, several in boards.items():
            yield from (LoggerFile(job, entries) for entries in read_tensorboard(several, directory.outputs))
    except ImportError as error:
        losses.unread.append(f"{MISSING} ({error})")


def mlflow_runs(directory: RunDirectory) -> Iterator[LoggerFile]:
    """Yield the runs of MLflow; only they may have models, params and tags, too.

    Raises:
        OSError: if one cannot be read.
    """
    for place in _places(directory, lambda name: name == META):
        yield from _mlflow_logs(*place)


def _mlflow_logs(file: Path, job: str, outputs: Path) -> Iterator[LoggerFile]:
    """Yield the runs of an experiment of MLflow."""
    of_rank = _RANK.search(str(file.relative_to(outputs)))
    rank = int(of_rank[1]) if of_rank else 0
    yield from (LoggerFile(job, entries, rank) for entries in read_mlflow(file.parent, outputs))


def _places(directory: RunDirectory, wanted: Callable[[str], bool]) -> Iterator[tuple[Path, str, Path]]:
    """Yield each file with its job or element, and its outputs folder, in the order of their times."""
    outputs, started = directory.outputs, attempt_files.of_programs(directory)
    of_run = events.last_started(event for event in started if "_" not in event.job_id)
    there = () if outputs.is_symlink() else _timed(outputs, _DEPTH, wanted)
    for _, file in sorted(there):
        top = file.relative_to(outputs).parts[0]
        element = events.last_started(started, top)
        yield file, element or of_run, outputs / top if element else outputs


def _timed(folder: Path, depth: int, wanted: Callable[[str], bool]) -> Iterator[tuple[float, Path]]:
    """Yield the files with wanted names, and their times; links are not followed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and depth > 1:
                yield from _timed(Path(entry.path), depth - 1, wanted)
            elif wanted(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # programs remove old checkpoints
                    yield entry.stat().st_mtime, Path(entry.path)


def _may_have_metrics(name: str) -> bool:
    is_other = name in _READERS or name.endswith(".json") or name == META
    return is_other or is_board(name) or traces.is_packed(name)


def _of_trace(file: Path, job: str, losses: Losses) -> Iterator[LoggerFile]:
    """Yield the metrics of a Horovod timeline or a PyTorch trace; ``losses`` notes a truncated file."""
    with ownership.open_regular(file) as stream:
        written_at = os.fstat(stream.fileno()).st_mtime
        if metrics := traces.horovod(stream):
            if stream.read(1):
                losses.unread.append(f"{file} was read to its first {traces.MOST_TIMELINE >> 20} MiB")
            yield LoggerFile(job, [TrackedEntry(at=written_at, metrics=metrics)])
            return
        stream.seek(0)
        if profile := traces.pytorch(stream):
            entry = TrackedEntry(at=written_at, step=profile.step, metrics=profile.metrics)
            yield LoggerFile(job, [entry], profile.rank)


@contextmanager
def _noted(file: Path, losses: Losses) -> Iterator[None]:
    """Add a file that cannot be read to ``losses``; programs remove old ones."""
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as error:
        losses.add(file, error)


def _rows(file: Path, read: _Read, losses: Losses) -> Iterator[TrackedEntry]:
    """Yield the rows with numbers; after damage, only lines of JSON are read."""
    with _noted(file, losses), ownership.open_regular(file) as stream:
        length, most = os.fstat(stream.fileno()).st_size, _MOST_BYTES if read is not _of_json else _MOST_JSON
        if length > most:
            raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")
        pieces = iter(lambda: stream.readline(_LONGEST_LINE), b"")
        lines = (line.decode("utf-8", "replace") for line in pieces)
        with suppress(ValueError, RecursionError, csv.Error):
            yield from filter(None, map(_entry, read(lines)))


def _entry(row: object) -> TrackedEntry | None:
    if not isinstance(row, Mapping):
        return None
    numbers = {str(name): number for name, value in row.items() if (number := _number(value)) is not None}
    step = next((numbers.pop(name) for name in _STEPS if name in numbers), None)
    return TrackedEntry(at=0.0, step=step, metrics=numbers) if numbers else None


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or value is None else float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _of_json(lines: Iterable[str]) -> Iterable[object]:
    data = json.loads("".join(lines))
    return data if isinstance(data, list) else [data]


def _of_lines(lines: Iterable[str]) -> Iterator[object]:
    for line in lines:
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


_Read = Callable[[Iterable[str]], Iterable[object]]
_READERS: Final[Mapping[str, _Read]] = {
    "metrics.json": _of_json,
    "metrics.jsonl": _of_lines,
    "metrics.csv": csv.DictReader,
    "progress.csv": csv.DictReader,
}


# --- Scalars in TensorBoard's event files, ``events.out.tfevents.*`` (extra ``tensorboard``)
#
# A file is a sequence of records: the length of 8 bytes and its checksum of 4, the event, its checksum of 4
# (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details). TensorBoard decodes
# the events; its own loop over the records computes the checksums in Python, which took 26 times as long.

MISSING: Final = (
    "files of TensorBoard were not read; `pip install 'hpcdist[tensorboard]'` adds what reads them"
)

_Curve = tuple[str, ...]

_LONGEST: Final = 1 << 26
"""Bytes of a record; a longer one is damaged, and must not fill the memory."""

_HEAD: Final = 12
_TAIL: Final = 4

_START: Final = re.compile(r"(?:version|run|attempt|try|restart)?[-_]?[0-9]+")
_DIGITS_OF_TIME: Final = 6
"""Names of folders for one start of the program: ``version_1``, ``Nov23_06-10-00_node1``."""


def is_board(name: str) -> bool:
    """Return whether a file of this name has events."""
    return name.startswith("events.out.tfevents.")


def read_tensorboard(files: Iterable[Path], top: Path) -> list[list[TrackedEntry]]:
    """Return the scalars of each of these files, which belong to one job and are below a folder.

    Keras writes the same metrics into ``train`` and ``validation``, SummaryWriter.add_scalars into a folder
    per curve: if several folders have a metric, their names are its prefix. An incomplete or damaged record
    ends its file.

    Raises:
        ImportError: if TensorBoard is not installed.
    """
    found = [(_curve(file, top), [*_scalars(file)]) for file in files]
    curves: defaultdict[str, set[_Curve]] = defaultdict(set)
    for curve, entries in found:
        for name in {name for entry in entries for name in entry.metrics}:
            curves[name].add(curve)
    names = {
        (curve, name): "/".join((*curve[_shared(several) :], name))
        for name, several in curves.items()
        for curve in several
    }
    return [[_renamed(entry, curve, names) for entry in entries] for curve, entries in found]


def _shared(curves: Iterable[_Curve]) -> int:
    """Return how many of the first names are the same in all."""
    return sum(1 for _ in takewhile(lambda names: len({*names}) == 1, zip(*curves, strict=False)))


def _curve(file: Path, top: Path) -> _Curve:
    """Return the names of a file's folders, without those that differ from start to start."""
    return tuple(part for part in file.parent.relative_to(top).parts if not _is_start(part))


def _is_start(part: str) -> bool:
    return bool(_START.fullmatch(part)) or sum(map(str.isdigit, part)) >= _DIGITS_OF_TIME


def _renamed(entry: TrackedEntry, curve: _Curve, names: Mapping[tuple[_Curve, str], str]) -> TrackedEntry:
    metrics = {names[curve, name]: value for name, value in entry.metrics.items()}
    return TrackedEntry(at=entry.at, step=entry.step, metrics=metrics)


def _scalars(file: Path) -> Iterator[TrackedEntry]:
    """Yield the scalars of one file: numbers, as TensorFlow 1 and PyTorch write them, or tensors."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.util.tensor_util import make_ndarray

    plugins: dict[str, str] = {}
    with suppress(OSError, DecodeError, ValueError, TypeError), ownership.open_regular(file) as stream:
        for record in _records(stream):
            event = Event.FromString(record)
            metrics: dict[str, float | str] = {}
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                plugin = plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
                if kind == "simple_value":
                    metrics[value.tag] = value.simple_value
                elif kind == "tensor" and plugin == "scalars":  # only a name's first value has its plugin
                    metrics[value.tag] = float(make_ndarray(value.tensor).item())
            if metrics:
                yield TrackedEntry(at=event.wall_time, step=float(event.step), metrics=metrics)


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the whole records; one that is still being written is left out."""
    left = _MOST_BYTES
    while left > 0 and len(head := stream.read(_HEAD)) == _HEAD:
        (size,) = struct.unpack("<Q4x", head)
        record = stream.read(size + _TAIL) if size <= _LONGEST else b""
        if len(record) < size + _TAIL:
            return
        yield record[:-_TAIL]
        left -= _HEAD + size + _TAIL


# --- Runs and models that MLflow wrote as files, with `MLFLOW_TRACKING_URI=file:FOLDER` (MLflow 1 to 3)
#
# ``FOLDER/EXPERIMENT/RUN`` has a file for each metric, with lines ``milliseconds value step``, for each
# param and for each tag, named as it is; MLflow 3 keeps models in ``FOLDER/EXPERIMENT/models/ID``, and
# earlier ones in the ``artifacts`` of the run (``mlflow/store/tracking/file_store.py``).

META: Final = "meta.yaml"
"""The file of an experiment, of a run and of a model."""

_MLFLOW_START: Final = re.compile(rb"^start_time: ([0-9]{1,15})$", re.MULTILINE)

_OWN_TAG: Final = "mlflow."


def read_mlflow(experiment: Path, outputs: Path) -> Iterator[list[TrackedEntry]]:
    """Yield what each run of an experiment recorded, in the order of their starts, and then the models.

    Damaged parts are left out. A child's metrics have its name as a prefix. The path of a model is relative
    to ``outputs``.
    """
    for run in sorted(_folders(experiment), key=_start):
        if (run / "metrics").is_dir():
            yield [*_run(run, outputs)]
    for model in _folders(experiment / "models"):
        yield [*_model(model / "artifacts", model, outputs)]


def _folders(folder: Path) -> list[Path]:
    """Return the folders of runs, or of models; links are not followed."""
    there = () if folder.is_symlink() or not folder.is_dir() else folder.iterdir()
    return sorted(each for each in there if ownership.is_regular(each / META) and not each.is_symlink())


def _start(run: Path) -> int:
    with suppress(OSError):
        if found := _MLFLOW_START.search(ownership.read(run / META, _MOST_BYTES)):
            return int(found[1])
    return 0


def _run(folder: Path, outputs: Path) -> Iterator[TrackedEntry]:
    tags = {name: text for name, text in _texts(folder / "tags").items() if "\n" not in text}
    prefix = f"{tags.get('mlflow.runName', folder.name)}/" if "mlflow.parentRunId" in tags else ""
    yield from _points(folder, prefix)
    params = {f"{prefix}{name}": _value(value) for name, value in _texts(folder / "params").items()}
    own = tuple(f"{name}={value}" for name, value in tags.items() if not name.startswith(_OWN_TAG))
    if params or own:
        yield TrackedEntry(at=0.0, params=params, tags=own)
    for file in _files(folder / "artifacts"):
        if file.name == "MLmodel":
            yield from _model(file.parent, folder, outputs)


def _points(folder: Path, prefix: str = "") -> Iterator[TrackedEntry]:
    """Yield the values of each metric by their steps; MLflow 3 repeats one for each model."""
    for name, text in _texts(folder / "metrics").items():
        points = set()
        for line in text.splitlines():
            with suppress(ValueError):
                at, value, step = line.split()[:3]
                points.add((float(step), float(at), repr(float(value))))
        for number, time, shown in sorted(points):
            yield TrackedEntry(at=time / 1000, step=number, metrics={prefix + name: float(shown)})


def _model(place: Path, run: Path, outputs: Path) -> Iterator[TrackedEntry]:
    """Yield a model with the last values of the metrics of its run."""
    if there := _files(place):
        metrics = {name: value for entry in _points(run) for name, value in entry.metrics.items()}
        size = sum(file.lstat().st_size for file in there)
        yield TrackedEntry(
            at=0.0, artifact=Artifact("model", os.path.relpath(place, outputs), "", size, metrics)
        )


def _value(text: str) -> float | str:
    """Return a param as a number if it is one; MLflow keeps text."""
    with suppress(ValueError, RecursionError, OverflowError):
        number: object = json.loads(text)
        if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
            return number
    return text


def _texts(folder: Path) -> dict[str, str]:
    """Return the text of each file, by its path, which is the name of a metric, param or tag."""
    found = {}
    for file in _files(folder):
        with suppress(OSError):
            text = ownership.read(file, _MOST_BYTES).decode("utf-8", "replace")
            found[str(file.relative_to(folder))] = text
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files below a folder by their names, without links."""
    return [] if folder.is_symlink() else sorted(files.below(folder))
