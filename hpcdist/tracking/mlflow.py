"""A server of MLflow: an item is a run there, found again by its tag ``hpcdist.run``; only new data is sent.

MLflow's own client sends. After a kill at any moment the next export completes the rest: a run is created
with its tag, points are compared with the server's history, files are sent again unless the list of files,
which is sent last, has their hashes, and a version of a model is found by its run and hash.
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from hpcdist.base import ownership
from hpcdist.base.errors import Problem, ServiceError, comma_list, warning
from hpcdist.runs import code_record, copying
from hpcdist.schedulers.job import JobState
from hpcdist.tracking import export, outputs
from hpcdist.tracking.export import Item, Name
from hpcdist.tracking.files import Artifact
from hpcdist.tracking.mlflow_client import answers, connect

# --- What MLflow accepts: names, values, times and states
#
# Source: mlflow/utils/validation.py of MLflow 3.17, and mlflow/store/tracking/sqlalchemy_store.py, which
# keeps infinities as the largest numbers.

PARAM: Final = 6000
"""The most characters of a param's value."""

TAG_LENGTH: Final = 5000
RUNNING: Final = "RUNNING"
_KEY: Final = 250
_PART: Final = 60
"""The most characters of a file's name, before and after its dot; some take four bytes."""

_ODD_IN_PATH: Final = re.compile(r"[^ !$&'()*+,\-.:;=@\[\]^_`{}~\w]")
_ODD: Final = re.compile(r"[^/\w.\- :]")
_STATUS: Final = {
    JobState.COMPLETED: "FINISHED",
    **dict.fromkeys(
        (JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL), "FAILED"
    ),
    **dict.fromkeys((JobState.PREEMPTED, JobState.CANCELLED), "KILLED"),
    **dict.fromkeys((JobState.PENDING, JobState.UNSUBMITTED), "SCHEDULED"),
}


class MetricPoint(NamedTuple):
    """A value of a metric; ``at`` in milliseconds since 1970."""

    key: str
    value: float
    at: int
    step: int

    @property
    def stored(self) -> tuple[float | str, int, int]:
        """A key that is equal for a point and for MLflow's answer about it."""
        if math.isnan(self.value):
            return "nan", self.at, self.step
        most = sys.float_info.max
        return max(-most, min(most, self.value)), self.at, self.step


def key(name: str) -> str:
    """Return a name that MLflow accepts; a changed one gets a hash, so that names stay distinct."""
    clean = _ODD.sub("_", name)
    normal = posixpath.normpath(clean)
    is_path = clean and normal == clean and not clean.startswith(("..", "/")) and clean != "."
    if clean == name and is_path and len(name) <= _KEY:
        return name
    parts = [part for part in clean.split("/") if part not in {"", ".", ".."}]
    return f"{'/'.join(parts).lstrip('./')[: _KEY - 10].rstrip('/') or 'unnamed'}-{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def file_path(name: str) -> str:
    """Return the path of a file for MLflow, which reads it as a part of a URL.

    A part that has to be changed gets a hash.
    """
    return "/".join(_part(part) for part in name.split("/"))


def _part(name: str) -> str:
    clean = PurePath(_ODD_IN_PATH.sub("_", name))
    if str(clean) == name:
        return name
    return f"{clean.stem[:_PART]}-{_hash(name)}{clean.suffix[:_PART]}"


def metric_key(name: Name) -> str:
    """Return the name of a metric; ranks above 0 have a group each."""
    return key(f"rank-{name.rank}/{name.metric}" if name.rank else name.metric)


def points(item: Item) -> Iterator[MetricPoint]:
    """Yield the values; a value without a time gets the time of the start."""
    keys = {name: metric_key(name) for name in item.series}
    for name, step, at, value in item.points():
        yield MetricPoint(keys[name], value, round((at or item.begin) * 1000), export.whole(step))


