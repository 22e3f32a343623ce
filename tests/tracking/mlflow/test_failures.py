"""Servers that are down, hang, refuse or are lost in the middle: the sentence, and the next export."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import ExitCode, ServiceError
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.tracking import export
from hpcdist.tracking.mlflow import Server as Destination
from tests.tracking.made import AT, COMPLETED, kept, logged, made
from tests.tracking.mlflow.servers import Server, free_port, served

pytestmark = [pytest.mark.real, pytest.mark.extended]

BOUNDS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "2", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


class Export:
    """The verb, in a process of its own."""

    def __init__(self, folder: Path, uri: str, *words: str, **environment: str) -> None:
        command = [sys.executable, "-m", "hpcdist", "export", *words, "--mlflow", uri]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | BOUNDS | environment, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr


@pytest.fixture
def run(tmp_path: Path, experiment: str) -> Run:
    run = made(tmp_path / "runs", f"started 7 {AT} 0", f"ended 7 {AT + 9} 0", name=f"{experiment}-1")
    logged(run, "7/0.0/rank-0", {"step": 1, "metrics": {"m": 1}}, kept(run, "m.pt", "weights", "model"))
    return run


@contextlib.contextmanager
def answering(answer: str, *, without_end: bool = False) -> Iterator[str]:
    """Run a server that gives any request this answer, and then nothing more, or zeros for ever."""

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                clients.append(client)
                if answer:
                    client.recv(65536)
                    client.sendall(answer.encode())
                    while without_end:
                        client.sendall(bytes(1 << 20))
                    client.close()

    clients: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    for client in clients:
        client.close()


def one_sentence(export: Export, uri: str) -> str:
    """Return the error of an export that failed, without its beginning."""
    assert (export.code, export.out) == (ExitCode.SERVICE, "")
    begin = f"error: MLflow at {uri}: "
    assert export.err.startswith(begin)
    assert export.err.count("\n") == 1
    return export.err.removeprefix(begin)


def test_a_server_that_is_down(run: Run, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    assert one_sentence(Export(tmp_path, uri, run.name), uri) == (
        "no answer: Failed to establish a new connection: [Errno 111] Connection refused; "
        "export again when it answers: what is there is not sent twice\n"
    )


def test_a_server_that_hangs(run: Run, tmp_path: Path) -> None:
    with answering("") as uri:
        began = time.monotonic()
        said = one_sentence(Export(tmp_path, uri, run.name), uri)
        assert said.startswith("no answer: Read timed out. (read timeout=2); ")
        assert time.monotonic() - began < 60


@pytest.mark.parametrize(("code", "words"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_a_server_that_wants_a_password(run: Run, tmp_path: Path, code: int, words: str) -> None:
    with answering(f"HTTP/1.1 {code} {words}\r\nContent-Length: 0\r\n\r\n") as uri:
        secret = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "sesame-open"}
        export = Export(tmp_path, uri, run.name, **secret)
    said = one_sentence(export, uri)
    assert said.endswith(
        "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN\n"
    )
    assert "sesame" not in export.err


def test_what_is_no_mlflow(run: Run, tmp_path: Path) -> None:
    page = "<html>\n" + "<p>a page</p>\n" * 1000
    with answering(f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\n\r\n{page}") as uri:
        assert len(one_sentence(Export(tmp_path, uri, run.name), uri)) < 500


def test_an_answer_that_has_nothing(run: Run, tmp_path: Path) -> None:
    with answering("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}") as uri:
        assert one_sentence(Export(tmp_path, uri, run.name), uri).startswith("it tells no number of ")


def test_an_answer_without_end(run: Run, tmp_path: Path) -> None:
    with answering("HTTP/1.1 200 OK\r\n\r\n", without_end=True) as uri:
        said = one_sentence(Export(tmp_path, uri, run.name), uri)
    assert said.startswith("an answer of more than 1 GiB; ")


@pytest.mark.parametrize("uri", ["http://me:sesame@127.0.0.1:5000", "http://127.0.0.1:5000?token=sesame"])
def test_a_password_in_the_address_is_refused(run: Run, tmp_path: Path, uri: str) -> None:
    export = Export(tmp_path, uri, run.name)
    assert (export.code, export.out, "sesame" in export.err) == (ExitCode.CONFIG, "", False)
    assert export.err.startswith(
        "error: the URI of --mlflow has a name, a password or a query; set MLFLOW_TRA"
    )


def test_what_is_no_address_of_a_server(run: Run, tmp_path: Path) -> None:
    export = Export(tmp_path, "bogus://x", run.name)
    assert (export.code, export.err.count("\n")) == (ExitCode.CONFIG, 1)
    assert export.err.startswith("error: MLflow does not take bogus://x: ")
    assert export.err.endswith("; give the address of a server: http://HOST:5000\n")


def test_an_experiment_that_was_deleted(server: Server, run: Run, experiment: str, tmp_path: Path) -> None:
    assert Export(tmp_path, server.uri, run.name).code == 0
    found = server.get("mlflow/experiments/get-by-name", experiment_name=experiment)["experiment"]
    server.post("mlflow/experiments/delete", experiment_id=found["experiment_id"])
    export = Export(tmp_path, server.uri, run.name)
    hint = "restore it, or set MLFLOW_EXPERIMENT_NAME to another one"
    message = f"error: the experiment {experiment!r} was deleted in MLflow; {hint}\n"
    assert (export.code, export.err) == (ExitCode.SERVICE, message)
    assert Export(tmp_path, server.uri, run.name, MLFLOW_EXPERIMENT_NAME=f"{experiment} again").code == 0


def test_a_run_that_is_refused_does_not_keep_the_others(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    runs = [made(tmp_path / "runs", name=f"{experiment}{name}-1") for name in "ab"]
    assert Export(tmp_path, server.uri, runs[0].name).code == 0
    found = server.get("mlflow/experiments/get-by-name", experiment_name=f"{experiment}a")["experiment"]
    server.post("mlflow/experiments/delete", experiment_id=found["experiment_id"])
    export = Export(tmp_path, server.uri, *(run.name for run in runs))
    assert (export.code, export.err.count("\n")) == (ExitCode.SERVICE, 1)
    assert export.out.startswith(f"{runs[1].name}: 1 params, ")


def test_a_server_that_names_a_folder_of_another_machine(run: Run, tmp_path: Path) -> None:
    options = ("--no-serve-artifacts", "--default-artifact-root", "/nowhere/of/ours")
    with served(tmp_path, None, *options) as server:
        export = Export(tmp_path, server.uri, run.name)
    assert export.code == ExitCode.SERVICE
    assert re.fullmatch(
        r"error: the server keeps files in /nowhere/of/ours/\S+, which is not on this machine; "
        r"start it with `mlflow server --serve-artifacts`\n",
        export.err,
    )
    assert not Path("/nowhere").exists()


class Proxy(ThreadingHTTPServer):
    """Passes requests on; the last one without its answer, or not at all."""

    def __init__(self, server: Server, last: int, *, delivers_last: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = server.uri.removeprefix("http://")
        self.left = last
        self.delivers_last = delivers_last

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        proxy = self.server
        assert isinstance(proxy, Proxy)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        proxy.left -= 1
        self.close_connection = True
        if proxy.left < 0 or (proxy.left == 0 and not proxy.delivers_last):
            return
        headers = {name: text for name, text in self.headers.items() if name.lower() != "host"}
        with contextlib.closing(http.client.HTTPConnection(proxy.target, timeout=60)) as client:
            client.request(self.command, self.path, body, headers)
            answer = client.getresponse()
            data = answer.read()
        if proxy.left > 0:
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = _pass_on  # noqa: N815 - names of http.server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Write no log."""


