"""MLflow's own client within bounds, and its errors as sentences.

Credentials come only from MLflow's own variables: ``MLFLOW_TRACKING_USERNAME`` and others.
"""

from __future__ import annotations

import logging
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from hpcdist.base import alarm
from hpcdist.base.errors import ConfigError, Problem, ServiceError
from hpcdist.experiment.sources import without_credentials

_DEFAULTS: Final = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""A server that hangs is given up after two minutes; MLflow's own defaults wait for a quarter of an hour."""

_CAUSE: Final = re.compile(r"Caused by \w+\((?:.*?\): )?[\"']?(.*?)[\"']?\)\)$")
"""The end of urllib3's message, after the URL and the number of tries."""

_LOGIN: Final = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
_AGAIN: Final = "export again when it answers: what is there is not sent twice"

_SECONDS: Final = 600.0
"""The time limit of one call: MLflow limits only the time between two bytes of an answer."""

_BYTES: Final = 1 << 30
"""The memory that one call may take, as MLflow reads any answer whole."""

_SLOWEST: Final = 20_000
"""The least bytes per second of a connection."""


def connect(uri: str) -> Bounded:
    """Return a client of MLflow, which has not called the server yet.

    Raises:
        ConfigError: if the URI has a password, or MLflow does not take it or is not installed.
    """
    if without_credentials(uri) != uri:
        raise ConfigError(Problem("the URI of --mlflow has a name, a password or a query", hint=_LOGIN))
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        hint = "install it with `pip install 'hpcdist[mlflow]'`"
        raise ConfigError(Problem(f"--mlflow needs the package mlflow-skinny: {error}", hint=hint)) from None
    for logger in ("mlflow", "urllib3"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # failures are reported here
    from mlflow.exceptions import MlflowException

    try:
        return Bounded(MlflowClient(tracking_uri=uri, registry_uri=uri), uri)
    except (MlflowException, ValueError) as error:
        message = f"MLflow does not take {uri}: {_one_line(error):.200}"
        raise ConfigError(Problem(message, hint="give the address of a server: http://HOST:5000")) from None


class NoAnswer(ServiceError):  # noqa: N818 - there is no answer
    """The server does not answer; any other request would wait as long."""


class _Late(BaseException):
    """Not an Exception, so MLflow's client does not catch it as a failed request."""


@contextmanager
def _memory(size: int) -> Iterator[None]:
    """Let this process map ``size`` bytes more than now; beyond that, MemoryError is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + size
    limit = limit if soft == resource.RLIM_INFINITY else min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Bounded:
    """MLflow's client with limits of time and memory; calls raise only MLflow's errors and ours.

    ``seconds``: for one call; sending a file has more time, by its size.
    """

    def __init__(self, client: Any, uri: str, seconds: float = _SECONDS) -> None:
        self._client, self._uri, self._seconds = client, uri, seconds

    def log_artifact(self, run_id: str, path: str, folder: str) -> Any:
        """Send a file, as MLflow's client."""
        seconds = self._seconds + Path(path).stat().st_size / _SLOWEST
        return self._call(self._client.log_artifact, seconds, run_id, path, folder)

    def __getattr__(self, name: str) -> Any:
        """Return a method of MLflow's client."""
        return partial(self._call, getattr(self._client, name), self._seconds)

    def _call(self, method: Callable[..., Any], seconds: float, *words: Any, **named: Any) -> Any:
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException

        try:
            with alarm.within(seconds, _Late), _memory(_BYTES):
                return method(*words, **named)
        except _Late:
            problem = Problem(f"MLflow at {self._uri}: no whole answer in {seconds:g} s", hint=_AGAIN)
            raise NoAnswer(problem) from None
        except Exception as error:  # also errors of its client about a malformed answer
            hint = "is it a server of MLflow?"
            if MemoryError in {type(error), type(error.__context__)}:
                message = f"MLflow at {self._uri}: an answer of more than {_BYTES >> 30} GiB"
                raise ServiceError(Problem(message, hint=hint)) from None
            if isinstance(error, MlflowException | RequestException | ServiceError | OSError):
                raise
            why = f"{type(error).__name__}: {_one_line(error)}"
            message = f"MLflow at {self._uri}: its answer cannot be read: {why:.200}"
            raise ServiceError(Problem(message, hint=hint)) from None


@contextmanager
def answers(uri: str) -> Iterator[None]:
    """Turn MLflow's exceptions into one sentence.

    Raises:
        ServiceError: if the server refuses or fails.
        NoAnswer: if it does not answer.
    """
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException  # of uploads

    try:
        yield
    except (MlflowException, RequestException) as error:
        message = _one_line(error)
        hint = _LOGIN if any(code in message for code in ("error code 401", "error code 403")) else _AGAIN
        if cause := _CAUSE.search(message):
            raise NoAnswer(Problem(f"MLflow at {uri}: no answer: {cause[1]:.300}", hint=hint)) from None
        raise ServiceError(Problem(f"MLflow at {uri}: {message:.300}", hint=hint)) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
