"""The records of runs, written to files: CSV, an archive, TensorBoard. MLflow gets the same items.

A run, or an element of its array, is one item; all its attempts are one.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import stat
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hpcdist import __version__
from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, warning
from hpcdist.runs import attempt_files, attempts, copying, rundir
from hpcdist.runs.copying import Masked
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import LATEST, JobState, Status, split_id
from hpcdist.tracking import comparison, outputs, series, trial_params
from hpcdist.tracking.files import Artifact, TrackedEntry
from hpcdist.tracking.series import Points, RecordedMetrics

# --- Items

_EXACT: Final = 1 << 53
"""Up to this, floats represent every whole number."""


class Name(NamedTuple):
    """A metric, and the rank that recorded it."""

    metric: str
    rank: int


class Item(NamedTuple):
    """A run, or an element of its array."""

    run: Run
    plan: StoredPlan
    element: str
    """The number of the element, empty for a run."""
    job: str
    """The id of its last job or element."""
    state: JobState
    attempts: tuple[Attempt, ...]
    """The attempts of all its jobs; an array has the attempts of all elements."""
    params: Mapping[str, Any]
    """An element of a search has the params of its trial."""
    tags: tuple[str, ...]
    series: Mapping[Name, Points]
    artifacts: Mapping[str, Artifact]
    """The artifacts, by their paths below the outputs of the run."""

    @property
    def name(self) -> str:
        """The name of the run, and the element: ``train-1/3``."""
        return f"{self.run.name}/{self.element}" if self.element else self.run.name

    @property
    def key(self) -> str:
        """Its key wherever it is sent: the token of its submission, with the element."""
        token = self.run.record.token
        return f"{token}/{self.element}" if self.element else token

    @property
    def started(self) -> float | None:
        """When its first attempt started; seconds since 1970."""
        return min((each.started for each in self.attempts if each.started is not None), default=None)

    @property
    def ended(self) -> float | None:
        """When its last attempt ended; None if that is unknown, or it has not ended."""
        starts = [each.started for each in self.attempts if each.started is not None]
        ends = [each.ended for each in self.attempts if each.ended is not None]
        is_known = self.state.is_final and ends and max(ends) >= max(starts, default=0.0)
        return max(ends) if is_known else None

    @property
    def begin(self) -> float:
        """When it started, else when it was submitted or made; seconds since 1970."""
        record = self.run.record
        return self.started or datetime.fromisoformat(record.submitted_at or record.created_at).timestamp()

    def points(self) -> Iterator[tuple[Name, float, float, float]]:
        """Yield each value: its name, step, time in seconds since 1970, and number.

        The time is 0 if it is unknown, or absurd because of a damaged line or a clock.
        """
        for name, points in self.series.items():
            for step, value, at in zip(*points, strict=True):
                yield name, step, at if 0 < at < LATEST else 0.0, value


def read(report: Report, now: float) -> tuple[list[Item], list[Problem]]:
    """Return a run, followed by the elements of its array that started, and warnings.

    Raises:
        OSError: if its files cannot be read.
    """
    run, status = report.run, report.status
    plan = run.directory.plan()
    found = series.read(run.directory, plan)
    started = attempts.read(report, now)
    if plan.workers:
        started = attempt_files.trial_attempts(run.directory, plan, started, now)
    jobs = _jobs(started, found)
    ids = _by_element(jobs)
    item = _item(run, plan, ids.pop("", []), jobs, status.state)
    trials = trial_params.of(run) if ids else {}
    elements = []
    for element in sorted(ids, key=int):
        own = plan._replace(params=trials.get(element, plan.params))
        last = [attempt.state for job in ids[element] for attempt in jobs[job].attempts][-1:]
        elements.append(_item(run, own, ids[element], jobs, _state(last, status), element))
    return [item, *elements], [warning(f"{run.name}: {text}") for text in found.warnings]


class _Job(NamedTuple):
    """The facts about a job, or an element of an array."""

    attempts: list[Attempt]
    series: dict[Name, Points]
    others: list[TrackedEntry]


def _jobs(found: Iterable[Attempt], recorded: RecordedMetrics) -> dict[str, _Job]:
    """Return the facts about each job that started or recorded something, in the order of their starts."""
    jobs: defaultdict[str, _Job] = defaultdict(lambda: _Job([], {}, []))
    for attempt in found:
        if attempt.started is not None:
            jobs[attempt.job].attempts.append(attempt)
    for key, points in sorted(recorded.series.items()):
        jobs[key.job].series[Name(key.name, key.rank)] = points
    for job, entry in recorded.others:
        jobs[job].others.append(entry)
    return jobs


def _by_element(jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of the jobs of each element; whole jobs are under ``""``."""
    ids: dict[str, list[str]] = {}
    for job in jobs:
        ids.setdefault(split_id(job)[1], []).append(job)
    return ids