def test_wherever_it_is_lost_the_next_export_completes_it(
    server: Server, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is lost after its first request, after its third, and so on, each with a run of its own."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    last = -1
    while True:
        last += 2
        run = made(tmp_path, f"started 7 {AT} 0", f"ended 7 {AT + 9} 0", name=f"{experiment}{last}-1")
        entries = [{"step": step, "metrics": {"m": step, "n": step}} for step in range(600)]
        model = kept(run, "m.pt", "weights", "model")
        logged(run, "7/0.0/rank-0", *entries, {"params": {"batch": 4}}, model)
        found, _ = export.read(Report(run, COMPLETED), AT)
        is_same = last % 4 == 1
        with Proxy(server, last, delivers_last=not is_same) as proxy:
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            is_lost, destination = False, Destination(proxy.uri)
            try:
                [*destination.send(found)]
            except ServiceError:
                is_lost = True
            proxy.left = 1000
            if not is_same:  # a new process; else the same goes on, as with --follow
                destination = Destination(proxy.uri)
            [*destination.send(found)]
            proxy.shutdown()
        assert_whole(server, f"{experiment}{last}")
        if not is_lost:
            break
    assert last > 15


def assert_whole(server: Server, experiment: str) -> None:
    [there] = server.runs(experiment)
    run_id = there["info"]["run_id"]
    for name in ("m", "n"):
        steps = [(step, value) for step, _, value in server.history(run_id, name)]
        assert sorted(steps) == [(step, step) for step in range(600)]
    assert there["info"]["status"] == "FINISHED"
    assert {each["key"]: each["value"] for each in there["data"]["params"]} == {"lr": "0.1", "batch": "4"}
    assert {*server.files(there)} == {"m.pt", "hpcdist/plan.json", "hpcdist/sent.json"}
    versions = server.get("mlflow/model-versions/search", filter=f"name = '{experiment}-m.pt'")
    assert len(versions["model_versions"]) == 1