def param_text(value: Any) -> str:
    """Return a param's value: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def is_same(there: str, own: str) -> bool:
    """Whether MLflow has this value of a param, or as much of it as MLflow accepts."""
    return there == own or (len(there) == PARAM and own.startswith(there))


def run_status(state: JobState) -> str:
    """Return the status of a run; MLflow has no status for an unknown end, and none is invented."""
    return _STATUS.get(state, RUNNING)


def model_name(item: Item, path: str) -> str:
    """Return the name of a registered model, without slashes and colons."""
    return re.sub(r"[/:]", ".", key(f"{item.run.record.name}-{path}"))


def changes(item: Item, params: Mapping[str, str]) -> Iterator[str]:
    """Yield what was changed in an item because MLflow does not accept it, as sentences."""
    metrics = sorted({name.metric for name in item.series})
    found = (("metrics", metrics, key), ("params", params, key), ("tags", item.tags, key))
    for what, names, form in (*found, ("files", item.artifacts, file_path)):
        if changed := [f"{name!r} is {form(name)!r}" for name in names if form(name) != name]:
            yield f"MLflow does not take these names of {what}: {comma_list(changed)}"
    if long := [name for name, value in params.items() if len(value) > PARAM]:
        yield f"MLflow takes {PARAM} characters of a param; these were cut: {comma_list(long)}"
    if fractional := export.fractional(item):
        yield f"MLflow takes whole steps; those of these metrics were rounded down: {comma_list(fractional)}"


# --- Artifacts of a run, and its models in the registry

TAG: Final = "hpcdist.run"
"""The tag of runs and versions for an item's key."""

_HASH: Final = "hpcdist.sha256"
_FOLDER: Final = "hpcdist"
_LIST: Final = f"{_FOLDER}/sent.json"


class Store:
    """The files of one run of a server."""

    def __init__(self, client: Any, uri: str, run: Any, item: Item) -> None:
        self._client = client
        self._uri = uri
        self._place: str = run.info.artifact_uri
        self._run_id: str = run.info.run_id
        self._item = item

    def send(self, texts: Mapping[str, str]) -> tuple[int, int, list[str]]:
        """Send artifacts, these documents and models that the server lacks.

        Return the numbers of files and models, and problems of others, as sentences.

        Raises:
            ServiceError: if the server keeps files in a folder of another machine.
            MlflowException: if the server refuses, fails or does not answer.
        """
        own = {path: _identity(artifact) for path, artifact in self._item.artifacts.items()}
        own |= {
            f"{_FOLDER}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
        }
        if not own:
            return 0, 0, []
        check_reachable(self._uri, self._place)
        before = self._sent()
        new = {path for path in own if before.get(path) != own[path]}
        count, odd = self._send_artifacts(new & self._item.artifacts.keys())
        for name, text in texts.items():
            if f"{_FOLDER}/{name}" in new:
                self._client.log_text(self._run_id, text, f"{_FOLDER}/{name}")
                count += 1
        if new - odd.keys():
            done = json.dumps({path: own[path] for path in own if path not in odd})
            self._client.log_text(self._run_id, done, _LIST)
        models = self._register(odd)
        return (
            count,
            models,
            [f"{self._item.run.name}: {outputs.in_run(path)} {why}" for path, why in odd.items()],
        )

    def _sent(self) -> dict[str, str]:
        """Return the hashes of the server's files."""
        if _LIST not in [file.path for file in self._client.list_artifacts(self._run_id, _FOLDER)]:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(self._client.download_artifacts(self._run_id, _LIST, folder))
            try:
                found = json.loads(file.read_bytes())
            except (ValueError, RecursionError):
                return {}
        return found if isinstance(found, dict) else {}

    def _send_artifacts(self, paths: set[str]) -> tuple[int, dict[str, str]]:
        count = 0
        odd: dict[str, str] = {}
        for path in sorted(paths):
            found = outputs.kept(self._item.run.directory, path, self._item.artifacts[path])
            odd |= found.odd
            for file in found.files:
                self._send_file(file)
            count += len(found.files)
        return count, odd

    def _send_file(self, file: outputs.KeptFile) -> None:
        """Send a file under the name that MLflow accepts; its client has no argument for the name."""
        target = self._path(file.path)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, target.name)
            place.symlink_to(file.place.absolute())
            self._client.log_artifact(self._run_id, str(place), "/".join(target.parts[:-1]))

    def _path(self, path: str) -> PurePath:
        """Return where a file of the outputs or of Polyaxon's folder is in MLflow, without its element."""
        own = PurePath(path.removeprefix("../"))
        own = own if path.startswith("../") else own.relative_to(self._item.element or ".")
        return PurePath(file_path(str(own)))

    def _register(self, odd: Mapping[str, str]) -> int:
        """Register a version of each model without one of this run and hash; return how many."""
        found = self._item.artifacts.items()
        models = {path: each for path, each in found if each.kind == "model" and path not in odd}
        there = self._versions() if models else set()
        new = {
            path: each
            for path, each in models.items()
            if (model_name(self._item, path), _identity(each)) not in there
        }
        for path, artifact in new.items():
            name = model_name(self._item, path)
            self._make_model(name)
            tags = {key(each): str(value) for each, value in artifact.metrics.items()}
            tags |= {_HASH: _identity(artifact), TAG: self._item.key}
            source = f"{self._place}/{self._path(path)}"
            self._client.create_model_version(name, source, self._run_id, tags, await_creation_for=30)
        return len(new)

    def _versions(self) -> set[tuple[str, str | None]]:
        versions = self._client.search_model_versions(f"run_id = '{self._run_id}'")
        return {(version.name, version.tags.get(_HASH)) for version in versions}

    def _make_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise


