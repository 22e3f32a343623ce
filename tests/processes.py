"""Processes of this machine, found by what stands in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

PATIENCE: Final = 30.0
"""So many seconds may a process take to end that was told to."""


def holders(variable: str, value: str) -> dict[int, dict[str, str]]:
    """Return the environments of the living processes in which a variable has this value."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            entries = (path / "environ").read_bytes().decode(errors="replace").split("\0")
            environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
            if environment.get(variable) == value:
                found[int(path.name)] = environment
    return found


def ended(variable: str, value: str) -> list[str]:
    """Wait for these processes, but this one; end those that stay, and return which test started each."""
    left, deadline = _others(variable, value), time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = _others(variable, value)
    started = [f"{_words(pid)}, by {test}" for pid, test in left.items()]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return started


def _others(variable: str, value: str) -> dict[int, str]:
    found = holders(variable, value)
    return {
        pid: each.get("PYTEST_CURRENT_TEST", "no test") for pid, each in found.items() if pid != os.getpid()
    }


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    return f"process {pid}"
