"""Boot a real Slurm with several hosts on this machine, and run commands on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.slurm import accounting as database
from tests.slurm import cgroups
from tests.slurm.config import DEFAULT_NODES, USERS, Node, Settings
from tests.slurm.process import (
    SYSTEM_PATH,
    UNSHARE,
    ClusterError,
    become,
    children,
    first_below,
    until,
)
from tests.slurm.release import folder
from tests.slurm.requirements import missing

CHECKOUT = Path(__file__).resolve().parents[2]

# Debian's own Python, without site-packages: another one may lie where the cluster's tmpfs hides it.
PYTHON = ("/usr/bin/python3", "-E", "-s", "-S", "-m")
UP = {"idle", "mixed", "allocated", "completing"}
SYSTEM_ENV = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}

Words = Sequence[str | Path]
Completed = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str]


def start_head(settings: Settings) -> Process:
    """Start the head so that it dies with us, however we die."""
    words: Words = [
        "setpriv",
        "--pdeathsig=KILL",
        *UNSHARE,
        "--net",
        *PYTHON,
        "tests.slurm.head",
        settings.directory,
    ]
    with settings.log("head").open("w") as log:
        return subprocess.Popen(
            words,
            cwd=CHECKOUT,
            env=SYSTEM_ENV,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )


@dataclass
class Cluster:
    """A running Slurm: a head and nodes that share the directories it was given, and nothing else.

    It lives in its own namespaces: the host is unchanged, and several can run side by side. It ends with
    `stop`, with a SIGKILL of `pid`, or with the process that booted it; nothing is left but its directory.
    `pids` has the first process of the head and of each node that is on, as the host numbers them.
    """

    settings: Settings
    _starter: Process
    pids: dict[str, int] = field(default_factory=dict)
    _powered: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def boot(  # noqa: PLR0913 - each is a property of the cluster
        cls,
        directory: Path,
        *,
        nodes: Sequence[Node] = DEFAULT_NODES,
        accounting: bool = False,
        proctrack: str = "",
        release: str = "",
        topology: str = "",
        kill_wait: int = 5,
        constrains_memory: bool = False,
        share: Sequence[Path] = (),
    ) -> Cluster:
        """Boot a cluster that keeps its files in `directory`, and return when all its nodes are idle.

        The project's checkout, `directory` and the paths of `share` are the same on all nodes and on the
        host, and unprivileged users can reach them even where the host's directories above are closed.
        `proctrack`: as in `Settings`; by default "cgroup" where the machine has what it needs.
        `release`: of Debian, for its Slurm; without one this machine's is booted.
        """
        if not proctrack:
            proctrack = "linuxproc" if release or cgroups.missing() else "cgroup"
        if problem := missing(accounting=accounting) or (proctrack == "cgroup" and cgroups.missing()):
            raise ClusterError(problem)
        for name in ("log", "home", "ready", "spool"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        shared = tuple(path.resolve() for path in (CHECKOUT, directory, *share))
        root = folder(release) if release else Path("/")
        place = directory.resolve()
        settings = Settings(
            place, shared, tuple(nodes), accounting, proctrack, root, topology, kill_wait, constrains_memory
        )
        settings.save()
        if accounting:
            database.fetch(settings)
        cluster = cls(settings, start_head(settings))
        try:
            cluster._come_up()
            if accounting:
                database.keep(settings)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def pid(self) -> int:
        """A SIGKILL of this process is the end of the cluster."""
        return self.pids["head"]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.settings.nodes)

    def home(self, user: str = "hu1") -> Path:
        return self.settings.home(user)

    def workdir(self) -> Path:
        """Return a fresh directory of hu1 that all nodes share."""
        path = Path(tempfile.mkdtemp(dir=self.home(), prefix="work-"))
        os.chown(path, USERS["hu1"], USERS["hu1"])
        return path

    def popen(  # noqa: PLR0913
        self,
        argv: Words,
        *,
        user: str = "hu1",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        node: str = "head",
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.PIPE,
    ) -> Process:
        """Start a command on a node, in the user's home unless told; to signal it, use `signal`.

        Its environment is a system PATH, HOME, USER, LANG and what `env` adds: nothing of the caller's.
        """
        home = Path("/") if user == "root" else self.home(user)
        enter = ["nsenter", "-t", str(self.pids[node]), "-m", "-n", "-u", "-p", "-i", "--"]
        identity = [] if user == "root" else become(user)
        return subprocess.Popen(
            [*enter, *identity, "env", "-C", cwd or home, *argv],
            env=SYSTEM_ENV | {"HOME": str(home), "USER": user} | dict(env or {}),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def run(  # noqa: PLR0913
        self,
        argv: Words,
        *,
        user: str = "hu1",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        node: str = "head",
        check: bool = False,
        timeout: float = 600,
        input: str | None = None,  # noqa: A002 - the name that subprocess.run has
    ) -> Completed:
        """Run a command on a node and return what became of it; see `popen` for where and with what.

        After `timeout` seconds its whole process group is killed and subprocess.TimeoutExpired raised.
        """
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        process = self.popen(argv, user=user, cwd=cwd, env=env, node=node, stdin=stdin)
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=10)
            raise
        completed = subprocess.CompletedProcess(list(map(str, argv)), process.returncode, out, err)
        if check and completed.returncode:
            sys.stderr.write(err)
            completed.check_returncode()
        return completed

    def signal(self, process: Process, number: int) -> None:
        """Send a signal to the program that `popen` started: `process` itself only waits for it."""
        for pid in children(process.pid):
            os.kill(pid, number)

    def states(self) -> dict[str, str]:
        """Each node's state in Slurm's words, such as idle or down*; nothing while Slurm does not answer."""
        lines = self.run(["sinfo", "-h", "-N", "-p", "all", "-o", "%N %T"], user="root").stdout.splitlines()
        return {name: state for name, _, state in (line.partition(" ") for line in lines)}

    def wait_idle(self, seconds: float = 300) -> None:
        """Return when every node is up and nothing runs on it."""
        idle = dict.fromkeys(self.nodes, "idle")
        until(lambda: self.states() == idle, "all nodes to be idle", seconds, every=0.1)

    def crash(self, name: str, *, noticed: bool = True) -> None:
        """Cut a node's power: its address falls silent, and everything on it is gone at once.

        Slurm takes 20 s to notice by itself; unless a test is about that, it is told.
        """
        self._administer("ip", "link", "set", name, "down")
        os.kill(self.pids.pop(name), signal.SIGKILL)
        self._powered.pop(name).wait(30)
        if noticed:
            self._administer("scontrol", "update", f"nodename={name}", "state=down", "reason=Not responding")

    def restore(self, name: str) -> None:
        """Switch a crashed node on again, and return when Slurm sees it up: idle, or with its jobs on it."""
        self._administer("ip", "link", "set", name, "up")
        self._power_on(name)
        self._await_daemons(name, self._powered[name])
        until(lambda: self.states().get(name) in UP, f"Slurm to see {name} up", every=0.1)

    def heal(self) -> None:
        """Make the cluster fit for the next test: no job is left, and every node is up and idle."""
        if self._administer("squeue", "-h").stdout:
            for user in ("root", *USERS):
                self._administer("scancel", "-u", user)
        for name in self.nodes:
            if name not in self._powered:
                self.restore(name)
        for name, state in self.states().items():
            if state.startswith(("down", "drain")):
                self._administer("scontrol", "update", f"nodename={name}", "state=resume")
        self.wait_idle()

    def stop(self) -> None:
        """End the cluster; when this returns, none of its processes exists. A second call does nothing."""
        if self._starter.poll() is None:
            # unshare ends with the pid 1 that it waits for; killed itself, it would leave the host a zombie.
            with suppress(ProcessLookupError):
                os.kill(self.pids.get("head", self._starter.pid), signal.SIGKILL)
            self._starter.wait(30)
        for process in self._powered.values():
            process.wait(30)
        self._powered.clear()
        if self.settings.proctrack == "cgroup":
            cgroups.remove(self.settings)

    def __enter__(self) -> Cluster:  # noqa: PYI034 - Self is new in Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _administer(self, *argv: str) -> Completed:
        return self.run(argv, user="root", check=True)

    def _come_up(self) -> None:
        log = self.settings.log("head")
        self.pids["head"] = first_below(self._starter, log)
        self._await_daemons("head", self._starter)
        for name in self.nodes:
            self._power_on(name)
        for name, process in self._powered.items():
            self._await_daemons(name, process)
        self.wait_idle()

    def _power_on(self, name: str) -> None:
        log = self.settings.log(name)
        self.settings.ready(name).unlink(missing_ok=True)
        words: Words = [
            "ip",
            "netns",
            "exec",
            name,
            *UNSHARE,
            *PYTHON,
            "tests.slurm.node",
            self.settings.directory,
            name,
        ]
        with log.open("w") as file:
            self._powered[name] = self.popen(words, user="root", cwd=CHECKOUT, stdout=file, stderr=file)
        self.pids[name] = first_below(self._powered[name], log)

    def _await_daemons(self, name: str, process: Process) -> None:
        def up() -> bool:
            if process.poll() is not None:
                raise ClusterError(f"{name} did not come up:\n{self.settings.log(name).read_text()}")
            return self.settings.ready(name).exists()

        until(up, f"{name} to come up", seconds=300, every=0.02)
