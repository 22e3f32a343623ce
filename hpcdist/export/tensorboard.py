"""Event files of TensorBoard, by its own writer, without TensorFlow.

A run has a folder, as has each rank above 0 and each element below it: TensorBoard draws these as curves of
one plot. The file has a name of its own, and is written as a whole: what else is there is left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.export import items
from hpcdist.export.files import replacing
from hpcdist.export.items import Item
from hpcdist.runs import shareable
from hpcdist.runs.shareable import Masked

_NEEDS: Final = "--tensorboard needs the package tensorboard"
_HINT: Final = "install it with `pip install 'hpcdist[tensorboard]'`"


class _Event(NamedTuple):
    at: float
    step: int
    metric: str
    value: float


def write(found: Sequence[Item], folder: Path) -> Iterator[tuple[Item, Path, int]]:
    """Write the event files of a run and its elements; yield each with its folder and its number of values.

    Values are floats of 32 bits there. One without a time has that of the start.

    Raises:
        ConfigError: if TensorBoard is not installed.
        OSError: if a file cannot be read or written.
    """
    try:
        import tensorboard.plugins.hparams.summary_v2  # noqa: F401 - before anything is written
    except ImportError as error:
        raise ConfigError(Problem(f"{_NEEDS}: {error}", hint=_HINT)) from None
    _, masked = shareable.read(found[0].run.directory, *(item.params for item in found))
    for item in found:
        yield item, folder / item.name, _write(item, folder / item.name, masked)


def _write(item: Item, folder: Path, masked: Masked) -> int:
    ranks: dict[int, list[_Event]] = {0: []}
    for name, step, at, value in item.points():
        event = _Event(at or item.begin, items.whole(step), _utf8(name.metric), value)
        ranks.setdefault(name.rank, []).append(event)
    for rank, events in ranks.items():
        place = folder / f"rank-{rank}" if rank else folder
        _write_file(place, item, sorted(events, key=itemgetter(0, 1)), {} if rank else _params(item, masked))
    return sum(map(len, ranks.values()))


def _params(item: Item, masked: Masked) -> dict[str, Any]:
    """Return the params as TensorBoard's HParams takes them: numbers, booleans and text."""
    return {
        _utf8(name): value if _is_number(value) else _utf8(masked(str(value)))
        for name, value in item.params.items()
    }


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= sys.float_info.max)


def _utf8(text: str) -> str:
    """Return a text as Protocol Buffers take it; lone surrogates, which JSON may have, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _write_file(folder: Path, item: Item, events: Iterable[_Event], params: Mapping[str, Any]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import summary_v2
    from tensorboard.summary.writer.record_writer import RecordWriter

    made = int(datetime.fromisoformat(item.run.record.created_at).timestamp())
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"events.out.tfevents.{made:010}.{item.run.record.token}") as stream:
        writer = RecordWriter(stream)
        writer.write(Event(wall_time=item.begin, file_version="brain.Event:2").SerializeToString())
        if params:
            hparams = summary_v2.hparams_pb(params, trial_id=item.key, start_time_secs=item.begin)
            writer.write(Event(wall_time=item.begin, summary=hparams).SerializeToString())
        for at, step, metric, value in events:
            point = Summary(value=[Summary.Value(tag=metric, simple_value=value)])
            writer.write(Event(wall_time=at, step=step, summary=point).SerializeToString())
