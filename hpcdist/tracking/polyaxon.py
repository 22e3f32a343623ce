"""What the client of Polyaxon 1 and 2 records without a server: ``polyaxon-N/runs/UUID/`` (traceml 1.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from hpcdist.host import untrusted
from hpcdist.tracking.entries import Entry

_MOST_BYTES: Final = 1 << 30


def entries(folder: Path) -> Iterator[Entry]:
    """Yield a line of each metric as an entry, then params and tags; what is damaged is left out.

    The client has a file a metric, of lines ``step|timestamp|metric``; in its name a slash is ``__``. Params
    and tags come at the end of the program.
    """
    for run in _sorted(folder / "runs"):
        for file in _sorted(run / "events" / "metric"):
            if file.suffix == ".plx":
                yield from _values(file)
        yield from _properties(run / "run.plx.json")


def _sorted(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _values(file: Path) -> Iterator[Entry]:
    with suppress(OSError):
        for line in untrusted.read(file, _MOST_BYTES).decode("utf-8", "replace").splitlines()[1:]:
            with suppress(ValueError):
                step, at, value = line.split("|")
                yield Entry(
                    at=datetime.fromisoformat(at).timestamp(),
                    step=float(step) if step else None,
                    metrics={file.stem: float(value)},
                )


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
