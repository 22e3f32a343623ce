"""What a job there serves is reached here, while a verb waits for its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest
from msgspec.structs import asdict, replace

from hpcdist.base.command import Command, Completed
from hpcdist.runs import rundir
from hpcdist.runs.address import Address
from hpcdist.runs.remotes import tunnels
from hpcdist.runs.remotes.connection import Connection
from hpcdist.runs.remotes.tunnels import Tunnel, Way
from hpcdist.runs.rundir import Phase, Record, Run
from tests.runs.remotes.server import Laptop
from tests.slurm.process import until

FOUND: Final = Address(
    "notebook",
    "n1",
    4000,
    "http://localhost:4000/lab",
    "ssh -N -L 4000:localhost:4000 -J me@login me@n1",
    "/t",
)


class Ssh:
    """An ssh of which those calls fail that are about a port in ``taken``, or while it is ``down``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.down = False
        self.taken = ""

    def run(self, command: Command) -> Completed:
        self.calls.append(command.argv)
        fails = self.down or (self.taken and any(self.taken in word for word in command.argv))
        return Completed(command, 255 if fails else 0, stderr="refused" if fails else "")

    def attach(self, command: Command) -> int:
        return self.run(command).returncode

    def asked(self, what: str) -> list[str]:
        """Return the ports of which this was asked."""
        return [argv[argv.index("-L") + 1] for argv in self.calls if what in argv]


def connection(ssh: Ssh, folder: Path) -> Connection:
    """Return one whose socket is there."""
    made = Connection("box", "far", ssh, folder, sleep=lambda _: None)
    made.socket.touch()
    return made


def test_the_loopback_of_a_node_is_reached_through_the_connection_with_its_remote(tmp_path: Path) -> None:
    remote = Connection("box", "a%b", Ssh(), tmp_path)
    proxy = (
        f"ssh -oControlPath={remote.socket} -T -a -x -oClearAllForwardings=yes -oPermitLocalCommand=no "
        "-oRemoteCommand=none -oServerAliveInterval=15 -oServerAliveCountMax=4 -oConnectTimeout=20 "
        "-oControlMaster=no -oBatchMode=yes -W '[%h]:%p' -- a%%b"
    )
    node = remote._replace(name="n1", host="me@n1", config=(f"-oProxyCommand={proxy}",))
    assert tunnels.way(remote, FOUND) == Way(node, "localhost:4000", 4000)
    direct = replace(FOUND, tunnel="ssh -N -L 4000:n1:4000 me@login")
    assert tunnels.way(remote, direct) == Way(remote, "n1:4000", 4000)
    assert tunnels.way(remote, replace(FOUND, tunnel="ssh n1; rm -r x")) is None


class Waits:
    """A run that is waited for: its address is written here, its clock goes on by itself."""

    def __init__(self, folder: Path) -> None:
        record = Record("nb", "t0", "box", "slurm", "", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED)
        self.run = Run(rundir.create(folder / "runs", "nb"), record)
        self.ssh, self.at, self.notes = Ssh(), 0.0, list[str]()
        self.tunnel = Tunnel(self.run, connection(self.ssh, folder), lambda: self.at, self.notes.append)

    def serve(self, port: int) -> None:
        found = replace(
            FOUND,
            port=port,
            url=f"http://localhost:{port}/lab",
            tunnel=f"ssh -N -L {port}:n1:{port} me@login",
        )
        self.run.directory.write("address.json", json.dumps(asdict(found)))

    def keep(self, seconds: float = 0.0) -> list[str]:
        """Go on so long, and return what is noted then."""
        self.at += seconds
        before = len(self.notes)
        self.tunnel.keep()
        return self.notes[before:]


def at(port: int, folder: Path) -> list[str]:
    """Return what is noted when a tunnel is open."""
    url = f"http://127.0.0.1:{port}/lab"
    return [f"nb-1 is at {url} on this machine while this command runs; its token is in {folder}/runs/nb-1/t"]


