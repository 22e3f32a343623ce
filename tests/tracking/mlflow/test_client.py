"""What MLflow's client raises, and how long its calls take; MLflow itself has a stand-in of two modules."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hpcdist.base.errors import ConfigError, ServiceError
from hpcdist.tracking import mlflow as mlflow_server
from hpcdist.tracking import mlflow_client
from hpcdist.tracking.mlflow_client import Bounded, NoAnswer
from tests.wording import Wording


class RefusedError(Exception):
    """What MLflow's client raises by itself."""


@pytest.fixture(autouse=True)
def mlflow(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = {
        name: ModuleType(name) for name in ("mlflow", "mlflow.exceptions", "requests", "requests.exceptions")
    }
    made["mlflow.exceptions"].MlflowException = RefusedError  # type: ignore[attr-defined]
    made["requests.exceptions"].RequestException = RefusedError  # type: ignore[attr-defined]
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made["mlflow"]


def raising(error: Exception) -> Callable[..., object]:
    def call(*_words: object, **_named: object) -> object:
        raise error

    return call


def test_an_address_that_is_none_is_refused(mlflow: Any, wording: Wording) -> None:
    mlflow.MlflowClient = raising(ValueError("Invalid IPv6 URL"))
    with pytest.raises(ConfigError) as caught:
        mlflow_client.connect("http://[::1")
    wording(str(caught.value))


@pytest.mark.parametrize(
    "error", [KeyError("run"), TypeError("None"), ValueError("Expecting value"), RecursionError()]
)
def test_an_answer_that_the_client_cannot_read_is_one_sentence(error: Exception) -> None:
    bounded = Bounded(SimpleNamespace(search_runs=raising(error)), "http://x")
    with pytest.raises(ServiceError, match=r"^MLflow at http://x: its answer cannot be read: "):
        bounded.search_runs()


def test_what_the_client_says_by_itself_stays_so() -> None:
    with pytest.raises(RefusedError, match="no"):
        Bounded(SimpleNamespace(search_runs=raising(RefusedError("no"))), "http://x").search_runs()


def test_a_call_has_a_bound_in_time_that_the_client_cannot_take_for_an_error_of_its_own() -> None:
    def slow() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                time.sleep(60)
            except Exception as error:  # as mlflow.utils.rest_utils does
                raise RefusedError from error

    with pytest.raises(NoAnswer, match=r"no whole answer in 0.2 s"):
        Bounded(SimpleNamespace(search_runs=slow), "http://x", 0.2).search_runs()


def test_an_answer_has_a_bound_in_bytes() -> None:
    bounded = Bounded(SimpleNamespace(search_runs=lambda: bytes(3 << 30)), "http://x")
    with pytest.raises(ServiceError, match=r"^MLflow at http://x: an answer of more than 1 GiB; "):
        bounded.search_runs()


def test_a_file_has_the_time_that_it_takes_on_a_slow_line(tmp_path: Any) -> None:
    (tmp_path / "model").write_bytes(b"x" * 100_000)

    def slow(*words: str) -> tuple[str, ...]:
        time.sleep(0.5)
        return words

    bounded = Bounded(SimpleNamespace(log_artifact=slow), "http://x", 0.1)
    assert bounded.log_artifact("7", str(tmp_path / "model"), "a") == ("7", str(tmp_path / "model"), "a")


def test_a_place_of_files_that_is_none_is_one_sentence() -> None:
    with pytest.raises(ServiceError, match=r"the server keeps files in http://\[, which is no place"):
        mlflow_server.check_reachable("http://x", "http://[")
