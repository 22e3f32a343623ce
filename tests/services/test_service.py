"""The program of notebooks and TensorBoards, with stand-ins for Jupyter, and the real TensorBoard."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.slurm.process import until

PROGRAM: Final = Path(__file__).parents[2] / "templates/python/hpcdist_service.py"
NODE: Final = socket.gethostname()
ME: Final = getpass.getuser()
OPEN: Final = "Jupyter answers without its token: your own settings of Jupyter turn it off, and it was ended"
JUPYTER: Final = """\
#!{python}
import http.server, json, os, sys

token = open(os.environ["JUPYTER_TOKEN_FILE"]).read()
port = next(word[7:] for word in sys.argv if word.startswith("--port="))
with open("seen.json", "w") as stream:
    json.dump([sys.argv[1:], token in str([sys.argv, {{**os.environ}}]), len(token) > 30], stream)

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({code})
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", int(port)), Server).serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs/run-1").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    return tmp_path


def jupyter(folder: Path, code: int) -> None:
    """Write a program that answers requests without a token by this code."""
    program = folder / "bin/jupyter"
    program.write_text(JUPYTER.format(python=sys.executable, code=code))
    program.chmod(0o755)


@contextmanager
def started(folder: Path, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    own = {"HPCDIST_RUN_DIR": str(folder / "runs/run-1"), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    argv = [sys.executable, str(PROGRAM), *words]
    with subprocess.Popen(
        argv,
        env=os.environ | own | variables,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def address(folder: Path) -> dict[str, Any]:
    file = folder / "runs/run-1/address.json"
    until(file.exists, "the server to be up")
    assert file.stat().st_mode & 0o777 == 0o600
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


@pytest.mark.parametrize(
    ("flavour", "variables", "path", "tunnel"),
    [
        ("lab", {}, "lab", f"localhost:{{port}} {ME}@{NODE}"),
        (
            "notebook",
            {"SLURM_SUBMIT_HOST": "login1"},
            "tree",
            f"localhost:{{port}} -J {ME}@login1 {ME}@{NODE}",
        ),
        ("server", {"PBS_O_HOST": NODE}, "", f"localhost:{{port}} {ME}@{NODE}"),
        (
            "lab",
            {"LSB_SUB_HOST": "login1", "POLYAXON_PARAMS": '{"bind": "node"}'},
            "lab",
            f"{NODE}:{{port}} {ME}@login1",
        ),
    ],
)
def test_a_notebook(folder: Path, flavour: str, variables: Mapping[str, str], path: str, tunnel: str) -> None:
    jupyter(folder, 403)
    with started(folder, "notebook", flavour, **variables) as process:
        found = address(folder)
        port, token = found["port"], folder / "runs/run-1/token"
        line = f"ssh -N -L {port}:" + tunnel.format(port=port)
        url = f"http://localhost:{port}/{path}"
        assert found == {
            "kind": "notebook", "node": NODE, "port": port, "url": url, "tunnel": line, "token": str(token),
        }  # fmt: skip
        assert token.stat().st_mode & 0o777 == 0o600
        words, shown, long = json.loads((folder / "seen.json").read_text())
        host = "0.0.0.0" if "bind" in str(variables) else "127.0.0.1"  # noqa: S104 - as asked for
        assert words[:5] == [flavour, "--no-browser", f"--ip={host}", f"--port={port}", "--port-retries=0"]
        assert (shown, long) == (False, True)
        process.send_signal(signal.SIGTERM)
        code, output = ended(process)
    head = f"hpcdist: notebook is up on {NODE}, port {port}; on your own machine:\n  {line}\n"
    assert output.startswith(f"{head}  then open {url}\n  with the token in {token}\n")
    assert (code, (folder / "runs/run-1/address.json").exists()) == (128 + signal.SIGTERM, False)
    assert token.read_text() not in output


def test_one_without_its_token_is_ended(folder: Path) -> None:
    jupyter(folder, 200)
    with started(folder, "notebook", "lab") as process:
        code, output = ended(process)
    assert (code, [line for line in output.splitlines() if line.startswith("hpcdist: ")]) == (
        1,
        [f"hpcdist: {OPEN}"],
    )
    assert not (folder / "runs/run-1/address.json").exists()


def test_one_that_takes_long_to_end_is_not_announced_any_more(folder: Path) -> None:
    """On this machine mpirun kills what has not ended one second after TERM."""
    jupyter(folder, 403)
    program = folder / "bin/jupyter"
    late = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    late += "open('pid', 'w').write(str(os.getpid()))\n"
    program.write_text(program.read_text().replace("token = open", f"{late}token = open"))
    with started(folder, "notebook", "lab") as process:
        address(folder)
        process.send_signal(signal.SIGTERM)
        until(lambda: not (folder / "runs/run-1/address.json").exists(), "the address to be gone")
        assert process.poll() is None
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        assert ended(process)[0] == 128 + signal.SIGKILL


def test_one_that_is_not_there_or_fails(folder: Path) -> None:
    with started(folder, "notebook", "lab", PATH=str(folder / "bin")) as process:
        assert ended(process) == (
            1,
            "hpcdist: jupyter cannot be started: jupyter: No such file or directory\n",
        )
    (folder / "bin/jupyter").write_text("#!/bin/sh\nexit 7\n")
    (folder / "bin/jupyter").chmod(0o755)
    with started(folder, "notebook", "lab") as process:
        assert ended(process) == (7, "")


def test_a_real_tensorboard(folder: Path) -> None:
    """By default it shows all runs beside its own; the address of an attempt that was killed is gone."""
    (folder / "runs/run-1/address.json").write_text("{}")
    (folder / "runs/run-1/address.json").chmod(0o600)
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with started(folder, "tensorboard", PATH=own) as process:
        until(lambda: len(address(folder)) > 1, "TensorBoard to be up")
        found = address(folder)
        with urllib.request.urlopen(f"http://127.0.0.1:{found['port']}/data/environment") as answer:
            told = json.load(answer)
        assert (found["url"], found["token"]) == (f"http://localhost:{found['port']}/", "")
        assert told["data_location"] == str(folder / "runs")
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