def test_it_opens_when_the_run_serves_something_and_again_when_it_was_lost(tmp_path: Path) -> None:
    waits = Waits(tmp_path)
    assert (waits.keep(), waits.ssh.calls) == ([], [])
    waits.serve(4000)
    assert (waits.keep(), waits.keep(9), waits.keep()) == (at(4000, tmp_path), [], [])
    waits.ssh.down = True
    assert (waits.keep(9), waits.keep(19)) == ([], [])  # the verb that waits says that the remote is away
    waits.ssh.down = False
    assert waits.keep(60) == []
    assert {*waits.ssh.asked("forward")} == {"127.0.0.1:4000:n1:4000"}
    waits.tunnel.close()
    assert waits.ssh.asked("cancel") == ["127.0.0.1:4000:n1:4000"]


def test_it_follows_a_server_that_begins_anew(tmp_path: Path) -> None:
    waits = Waits(tmp_path)
    waits.serve(4000)
    waits.keep()
    waits.serve(5000)
    assert waits.keep() == at(5000, tmp_path)
    assert waits.ssh.asked("cancel") == ["127.0.0.1:4000:n1:4000"]


def test_where_its_port_is_taken_here_it_takes_another_one(tmp_path: Path) -> None:
    waits = Waits(tmp_path)
    waits.ssh.taken = "127.0.0.1:4000:"
    waits.serve(4000)
    [said] = waits.keep()
    _, other = waits.ssh.asked("forward")
    assert [said] == at(int(other.split(":")[1]), tmp_path)
    assert other != "127.0.0.1:4000:n1:4000"


def test_one_that_cannot_be_opened_is_named_once(tmp_path: Path) -> None:
    waits = Waits(tmp_path)
    waits.ssh.taken = ":n1:4000"
    waits.serve(4000)
    assert waits.keep() == [
        "no tunnel to nb-1: no port leads to box: refused; try `ssh -N -L 4000:n1:4000 far`"
    ]
    assert (waits.keep(60), waits.keep(600)) == ([], [])


SERVER: Final = """\
import http.server, json, os
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
port = server.server_port
found = {"kind": "notebook", "node": "n1", "port": port, "url": f"http://localhost:{port}/address.json",
         "tunnel": f"ssh -N -L {port}:localhost:{port} me@login7", "token": ""}
with open("new", "w") as file:
    json.dump(found, file)
os.rename("new", "address.json")
server.serve_forever()
"""


@contextmanager
def started(here: Laptop, *words: str) -> Iterator[IO[str]]:
    """Run hpcdist meanwhile, and yield what it writes to stderr; it ends as by Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "hpcdist", *words],
        cwd=here.work, env=here.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr
        try:
            yield process.stderr
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def reached(errors: IO[str]) -> str:
    """Return the URL that hpcdist prints next."""
    for line in errors:
        if " is at http" in line:
            return line.split()[line.split().index("at") + 1]
    raise AssertionError


def fetched(url: str) -> str:
    """Return the page at a URL."""
    text: str = urllib.request.urlopen(url, timeout=30).read().decode()  # noqa: S310 - of this machine
    return text


def is_there(url: str) -> bool:
    """Return whether a URL can be reached."""
    try:
        return bool(fetched(url))
    except OSError:
        return False


@pytest.mark.extended
@pytest.mark.real
def test_a_page_comes_through_it_also_after_the_connection_was_lost(here: Laptop) -> None:
    """The other machine is this one, where the port is taken: here it is another one."""
    here.write("serve", f"cd \"$HPCDIST_RUN_DIR\"; exec python3 -c '{SERVER}'")
    here.hpcdist("submit", "serve.yml", "--on", "box")
    with started(here, "logs", "serve-1", "-f") as errors:
        url = reached(errors)
        written = json.loads(fetched(url))
        assert str(written["port"]) not in url
        here.close()
        until(lambda: here.calls("master") == 2, "a new connection")
        until(lambda: is_there(url), "the page")
        assert json.loads(fetched(url)) == written
    assert not is_there(url)
    here.hpcdist("cancel", "serve-1")


@pytest.mark.extended
@pytest.mark.real
def test_on_a_terminal_submit_waits_for_what_serves(here: Laptop) -> None:
    notebook = {"kind": "notebook", "params": {"folder": "/no/such/folder"}}
    (here.work / "notebook.yml").write_text(json.dumps(notebook))
    submit = ("submit", "notebook.yml", "--on", "box")
    assert "notebook-1 failed with exit code 1" in here.on_terminal("", *submit)
    assert "failed" not in here.hpcdist(*submit).stderr