def _identity(artifact: Artifact) -> str:
    """Return the recorded hash; only hpcdist's client records one."""
    return artifact.sha256 or f"{artifact.bytes} bytes"


def check_reachable(uri: str, place: str) -> None:
    """Refuse to write files of a server into a folder of this machine.

    Without ``--serve-artifacts`` a server names a folder on its machine, and MLflow's client writes there.

    Raises:
        ServiceError: if it is on another machine, or invalid.
    """
    try:
        scheme, _, path, _, _ = urlsplit(place)
    except ValueError:
        raise ServiceError(Problem(f"the server keeps files in {place:.200}, which is no place")) from None
    is_folder = urlsplit(uri).scheme in ("http", "https") and scheme in ("", "file")
    if is_folder and not any(folder.is_dir() for folder in [*Path(unquote(path)).parents][:2]):
        hint = "start it with `mlflow server --serve-artifacts`"
        raise ServiceError(
            Problem(f"the server keeps files in {path}, which is not on this machine", hint=hint)
        )


# --- Runs of a server: their tags, params, points and states

_METRICS: Final = 1000
_PARAMS: Final = 20
"""The most entries of a request; one of more than 1 MB is refused."""


class Sent(NamedTuple):
    """The new data of an item."""

    run_id: str
    points: int
    params: int
    files: int
    models: int