def _state(last: Sequence[str], whole: Status) -> JobState:
    """Return the state of an element by its last attempt; an unknown end is not invented."""
    ended = [state for state in JobState if state.value in last and state.is_final]
    if ended:
        return ended[0]
    return JobState.UNKNOWN if whole.state.is_final else whole.state


def _item(  # noqa: PLR0913, PLR0917 - what an item is made of
    run: Run, plan: StoredPlan, ids: list[str], found: Mapping[str, _Job], state: JobState, element: str = ""
) -> Item:
    jobs = [found[job] for job in ids]
    others = [(name, entry) for name, job in zip(ids, jobs, strict=True) for entry in job.others]
    params, tags = comparison.labels(plan, (entry for _, entry in others))
    merged: dict[Name, Points] = {}
    for job in jobs:
        for metric, points in job.series.items():
            merged[metric] = series.continued(merged.get(metric), points)
    return Item(
        run=run,
        plan=plan,
        element=element,
        job=ids[-1] if ids else run.record.job_id or "",
        state=state,
        attempts=tuple(attempt for job in jobs or found.values() for attempt in job.attempts),
        params=params,
        tags=tags,
        series=merged,
        artifacts=outputs.artifacts(others),
    )


def whole(step: float) -> int:
    """Return a step rounded down: MLflow and TensorBoard accept only whole steps."""
    return int(max(-_EXACT, min(_EXACT, step)) // 1)


def fractional(item: Item) -> list[str]:
    """Return the metrics whose steps `whole` changes."""
    found = item.series.items()
    changed = (name.metric for name, points in found if any(whole(step) != step for step in points.steps))
    return [*dict.fromkeys(changed)]


# --- Files that are replaced as a whole: readers see the old or the new one, even after a crash

STDOUT: Final = Path("-")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces this one at the end, unless there is an error; stdout for ``-``.

    An existing file that is not regular, such as a pipe, is written to.

    Raises:
        OSError: if it cannot be written; nothing is left behind then.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        return
    try:
        with _replacing(Path(os.path.realpath(path))) as stream:
            yield stream
    except OSError as error:
        if error.filename is None:  # a write failed, as on a full disk
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as stream:
            yield stream
        return
    temporary = target.with_name(f".{target.name[:200]}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        try:
            stream = temporary.open("xb")
        except OSError as error:  # the user does not know this file's name
            raise OSError(error.errno, error.strerror) from None
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# --- CSV

COLUMNS: Final = ("run", "job", "metric", "rank", "step", "time", "value")


def save_table(items: Iterable[Item], path: Path) -> int:
    """Write the values of these items into a file, as `replacing` does; return how many.

    Raises:
        OSError: if it cannot be written, or a run cannot be read.
    """
    with replacing(path) as stream:
        return write_table(items, stream)


def write_table(items: Iterable[Item], stream: BinaryIO) -> int:
    """Write the values of these items and return how many; times are ISO 8601 in UTC, empty if unknown.

    Raises:
        OSError: if it cannot be written.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
    lines, count = csv.writer(text, lineterminator="\n"), 0
    lines.writerow(COLUMNS)
    for item in items:
        for name, step, at, value in item.points():
            lines.writerow((item.name, item.job, *name, f"{step:.15g}", moment(at), repr(value)))
            count += 1
    text.flush()
    text.detach()
    return count


def moment(seconds: float) -> str:
    """Return a time in ISO 8601 in UTC; empty if it is unknown, or outside the calendar."""
    try:
        at = datetime.fromtimestamp(seconds, timezone.utc) if seconds else None
    except (ValueError, OverflowError, OSError):  # from a damaged line, or a wrong clock
        return ""
    return at.isoformat(timespec="milliseconds") if at else ""


# --- A tar archive of what a run kept, with the records of its origin
#
# The same run gives the same bytes: names are sorted, times are the run's, no owner. Links are not
# followed.

_README: Final = """\
# {name}

What the run {name} kept, and what it was made from. Written by hpcdist {version}.

outputs/          the artifacts and models that its program recorded
tracking/         artifacts that Polyaxon's client keeps in its folder
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


def save_archive(runs: Iterable[Sequence[Item]], path: Path, show: Show) -> int:
    """Write the archive of runs with their elements, as `replacing` does; return how many files it has.

    ``show`` gets warnings.

    Raises:
        OSError: if a file cannot be read or written.
    """
    with replacing(path) as stream, tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        return sum(_Folder(tar, items).write(show) for items in runs)


class _Folder:
    """The part of an archive for one run."""

    def __init__(self, tar: tarfile.TarFile, items: Sequence[Item]) -> None:
        self._tar = tar
        self._items = items
        self._run = items[0].run
        self._time = int(datetime.fromisoformat(self._run.record.created_at).timestamp())
        self._members: list[_Member] = []

    def write(self, show: Show) -> int:
        texts, masked = copying.read(self._run.directory, *(item.params for item in self._items))
        self._add("README.md", _README.format(name=self._run.name, version=__version__, mask=copying.MASK))
        for name, text in texts.items():
            self._add(name, text)
        self._add("run.json", masked(_as_json([_item_data(item) for item in self._items])))
        with tempfile.TemporaryFile() as metrics:
            write_table(self._items, metrics)
            size = metrics.tell()
            metrics.seek(0)
            self._add_stream("metrics.csv", metrics, size)
        odd = [
            each for item in self._items for path in sorted(item.artifacts) for each in self._keep(item, path)
        ]
        missing = [{"path": outputs.in_run(path), "why": why} for path, why in odd]
        self._add("MANIFEST.json", _as_json({"files": [m._asdict() for m in self._members], "odd": missing}))
        self._add("SHA256SUMS", "".join(map(_sum, self._members)))
        show(warning(f"{self._run.name}: {outputs.in_run(path)} {why}") for path, why in odd)
        return len(self._members)

    def _keep(self, item: Item, path: str) -> Iterable[tuple[str, str]]:
        """Add the files of an artifact; return their problems."""
        found = outputs.kept(self._run.directory, path, item.artifacts[path])
        for file in found.files:
            with ownership.open_regular(file.place) as stream:
                self._add_stream(outputs.in_run(file.path), stream, os.fstat(stream.fileno()).st_size)
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


def _item_data(item: Item) -> dict[str, Any]:
    """Return the facts about an item, for JSON."""
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
        "attempts": [_attempt_data(attempt) for attempt in item.attempts],
        "description": item.plan.description,
        "tags": item.tags,
        "params": item.params,
        "artifacts": [
            {"path": outputs.in_run(path), "kind": each.kind, "sha256": each.sha256, "metrics": each.metrics}
            for path, each in sorted(item.artifacts.items())
        ],
    }


def _attempt_data(attempt: Attempt) -> dict[str, Any]:
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


# --- Event files of TensorBoard, by its own writer, without TensorFlow
#
# A run has a folder, and below it each rank above 0 and each element has one: TensorBoard draws them as
# curves of one plot. Only hpcdist writes a file of that name; it is replaced as a whole; others stay.

_NEEDS: Final = "--tensorboard needs the package tensorboard"
_HINT: Final = "install it with `pip install 'hpcdist[tensorboard]'`"


class _Scalar(NamedTuple):
    at: float
    step: int
    metric: str
    value: float


def write_tensorboard(found: Sequence[Item], folder: Path) -> Iterator[tuple[Item, Path, int]]:
    """Write the event files of a run and its elements; yield each with its folder and its number of values.

    Values are floats of 32 bits there. A value without a time gets the time of the start.

    Raises:
        ConfigError: if TensorBoard is not installed.
        OSError: if a file cannot be read or written.
    """
    try:
        import tensorboard.plugins.hparams.summary_v2  # noqa: F401 - before anything is written
    except ImportError as error:
        raise ConfigError(Problem(f"{_NEEDS}: {error}", hint=_HINT)) from None
    _, masked = copying.read(found[0].run.directory, *(item.params for item in found))
    for item in found:
        yield item, folder / item.name, _write_events(item, folder / item.name, masked)


def _write_events(item: Item, folder: Path, masked: Masked) -> int:
    ranks: dict[int, list[_Scalar]] = {0: []}
    for name, step, at, value in item.points():
        event = _Scalar(at or item.begin, whole(step), _utf8(name.metric), value)
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
    """Return a text for Protocol Buffers; lone surrogates, which JSON may have, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _write_file(folder: Path, item: Item, events: Iterable[_Scalar], params: Mapping[str, Any]) -> None:
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
