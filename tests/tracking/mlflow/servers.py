"""A real server of MLflow on loopback, with SQLite; and what it answers over its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.docs.pages import CHECKOUT

MLFLOW: Final = CHECKOUT / ".frameworks" / "mlflow" / "bin" / "mlflow"
_LIFE: Final = 3600
"""Seconds that a server has at most, also where its tests take ten times as long as on a quiet machine."""
_START: Final = 240.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class Server(NamedTuple):
    """A server that runs."""

    uri: str
    process: subprocess.Popen[bytes]

    def get(self, path: str, /, **query: str) -> Any:
        """Return an answer of the REST API."""
        words = urllib.parse.urlencode(query)
        with urllib.request.urlopen(f"{self.uri}/api/2.0/{path}?{words}", timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def post(self, path: str, /, **data: Any) -> Any:
        """Return an answer of the REST API."""
        request = urllib.request.Request(  # noqa: S310
            f"{self.uri}/api/2.0/{path}", json.dumps(data).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """Return the runs of an experiment, in the order of their names."""
        found = self.get("mlflow/experiments/get-by-name", experiment_name=experiment)
        number = found["experiment"]["experiment_id"]
        runs = self.post("mlflow/runs/search", experiment_ids=[number]).get("runs", [])
        return sorted(runs, key=lambda run: str(run["info"]["run_name"]))

    def history(self, run_id: str, metric: str) -> list[tuple[int, int, str | float]]:
        """Return step, time in milliseconds and value of the points of a metric."""
        found = self.get("mlflow/metrics/get-history", run_id=run_id, metric_key=metric)
        return [(int(m.get("step", 0)), int(m["timestamp"]), m["value"]) for m in found.get("metrics", [])]

    def files(self, run: dict[str, Any], folder: str = "") -> dict[str, bytes]:
        """Return the artifacts of a run."""
        run_id, found = run["info"]["run_id"], dict[str, bytes]()
        for file in self.get("mlflow/artifacts/list", run_id=run_id, path=folder).get("files", []):
            if file["is_dir"]:
                found |= self.files(run, file["path"])
            else:
                query = urllib.parse.urlencode({"run_id": run_id, "path": file["path"]})
                with urllib.request.urlopen(f"{self.uri}/get-artifact?{query}", timeout=60) as answer:  # noqa: S310
                    found[file["path"]] = answer.read()
        return found


@contextlib.contextmanager
def served(folder: Path, port: int | None = None, *options: str) -> Iterator[Server]:
    """Run a server that keeps all it has in this folder; it ends by itself after some minutes."""
    port = port or free_port()
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    place = options or ("--artifacts-destination", str(folder / "artifacts"))
    words = [
        str(MLFLOW),
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
        *store,
        *place,
    ]
    environment = os.environ | {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", str(_LIFE), *words],
            env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, folder)
        yield Server(f"http://127.0.0.1:{port}", process)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a server with its own processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise AssertionError((folder / "server.log").read_text()[-3000:])
