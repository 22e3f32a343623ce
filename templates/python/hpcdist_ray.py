"""Starts the processes of Ray on one node; on the first, the program when all nodes have joined.

    python3 hpcdist_ray.py --nodes=2 --wait=300 [--start=OPTION] [--head=OPTION] -- PROGRAM...

``--start`` and ``--head``: options for ``ray start`` on all nodes, and on the first. Tried with Ray 2.60.
"""

import argparse
import ctypes
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from shutil import copytree, rmtree, which
from threading import Thread
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

_PORTS = ("node-manager", "object-manager", "dashboard", "dashboard-agent-listen", "dashboard-agent-grpc",
          "runtime-env-agent", "metrics-export", "ray-client-server")  # fmt: skip
"""What listens behind the job's first port, at which the head does, in this order."""
_OF_HEAD = {"dashboard", "ray-client-server"}
_LONGEST = 41
"""What a folder may have of the 107 bytes of a socket's path, as Ray adds up to 66."""

_GAVE_UP = "timed out during startup"
"""What ``ray start`` says after 30 s, which are too few on a busy node (ray/_private/node.py, 2.60)."""

_BASE = "/tmp"  # noqa: S108 - the folder in it is checked
_TERM = 128 + signal.SIGTERM
_C = ctypes.CDLL(None)
_FILES = 65535
"""The open files that Ray may need (docs.ray.io, Best practices for deploying large clusters)."""