class Server:
    """A server, and the points that it certainly has.

    ``experiment``: the name of the experiment there; empty: the name of each run's experiment.
    """

    def __init__(self, uri: str, experiment: str = "") -> None:
        self.uri = uri
        self._client = connect(uri)
        self._experiment = experiment
        self._known: dict[tuple[str, str], set[object]] = {}

    def send(self, found: Sequence[Item]) -> Iterator[tuple[Item, Sent, list[Problem]]]:
        """Send a run and the elements of its array; yield the new data of each, and warnings.

        Raises:
            ServiceError: if the server refuses, fails or does not answer.
            OSError: if a file of the run cannot be read.
        """
        parent = ""
        texts, masked = copying.read(found[0].run.directory, *(item.params for item in found))
        for item in found:
            try:
                params = {name: masked(param_text(value)) for name, value in item.params.items()}
                with answers(self.uri):
                    sent, problems = self._send(item, params, {} if item.element else texts, parent)
            except ServiceError:
                self._known.clear()  # it is unknown whether the server has the last points
                raise
            parent = parent or sent.run_id
            yield item, sent, problems

    def _send(
        self, item: Item, params: Mapping[str, str], texts: Mapping[str, str], parent: str
    ) -> tuple[Sent, list[Problem]]:
        run = self._run(item, parent)
        points = self._send_points(run, item)
        new, problems = self._send_params(run, params)
        store = Store(self._client, self.uri, run, item)
        count, models, odd = store.send(texts)
        self._set_state(run.info.run_id, item)
        problems += map(warning, [*odd, *changes(item, params)])
        return Sent(run.info.run_id, points, new, count, models), problems

    def _run(self, item: Item, parent: str) -> Any:
        """Return the run of an item, which is created if the server has none."""
        number = self._experiment_id(self._experiment or item.run.record.name)
        tags = _tags(item, parent)
        query = f"tags.`{TAG}` = '{item.key}'"
        there = self._client.search_runs([number], query, order_by=["attributes.start_time ASC"])
        if not there:
            return self._client.create_run(number, round(item.begin * 1000), tags, item.name)
        from mlflow.entities import RunTag

        new = [RunTag(key, text) for key, text in tags.items() if there[0].data.tags.get(key) != text]
        self._log(there[0].info.run_id, "tags", new, _PARAMS)
        return there[0]

    def _log(self, run_id: str, kind: str, entities: Iterable[Any], most: int) -> int:
        """Send these, at most ``most`` at once; return how many."""
        left, count = iter(entities), 0
        while batch := [*islice(left, most)]:
            self._client.log_batch(run_id, **{kind: batch})
            count += len(batch)
        return count

    def _experiment_id(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment and not experiment.experiment_id:
            raise ServiceError(Problem(f"MLflow at {self.uri}: it tells no number of experiment {name!r}"))
        if experiment and experiment.lifecycle_stage != "active":
            hint = "restore it, or set MLFLOW_EXPERIMENT_NAME to another one"
            raise ServiceError(Problem(f"the experiment {name!r} was deleted in MLflow", hint=hint))
        return str(experiment.experiment_id if experiment else self._client.create_experiment(name))

    def _send_points(self, run: Any, item: Item) -> int:
        from mlflow.entities import Metric

        new = (Metric(*point) for point in points(item) if self._is_new(run, point))
        return self._log(run.info.run_id, "metrics", new, _METRICS)

    def _is_new(self, run: Any, point: MetricPoint) -> bool:
        """Return whether MLflow lacks a point, and remember the point as sent."""
        place = run.info.run_id, point.key
        if place not in self._known:
            history = self._client.get_metric_history(*place) if point.key in run.data.metrics else ()
            self._known[place] = {MetricPoint(m.key, m.value, m.timestamp, m.step).stored for m in history}
        known = self._known[place]
        is_new = point.stored not in known
        known.add(point.stored)
        return is_new

    def _send_params(self, run: Any, params: Mapping[str, str]) -> tuple[int, list[Problem]]:
        from mlflow.entities import Param

        own, there = {key(name): value for name, value in params.items()}, run.data.params
        new = (Param(name, value[:PARAM]) for name, value in own.items() if name not in there)
        count = self._log(run.info.run_id, "params", new, _PARAMS)
        changed = [name for name in own if name in there and not is_same(there[name], own[name])]
        message = f"MLflow keeps the first value of a param; these have another one now: {', '.join(changed)}"
        return count, [warning(message)] if changed else []

    def _set_state(self, run_id: str, item: Item) -> None:
        status = run_status(item.state)
        if item.ended and status != RUNNING:
            self._client.set_terminated(run_id, status, round(item.ended * 1000))
        else:
            self._client.update_run(run_id, status)


def _tags(item: Item, parent: str) -> dict[str, str]:
    run = item.run
    tags = {key(tag): "true" for tag in item.tags} | {
        TAG: item.key,
        "hpcdist.name": item.name,
        "hpcdist.job": item.job,
        "hpcdist.site": run.record.site,
        "hpcdist.scheduler": run.record.scheduler,
        "hpcdist.state": item.state.value,
        "hpcdist.attempts": str(len(item.attempts)),
        "hpcdist.hosts": ", ".join(_hosts(item)),
        "mlflow.user": ownership.name_of(run.directory.path.stat().st_uid),
        "mlflow.source.name": run.name,
        "mlflow.source.type": "JOB",
        "mlflow.note.content": item.plan.description or "",
        "mlflow.parentRunId": parent,
        **_code(item),
    }
    return {key: text[:TAG_LENGTH] for key, text in tags.items() if text}


def _hosts(item: Item) -> list[str]:
    return [*dict.fromkeys(host for attempt in item.attempts for host in attempt.hosts or ())]


def _code(item: Item) -> dict[str, str]:
    """Return the commit of the program."""
    found = code_record.read(item.run.directory)
    texts = {"commit": found.commit, "branch": found.branch, "repoURL": found.remote}
    return {f"mlflow.source.git.{name}": text for name, text in texts.items() if text is not None}
