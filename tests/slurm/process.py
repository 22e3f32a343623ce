"""Starting programs, finding them again and waiting for things, always for a bounded time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# unshare ignores SIGTERM while it waits; with SIGKILL, --kill-child takes the namespace's pid 1 along.
UNSHARE = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")


class ClusterError(Exception):
    """The test cluster could not be built, or did not do what was waited for."""


def until(condition: Callable[[], object], what: str, seconds: float = 120, every: float = 0.2) -> None:
    """Return as soon as `condition` holds; after `seconds` raise a ClusterError that names `what`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(every)


def call(*argv: str, stdin: str | None = None, pass_fds: Sequence[int] = (), timeout: float = 60) -> str:
    """Run a program that must succeed and return what it printed; its errors go where this process's go."""
    completed = subprocess.run(
        argv, input=stdin, pass_fds=pass_fds, timeout=timeout, check=True, stdout=subprocess.PIPE, text=True
    )
    return completed.stdout


def become(user: str) -> list[str]:
    """The words in front of a command that make it run as `user`, with no session and no shell."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that it and its children started."""
    yield pid
    for child in children(pid):
        yield from family(child)


def is_first(pid: int) -> bool:
    """Whether the process is pid 1 of a namespace below ours."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
    return len(numbers) > 1 and numbers[-1] == "1"


def first_below(starter: subprocess.Popen[str], log: Path) -> int:
    """The pid 1, as this side numbers it, that an `unshare` at or below `starter` forks, once it has."""
    deadline = time.monotonic() + 120
    while starter.poll() is None and time.monotonic() < deadline:
        pid = starter.pid
        while below := children(pid):
            pid = below[0]
            if is_first(pid):
                return pid
        time.sleep(0.005)
    raise ClusterError(f"no namespace came up:\n{log.read_text()}")


def reap_forever() -> None:
    """Be a good pid 1: whatever dies in this namespace without a parent is collected."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)