def main() -> NoReturn:
    """End with the program's exit code on the first node, and never by itself on the others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--wait", type=int)
    parser.add_argument("--start", action="append", default=[])
    parser.add_argument("--head", action="append", default=[])
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    node = _Node()
    for name in ("USR1", "USR2", "HUP", "INT"):
        signal.signal(getattr(signal, "SIG" + name), node.leave)
    signal.signal(signal.SIGTERM, node.end)
    _allow_files()
    try:
        code = node.run(options)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if isinstance(error.code, str):
            sys.stderr.write("hpcdist: {}\n".format(error.code))
    except Exception as error:  # noqa: BLE001 - whatever Ray raises
        code = 1
        sys.stderr.write("hpcdist: Ray on {}: {!r}\n".format(node.name, error))
    signal.signal(signal.SIGTERM, node.leave)
    code = node.stop(code)
    sys.stderr.flush()
    os._exit(code)  # Ray's own threads may not end


def _allow_files() -> None:
    """Raise the limit of open files, as far as the node lets, for all that Ray starts here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Node:
    """This node of the cluster."""

    def __init__(self) -> None:
        self.name = os.uname().nodename
        self.port = int(os.environ["HPCDIST_PORT"])
        self.is_head = os.environ["HPCDIST_NODE"] == "0"
        self.address = os.environ["HPCDIST_HEAD_ADDRESS" if self.is_head else "HPCDIST_ADDRESS"]
        self.head = (os.environ["HPCDIST_HEAD_ADDRESS"], self.port)
        job = re.sub(r"\W", "-", os.environ["HPCDIST_JOB_ID"].split(".")[0])[:20]
        self.folder = "{}/ray-{}-{}".format(os.environ.get("RAY_TMPDIR", _BASE), os.getuid(), job)
        self.log = "{}/ray.{}.out".format(os.environ["HPCDIST_JOB_DIR"], os.environ["HPCDIST_NODE"])
        self.deadline = time.monotonic()
        self.start: Dict[str, Any] = {}
        self.ray: Optional["subprocess.Popen[bytes]"] = None
        self.program: Optional["subprocess.Popen[bytes]"] = None
        self.connections: List[socket.socket] = []
        self.passes_on = os.environ.pop("HPCDIST_PASS_ON", "")

    def leave(self, number: int, _: Any) -> None:
        """Leave a signal to the program, which gets it too; but TERM and HUP may have come here alone."""
        alone = self.passes_on and number in (signal.SIGTERM, signal.SIGHUP)
        if alone and self.program and self.program.poll() is None:
            self.program.send_signal(number)

    def end(self, number: int, frame: Any) -> None:
        """Leave TERM to the program as well, which may still save what it has."""
        self.leave(number, frame)
        raise SystemExit(_TERM)

    def run(self, options: argparse.Namespace) -> int:
        if not which("ray"):
            sys.exit(
                "there is no ray on {}; activate the environment that has it before you submit, "
                "or name its module in batch.modules".format(self.name)
            )
        self._make_folder()
        self.deadline += options.wait
        if "ROCR_VISIBLE_DEVICES" in os.environ and "HIP_VISIBLE_DEVICES" not in os.environ:
            os.environ["HIP_VISIBLE_DEVICES"] = os.environ.pop("ROCR_VISIBLE_DEVICES")  # else Ray refuses
        environment = dict(os.environ)
        if self.is_head:
            self._protect(environment)
            own = ["--head", "--port={}".format(self.port), "--temp-dir=" + self.folder, *options.head]
            self._start([*own, *options.start], environment)
            self._await((self.address, self.port + 1), "its own raylet")
            return self._drive(options, environment)
        head = self._await((self.head[0], self.port + len(_PORTS) + 1), "Ray's head")
        self._protect(environment)
        self._start(["--address={}:{}".format(*self.head), *options.start], environment)
        self._wait_for_end(head)
        return 0

    def _accept(self) -> None:
        """Let the other nodes connect; they see by the end of this connection that this program has ended."""
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((self.address, self.port + len(_PORTS) + 1))
        server.listen()

        def accept() -> None:
            while True:
                self.connections.append(server.accept()[0])

        Thread(target=accept, daemon=True).start()

    def _make_folder(self) -> None:
        """Make the folder of sockets and logs, which nobody else may enter: others could act as this user."""
        if len(os.fsencode(self.folder)) > _LONGEST:
            sys.exit("{} is too long for the sockets of Ray; set a shorter RAY_TMPDIR".format(self.folder))
        with suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
        found = os.lstat(self.folder)
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
            sys.exit("{} on {} is there already, and not your own".format(self.folder, self.name))

    def _protect(self, environment: Dict[str, str]) -> None:
        """Let only who can read a file of the job use the cluster (Ray 2.52 and later)."""
        place = os.environ["HPCDIST_FAILURE"].rpartition("/failure")
        token = "{}/ray{}".format(place[0], place[2])
        if self.is_head:
            with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(os.urandom(32).hex())
        if "RAY_AUTH_MODE" not in environment:
            environment.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token)
        os.environ.update(environment)

    def _start(self, options: List[str], environment: Dict[str, str]) -> None:
        gpus = [number for number in os.environ.get("HPCDIST_GPUS", "").split(",") if number]
        words = ["ray", "start", "--block", "--node-ip-address=" + self.address, *self._ports(),
                 "--num-cpus=" + os.environ["HPCDIST_CPUS"], "--num-gpus={}".format(len(gpus))]  # fmt: skip
        own = dict(environment, RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S="0")
        own.pop("RAY_ADDRESS", None)
        self.start = {"args": words + options, "env": own, "stdin": subprocess.DEVNULL}
        self._launch()

    def _launch(self) -> None:
        with open(self.log, "wb") as log:
            # No thread of this program has a lock that _detach needs.
            self.ray = subprocess.Popen(**self.start, stdout=log, stderr=log, preexec_fn=_detach)  # noqa: PLW1509

    def _ports(self) -> Iterator[str]:
        for number, name in enumerate(_PORTS, 1):
            if (self.is_head or name not in _OF_HEAD) and (find_spec("grpc") or name != "ray-client-server"):
                yield "--{}-port={}".format(name, self.port + number)
        # Workers listen at any free port: nobody knows how many there will be.
        yield from ("--min-worker-port=0", "--max-worker-port=0")

    def _await(self, place: Tuple[str, int], what: str) -> socket.socket:
        """Return a connection to this address, once somebody listens there."""
        while True:
            with suppress(OSError):
                return socket.create_connection(place, 5)
            self._check()
            if time.monotonic() > self.deadline:
                sys.exit("{}, at {}:{}, could not be reached from {} in time".format(what, *place, self.name))
            time.sleep(0.5)

    def _check(self) -> None:
        """Start the processes of Ray again where it gave them too little time; exit where they have ended."""
        if not self.ray or self.ray.poll() is None:
            return
        with open(self.log, errors="replace") as log:
            end = "".join(log.readlines()[-20:])
        if _GAVE_UP not in end or time.monotonic() > self.deadline:
            sys.exit("Ray on {} has ended; its last lines are:\n{}".format(self.name, end.rstrip()))
        self._kill()
        self._launch()

    def _kill(self) -> None:
        """End what Ray has started, at once: launchers kill what a second after TERM still runs."""
        if self.ray:
            with suppress(OSError):
                os.killpg(self.ray.pid, signal.SIGKILL)
            self.ray.wait()

    def _wait_for_end(self, head: socket.socket) -> None:
        head.settimeout(1)
        while True:
            try:
                if not head.recv(1):
                    return
            except socket.timeout:
                self._check()
            except OSError:
                return

    def _drive(self, options: argparse.Namespace, environment: Dict[str, str]) -> int:
        import logging

        import ray

        while True:  # Ray gives up after some seconds, which are too few on a busy node
            try:
                ray.init(address="{}:{}".format(*self.head), logging_level=logging.ERROR, log_to_driver=False)
                break
            except ConnectionError:
                ray.shutdown()
                self._check()
                if time.monotonic() > self.deadline:
                    raise
        signal.signal(signal.SIGTERM, self.end)  # Ray has one of its own
        self._accept()
        while len(_alive(ray)) < options.nodes:
            self._check()
            if time.monotonic() > self.deadline:
                joined = " ".join(sorted(_alive(ray).values()))
                sys.exit("only {} of {} nodes have joined Ray in time: {}".format(
                    len(_alive(ray)), options.nodes, joined))  # fmt: skip
            time.sleep(0.5)
        first = _alive(ray)
        self.program = subprocess.Popen(options.program, env=environment)
        while True:
            with suppress(subprocess.TimeoutExpired):
                return _code_of(self.program.wait(2))
            self._check()
            lost = sorted(name for key, name in first.items() if key not in _alive(ray))
            if lost:
                sys.exit("Ray has lost {}: its raylet was ended or cannot be reached".format(" ".join(lost)))

    def stop(self, code: int) -> int:
        """End what runs here, and remove its folder; return the exit code, which is the program's on TERM."""
        if self.program and self.program.poll() is None:
            if code != _TERM:
                self.program.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.program.wait(5)
                self.program.kill()
            code = _code_of(self.program.wait()) if code == _TERM else code
        self._kill()
        for connection in self.connections:  # the others then have time to do the same
            connection.close()
        if code not in (0, _TERM):
            with suppress(OSError):
                logs = os.path.realpath(self.folder + "/session_latest/logs")
                copytree(logs, self.log[: -len(".out")])
        for _ in range(20):  # what the raylet started ends a moment after it, and may still write
            rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.2)
        if self.connections:
            time.sleep(2)
        return code


def _alive(ray: Any) -> Dict[str, str]:
    """Return the names of the nodes that are alive."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def _code_of(code: int) -> int:
    return code if code >= 0 else 128 - code


def _detach() -> None:
    """Let signals for the job's processes not end those of Ray, but the end of this one."""
    os.setsid()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    _C.prctl(1, signal.SIGTERM)


if __name__ == "__main__":
    main()
