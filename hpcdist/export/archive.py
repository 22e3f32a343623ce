"""A tar archive of what a run kept, with all that shows where it came from.

It has the same bytes for the same run: names in order, the time of the run, no owner. Links are not followed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hpcdist import __version__
from hpcdist.errors import Problem, warning
from hpcdist.export import kept, table
from hpcdist.export.files import replacing
from hpcdist.export.items import Item
from hpcdist.host import untrusted
from hpcdist.runs import rundir, shareable
from hpcdist.runs.state import Attempt

_README: Final = """\
# {name}

What the run {name} kept, and what it was made from. Written by hpcdist {version}.

outputs/          the artifacts and models that its program recorded
tracking/         those that Polyaxon's client keeps in a folder of its own
run.json          its job, its times, its end, params, tags, models with the metrics that they reached
metrics.csv       every value of every metric
experiment.yml    the experiment file, as it was submitted
options.json      the options of its submission
plan.json         everything that was decided from it
job.sh            the script that ran; the batch system takes it as it is
trials.tsv        the trials of a search
code.json         the commit of the working folder, and whether it had changes
code.diff         these changes
MANIFEST.json     the bytes and the SHA-256 of each file, and what is odd about artifacts
SHA256SUMS        the same for `sha256sum --check SHA256SUMS`

`{mask}` stands for a value that looked like a secret.
"""


class _Member(NamedTuple):
    path: str
    bytes: int
    sha256: str


Show = Callable[[Iterable[Problem]], None]


def save(runs: Iterable[Sequence[Item]], path: Path, show: Show) -> int:
    """Write the archive of runs with their elements, as `replacing` does; return how many files it has.

    ``show`` gets warnings.

    Raises:
        OSError: if a file cannot be read or written.
    """
    with replacing(path) as stream:
        return write(runs, stream, show)


def write(runs: Iterable[Sequence[Item]], stream: BinaryIO, show: Show) -> int:
    """Write the archive to a stream, from its beginning to its end."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        return sum(_Folder(tar, items).write(show) for items in runs)


class _Folder:
    """The part of an archive that one run is."""

    def __init__(self, tar: tarfile.TarFile, items: Sequence[Item]) -> None:
        self._tar = tar
        self._items = items
        self._run = items[0].run
        self._time = int(datetime.fromisoformat(self._run.record.created_at).timestamp())
        self._members: list[_Member] = []

    def write(self, show: Show) -> int:
        texts, masked = shareable.read(self._run.directory, *(item.params for item in self._items))
        self._add("README.md", _README.format(name=self._run.name, version=__version__, mask=shareable.MASK))
        for name, text in texts.items():
            self._add(name, text)
        self._add("run.json", masked(_as_json([_data(item) for item in self._items])))
        with tempfile.TemporaryFile() as metrics:
            table.write(self._items, metrics)
            size = metrics.tell()
            metrics.seek(0)
            self._add_stream("metrics.csv", metrics, size)
        odd = [
            each for item in self._items for path in sorted(item.artifacts) for each in self._keep(item, path)
        ]
        missing = [{"path": kept.in_run(path), "why": why} for path, why in odd]
        self._add("MANIFEST.json", _as_json({"files": [m._asdict() for m in self._members], "odd": missing}))
        self._add("SHA256SUMS", "".join(map(_sum, self._members)))
        show(warning(f"{self._run.name}: {kept.in_run(path)} {why}") for path, why in odd)
        return len(self._members)

    def _keep(self, item: Item, path: str) -> Iterable[tuple[str, str]]:
        """Add the files of an artifact; return what is odd about them."""
        found = kept.find(self._run.directory, path, item.artifacts[path])
        for file in found.files:
            with untrusted.open_regular(file.place) as stream:
                self._add_stream(kept.in_run(file.path), stream, os.fstat(stream.fileno()).st_size)
        return found.odd

    def _add(self, path: str, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        self._add_stream(path, io.BytesIO(data), len(data))

    def _add_stream(self, path: str, stream: BinaryIO, size: int) -> None:
        member = tarfile.TarInfo(f"{self._run.name}/{path}")
        member.size, member.mtime, member.mode = size, self._time, 0o644
        hashed = _Hashed(stream)
        self._tar.addfile(member, hashed)
        self._members.append(_Member(path, size, hashed.digest.hexdigest()))


class _Hashed(io.RawIOBase):
    """Hashes what is read from a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


def _data(item: Item) -> dict[str, Any]:
    """Return what is known of an item, for JSON."""
    record = item.run.record
    return {
        "name": item.name,
        "job": item.job,
        "site": record.site,
        "scheduler": record.scheduler,
        "submission_sha256": record.digest,
        "created_at": record.created_at,
        "submitted_at": record.submitted_at,
        "state": item.state.value,
        "attempts": [_attempt(attempt) for attempt in item.attempts],
        "description": item.plan.description,
        "tags": item.tags,
        "params": item.params,
        "artifacts": [
            {"path": kept.in_run(path), "kind": each.kind, "sha256": each.sha256, "metrics": each.metrics}
            for path, each in sorted(item.artifacts.items())
        ],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    times = {name: getattr(attempt, name) for name in ("queued", "started", "ended")}
    return {
        **attempt._asdict(),
        "number": attempt.name,
        **{name: None if at is None else rundir.timestamp(at) for name, at in times.items()},
    }


def _sum(member: _Member) -> str:
    """Return the line of sha256sum(1) for a member."""
    name = member.path.replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r")
    return f"{'' if name == member.path else chr(92)}{member.sha256}  {name}\n"


def _as_json(value: object) -> str:
    return f"{json.dumps(value, indent=2, default=str)}\n"
