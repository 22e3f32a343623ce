"""What the client of Polyaxon 1 and 2 records without a server: ``polyaxon-N/runs/UUID/`` (traceml 1.5)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from hpcdist.host import untrusted
from hpcdist.tracking.files import Artifact, Entry, Losses, unread

_MOST_BYTES: Final = 1 << 26
_LONGEST: Final = 1 << 16


def entries(folder: Path, losses: Losses) -> Iterator[Entry]:
    """Yield a line of each metric as an entry, then params, tags and models; what is damaged is left out.

    The client has a file a metric, of lines ``step|timestamp|metric``; in its name a slash is ``__``. Params,
    tags and models without a step come at the end of the program.

    Raises:
        OSError: if a folder cannot be read.
    """
    for run in _sorted(folder / "runs"):
        for file in _sorted(run / "events" / "metric"):
            if file.suffix == ".plx":
                yield from _values(file, losses)
        yield from _properties(run / "run.plx.json")
        yield from _models(run, folder, losses)


def _sorted(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _values(file: Path, losses: Losses) -> Iterator[Entry]:
    for line in _lines(file, losses):
        entry = _value(file.stem, line)
        if entry:
            yield entry
        else:
            losses.damaged += line.endswith(b"\n")


def _value(name: str, line: bytes) -> Entry | None:
    with suppress(ValueError, OverflowError):
        step, at, value = line.decode().strip("\n").split("|")
        return Entry(
            at=datetime.fromisoformat(at).timestamp(),
            step=float(step) if step else None,
            metrics={name: float(value)},
        )
    return None


def _lines(file: Path, losses: Losses) -> Iterator[bytes]:
    """Yield the lines of a file of events, which has a line of their names first."""
    try:
        with untrusted.open_regular(file) as stream:
            stream.readline(_LONGEST)
            while line := stream.readline(_LONGEST):
                yield line
    except OSError as error:
        losses.unread.append(unread(file, error))


def _models(run: Path, folder: Path, losses: Losses) -> Iterator[Entry]:
    """Yield the models, each with its path as seen from the outputs of its job: they are beside these."""
    outputs = folder.parents[3] / "outputs"
    if "_" in folder.parents[1].name:  # an element of an array
        outputs /= "element"
    for path, summary in _paths(run, losses):
        place = Path(os.path.normpath(run / path))
        kept = os.path.relpath(place, outputs) if run in place.parents else str(place)
        yield Entry(at=0.0, artifact=Artifact("model", kept, "", _size(place), _numbers(summary)))


def _paths(run: Path, losses: Losses) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each model, and what was said of it; a model at a step is a line of a file."""
    for each in filter(_is_model, _listed(run / "lineages.plx.json")):
        summary = each.get("summary") if isinstance(each.get("summary"), dict) else {}
        if isinstance(each.get("path"), str) and not summary.get("is_event"):
            yield each["path"], summary
    for file in _sorted(run / "events" / "model"):
        for line in _lines(file, losses):
            with suppress(ValueError, RecursionError):
                data = json.loads(line.split(b"|", 2)[-1])
                if isinstance(data, dict) and isinstance(data.get("path"), str):
                    yield data["path"], {}


def _numbers(summary: Mapping[str, Any]) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    for name, value in summary.items():
        with suppress(OverflowError):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = float(value)
    return found


def _size(path: Path) -> int:
    """Return the bytes of a file, or of the files of a folder; 0 if it is not there."""
    with suppress(OSError, ValueError):
        if path.is_dir():
            return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())
        return path.stat().st_size
    return 0


def has_model(folder: Path) -> bool:
    """Return whether the client logged a model: at a step, which is an event, or without one."""
    return any(
        any((run / "events" / "model").glob("*")) or any(map(_is_model, _listed(run / "lineages.plx.json")))
        for run in _sorted(folder / "runs")
    )


def _listed(file: Path) -> list[Any]:
    data = _json(file)
    return data if isinstance(data, list) else []


def _is_model(lineage: Any) -> bool:
    return isinstance(lineage, dict) and lineage.get("kind") == "model"


def _json(file: Path) -> Any:
    with suppress(OSError, ValueError, RecursionError):
        return json.loads(untrusted.read(file, _MOST_BYTES))
    return None


def _properties(file: Path) -> Iterator[Entry]:
    data = _json(file)
    if isinstance(data, dict):
        params, tags = data.get("inputs"), data.get("tags")
        yield Entry(
            at=0.0,
            params=params if isinstance(params, dict) else {},
            tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        )
