"""MLflow's own client within bounds, and its errors as sentences.

Credentials come from MLflow's own variables alone: ``MLFLOW_TRACKING_USERNAME`` and others.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hpcdist.errors import ConfigError, Problem, ServiceError
from hpcdist.experiment.repository import without_credentials

_DEFAULTS: Final = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""A server that hangs is given up after two minutes; MLflow's own defaults wait for a quarter of an hour."""

_CAUSE: Final = re.compile(r"Caused by \w+\((?:.*?\): )?[\"']?(.*?)[\"']?\)\)$")
"""What urllib3 says last, behind the URL and the number of tries."""

_LOGIN: Final = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
_AGAIN: Final = "export again when it answers: what is there is not sent twice"


def connect(uri: str) -> Any:
    """Return a client of MLflow, which has not called the server yet.

    Raises:
        ConfigError: if the URI has a password or is none of MLflow's, or MLflow is not installed.
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
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # what fails is reported here
    from mlflow.exceptions import MlflowException

    try:
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except MlflowException as error:
        message = f"MLflow does not take {uri}: {_one_line(error):.200}"
        raise ConfigError(Problem(message, hint="give the address of a server: http://HOST:5000")) from None


class NoAnswer(ServiceError):  # noqa: N818 - there is no answer
    """The server does not answer; what else is asked of it would wait as long."""


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
