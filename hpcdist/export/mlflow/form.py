"""What MLflow takes: names, values, times and states; pure.

Source: mlflow/utils/validation.py of MLflow 3.17, and mlflow/store/tracking/sqlalchemy_store.py, which keeps
infinities as the largest numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from hpcdist.errors import comma_list
from hpcdist.export import items
from hpcdist.export.items import Item, Name
from hpcdist.schedulers.job import JobState

PARAM: Final = 6000
"""Characters of a param's value."""

OLD_PARAM: Final = 500
"""The same before MLflow 2.8."""

TAG: Final = 5000
RUNNING: Final = "RUNNING"
_KEY: Final = 250
_PART: Final = 60
"""Characters that are left of the name of a file, before and after its dot; some take four bytes."""

_ODD_IN_PATH: Final = re.compile(r"[^ !$&'()*+,\-.:;=@\[\]^_`{}~\w]")
_ODD: Final = re.compile(r"[^/\w.\- :]")
_STATUS: Final = {
    JobState.COMPLETED: "FINISHED",
    JobState.FAILED: "FAILED",
    JobState.TIMEOUT: "FAILED",
    JobState.OUT_OF_MEMORY: "FAILED",
    JobState.NODE_FAIL: "FAILED",
    JobState.PREEMPTED: "KILLED",
    JobState.CANCELLED: "KILLED",
    JobState.PENDING: "SCHEDULED",
    JobState.UNSUBMITTED: "SCHEDULED",
}


class Point(NamedTuple):
    """A value of a metric; ``at`` in milliseconds since 1970."""

    key: str
    value: float
    at: int
    step: int

    @property
    def stored(self) -> tuple[float | str, int, int]:
        """What is equal for a point and for what MLflow answers of it."""
        if math.isnan(self.value):
            return "nan", self.at, self.step
        most = sys.float_info.max
        return max(-most, min(most, self.value)), self.at, self.step


def key(name: str) -> str:
    """Return a name that MLflow takes; one that has to be changed gets a hash, so that none are mixed."""
    clean = _ODD.sub("_", name)
    normal = posixpath.normpath(clean)
    is_path = clean and normal == clean and not clean.startswith(("..", "/")) and clean != "."
    if clean == name and is_path and len(name) <= _KEY:
        return name
    parts = [part for part in clean.split("/") if part not in {"", ".", ".."}]
    return f"{'/'.join(parts).lstrip('./')[: _KEY - 10].rstrip('/') or 'unnamed'}-{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def path(name: str) -> str:
    """Return the path of a file as MLflow keeps it: it reads one as a part of a URL.

    A part of it that has to be changed gets a hash.
    """
    return "/".join(_part(part) for part in name.split("/"))


def _part(name: str) -> str:
    clean = PurePath(_ODD_IN_PATH.sub("_", name))
    if str(clean) == name:
        return name
    return f"{clean.stem[:_PART]}-{_hash(name)}{clean.suffix[:_PART]}"


def metric(name: Name) -> str:
    """Return the name of a metric; those of ranks above 0 are a group of their own."""
    return key(f"rank-{name.rank}/{name.metric}" if name.rank else name.metric)


def points(item: Item) -> Iterator[Point]:
    """Yield the values; one without a time has that of the start."""
    keys = {name: metric(name) for name in item.series}
    for name, step, at, value in item.points():
        yield Point(keys[name], value, round((at or item.begin) * 1000), items.whole(step))


def text(value: Any) -> str:
    """Return a param's value: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def is_same(there: str, own: str) -> bool:
    """Whether MLflow has this value of a param, or as much of it as it takes."""
    return there == own or (len(there) in (_KEY, OLD_PARAM, PARAM) and own.startswith(there))


def status(state: JobState) -> str:
    """Return the status of a run; MLflow has no word for an unknown end, and none is made up."""
    return _STATUS.get(state, RUNNING)


def model(item: Item, path: str) -> str:
    """Return the name of a registered model, which has no slash and no colon."""
    return re.sub(r"[/:]", ".", key(f"{item.run.record.name}-{path}"))


def changes(item: Item, params: Mapping[str, str]) -> Iterator[str]:
    """Yield what MLflow does not take of an item and was changed, as sentences."""
    metrics = sorted({name.metric for name in item.series})
    found = (("metrics", metrics, key), ("params", params, key), ("tags", item.tags, key))
    for what, names, form in (*found, ("files", item.artifacts, path)):
        if changed := [f"{name!r} is {form(name)!r}" for name in names if form(name) != name]:
            yield f"MLflow does not take these names of {what}: {comma_list(changed)}"
    if long := [name for name, value in params.items() if len(value) > PARAM]:
        yield f"MLflow takes {PARAM} characters of a param; these were cut: {comma_list(long)}"
    if fractional := items.fractional(item):
        yield f"MLflow takes whole steps; those of these metrics were rounded down: {comma_list(fractional)}"
