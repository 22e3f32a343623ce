"""Runs of a server: their tags, params, points and states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from hpcdist.errors import Problem, ServiceError, warning
from hpcdist.export.items import Item
from hpcdist.export.mlflow import client, files, form
from hpcdist.export.mlflow.form import Point
from hpcdist.host import ownership
from hpcdist.runs import code_record, shareable

_METRICS: Final = 1000
_PARAMS: Final = 20
"""How many of them a request has at most; one of more than 1 MB is refused."""


class Sent(NamedTuple):
    """What was new of an item."""

    run_id: str
    points: int
    params: int
    files: int
    models: int


class Server:
    """A server, and the points that it is known to have.

    ``experiment``: the name of the experiment there, else that of each run's own.
    """

    def __init__(self, uri: str, experiment: str = "") -> None:
        self.uri = uri
        self._client = client.connect(uri)
        self._experiment = experiment
        self._known: dict[tuple[str, str], set[object]] = {}

    def send(self, found: Sequence[Item]) -> Iterator[tuple[Item, Sent, list[Problem]]]:
        """Send a run and the elements of its array; yield what was new of each, and warnings.

        Raises:
            ServiceError: if the server refuses, fails or does not answer.
            OSError: if a file of the run cannot be read.
        """
        parent = ""
        texts, masked = shareable.read(found[0].run.directory, *(item.params for item in found))
        for item in found:
            try:
                params = {name: masked(form.text(value)) for name, value in item.params.items()}
                with client.answers(self.uri):
                    sent, problems = self._send(item, params, {} if item.element else texts, parent)
            except ServiceError:
                self._known.clear()  # of the last points it is not known whether they are there
                raise
            parent = parent or sent.run_id
            yield item, sent, problems

    def _send(
        self, item: Item, params: Mapping[str, str], texts: Mapping[str, str], parent: str
    ) -> tuple[Sent, list[Problem]]:
        run = self._run(item, parent)
        points = self._send_points(run, item)
        new, problems = self._send_params(run, params)
        store = files.Store(self._client, self.uri, run, item)
        count, models, odd = store.send(texts)
        self._set_state(run.info.run_id, item)
        problems += map(warning, [*odd, *form.changes(item, params)])
        return Sent(run.info.run_id, points, new, count, models), problems

    def _run(self, item: Item, parent: str) -> Any:
        """Return the run of an item, which is made if there is none."""
        number = self._experiment_id(self._experiment or item.run.record.name)
        tags = _tags(item, parent)
        query = f"tags.`{files.TAG}` = '{item.key}'"
        there = self._client.search_runs([number], query, order_by=["attributes.start_time ASC"])
        if not there:
            return self._client.create_run(number, round(item.begin * 1000), tags, item.name)
        from mlflow.entities import RunTag

        new = [RunTag(key, text) for key, text in tags.items() if there[0].data.tags.get(key) != text]
        for start in range(0, len(new), _PARAMS):
            self._client.log_batch(there[0].info.run_id, tags=new[start : start + _PARAMS])
        return there[0]

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

        new = (point for point in form.points(item) if self._is_new(run, point))
        count = 0
        while batch := [*islice(new, _METRICS)]:
            metrics = [Metric(point.key, point.value, point.at, point.step) for point in batch]
            self._client.log_batch(run.info.run_id, metrics=metrics)
            count += len(batch)
        return count

    def _is_new(self, run: Any, point: Point) -> bool:
        """Return whether MLflow does not have a point; it then counts as one that it has."""
        place = run.info.run_id, point.key
        if place not in self._known:
            history = self._client.get_metric_history(*place) if point.key in run.data.metrics else ()
            self._known[place] = {Point(m.key, m.value, m.timestamp, m.step).stored for m in history}
        known = self._known[place]
        is_new = point.stored not in known
        known.add(point.stored)
        return is_new

    def _send_params(self, run: Any, params: Mapping[str, str]) -> tuple[int, list[Problem]]:
        own, there = {form.key(name): value for name, value in params.items()}, run.data.params
        new = iter([(name, value) for name, value in own.items() if name not in there])
        count = 0
        while batch := dict(islice(new, _PARAMS)):
            self._log_params(run.info.run_id, batch)
            count += len(batch)
        changed = [name for name in own if name in there and not form.is_same(there[name], own[name])]
        message = f"MLflow keeps the first value of a param; these have another one now: {', '.join(changed)}"
        return count, [warning(message)] if changed else []

    def _log_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Send params; where their values are too long for an old server, less of them."""
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException

        def log(most: int) -> None:
            cut = [Param(name, value[:most]) for name, value in params.items()]
            self._client.log_batch(run_id, params=cut)

        try:
            log(form.PARAM)
        except MlflowException as error:
            is_long = max(map(len, params.values())) > form.OLD_PARAM
            if error.error_code != "INVALID_PARAMETER_VALUE" or not is_long:
                raise
            log(form.OLD_PARAM)

    def _set_state(self, run_id: str, item: Item) -> None:
        status = form.status(item.state)
        if item.ended and status != form.RUNNING:
            self._client.set_terminated(run_id, status, round(item.ended * 1000))
        else:
            self._client.update_run(run_id, status)


def _tags(item: Item, parent: str) -> dict[str, str]:
    run = item.run
    tags = {form.key(tag): "true" for tag in item.tags} | {
        files.TAG: item.key,
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
    return {key: text[: form.TAG] for key, text in tags.items() if text}


def _hosts(item: Item) -> list[str]:
    return [*dict.fromkeys(host for attempt in item.attempts for host in attempt.hosts or ())]


def _code(item: Item) -> dict[str, str]:
    """Return the commit that the program was of."""
    found = code_record.read(item.run.directory)
    texts = {"commit": found.commit, "branch": found.branch, "repoURL": found.remote}
    return {f"mlflow.source.git.{name}": text for name, text in texts.items() if text is not None}
