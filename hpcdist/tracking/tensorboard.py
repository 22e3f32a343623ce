"""Scalars in TensorBoard's event files, ``events.out.tfevents.*`` (extra ``tensorboard``).

A file is a sequence of records: the length of 8 bytes and its checksum of 4, the event, its checksum of 4
(https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details). TensorBoard decodes the
events; its own loop over the records computes the checksums in Python, which took 26 times as long.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Final

from hpcdist.host import untrusted
from hpcdist.tracking.entries import Entry

MISSING: Final = (
    "files of TensorBoard were not read; `pip install 'hpcdist[tensorboard]'` adds what reads them"
)

_Curve = tuple[str, ...]

_MOST_BYTES: Final = 1 << 30
_LONGEST: Final = 1 << 26
"""Bytes of a record; what is longer is damaged, and must not fill the memory."""

_HEAD: Final = 12
_TAIL: Final = 4

_START: Final = re.compile(r"(?:version|run|attempt|try|restart)?[-_]?[0-9]+")
_DIGITS_OF_TIME: Final = 6
"""A folder may be of one start of the program: ``version_1``, ``Nov23_06-10-00_node1``."""


def is_board(name: str) -> bool:
    """Return whether a file of this name has events."""
    return name.startswith("events.out.tfevents.")


def read(files: Iterable[Path], top: Path) -> list[list[Entry]]:
    """Return the scalars of each of these files, which are of one job and lie below a folder.

    Keras writes the same metrics into ``train`` and ``validation``, SummaryWriter.add_scalars into a folder a
    curve: where several folders have a metric, their names come before it. An incomplete or damaged record
    ends its file.

    Raises:
        ImportError: if TensorBoard is not installed.
    """
    found = [(_curve(file, top), [*_entries(file)]) for file in files]
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


def _renamed(entry: Entry, curve: _Curve, names: Mapping[tuple[_Curve, str], str]) -> Entry:
    metrics = {names[curve, name]: value for name, value in entry.metrics.items()}
    return Entry(at=entry.at, step=entry.step, metrics=metrics)


def _entries(file: Path) -> Iterator[Entry]:
    """Yield the scalars of one file: numbers, as TensorFlow 1 and PyTorch write them, or tensors."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.util.tensor_util import make_ndarray

    plugins: dict[str, str] = {}
    with suppress(OSError, DecodeError, ValueError, TypeError), untrusted.open_regular(file) as stream:
        for record in _records(stream):
            event = Event.FromString(record)
            metrics: dict[str, float | str] = {}
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                plugin = plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
                if kind == "simple_value":
                    metrics[value.tag] = value.simple_value
                elif kind == "tensor" and plugin == "scalars":  # only the first of a name has its plugin
                    metrics[value.tag] = float(make_ndarray(value.tensor).item())
            if metrics:
                yield Entry(at=event.wall_time, step=float(event.step), metrics=metrics)


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the whole records; what is not yet written to its end is left out."""
    left = _MOST_BYTES
    while left > 0 and len(head := stream.read(_HEAD)) == _HEAD:
        (size,) = struct.unpack("<Q4x", head)
        record = stream.read(size + _TAIL) if size <= _LONGEST else b""
        if len(record) < size + _TAIL:
            return
        yield record[:-_TAIL]
        left -= _HEAD + size + _TAIL
