"""The ends of tasks that failed, and the processes on the nodes that add what these show then (`node.py`)."""

import math
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Callable, Dict, Iterable, List, Sequence

from .causes import Cause
from .start import Start

_AFTER = 1.0  # seconds after the attempt's begin: its program goes first
_WELL, _FAILED = 0.9, 5.0  # seconds that nodes get


def ends(causes: Iterable[Cause], start: Start, at: float) -> Dict[int, str]:
    """Return the first lines of the file of each node on which tasks failed, by its number."""
    found: Dict[int, str] = {}
    for cause in causes:
        place = None if cause.rank is None else start.job.place(cause.rank)
        if place and place[0] < len(start.nodes):
            name = start.nodes[place[0]]
            found.setdefault(place[0], f"# {os.uname().nodename if name == 'localhost' else name}\n")
            found[place[0]] += f"end {at:.6f} {cause.code} {cause.rank} {place[1]}\n"
    return found


def write(start: Start, found: Dict[int, str]) -> List[int]:
    """Write these files, and return their nodes: those may be told, and nobody else adds to them any more.

    So none is appended to from two nodes: it may lose lines on NFS.
    """
    written = []
    for node, text in found.items():
        path = os.path.join(start.folder, "faults", f"{start.place}.{node}")
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            written.append(node)
    return written


class Nodes:
    """A process on each node while an attempt runs; ``on_nodes`` returns commands that run words on them."""

    def __init__(self, start: Start, on_nodes: Callable[[Sequence[str]], List[List[str]]]) -> None:
        job, program = start.job, os.path.join(os.path.dirname(os.path.abspath(__file__)), "node.py")
        gpus = (job.usage, job.gpu_variable, job.gpu_visibility) if job.gpus else (None, None, None)
        words = (start.folder, start.place, int(time.time()), *gpus)
        # What ssh starts has another PATH, maybe without rocm-smi.
        self._words = [
            "env",
            f"PATH={os.environ.get('PATH', os.defpath)}",
            sys.executable or "python3",
            "-IS",
        ]
        self._words += [program, *(str(word or "-") for word in words)]
        self._file, self._on_nodes = os.path.join(start.folder, f"over.{start.place}"), on_nodes
        self._due = time.monotonic() + _AFTER
        self._running: List[subprocess.Popen[bytes]] = []

    def tick(self) -> None:
        """Start them when it is time."""
        if time.monotonic() >= self._due:
            self._begin()

    def end(self, failed: Sequence[int] = ()) -> None:
        """Tell them that the attempt is over, and wait a moment; longer for nodes on which tasks failed."""
        if failed and self._due < math.inf:
            self._begin()
        if self._running:
            text = f"failed {' '.join(map(str, failed))}\n" if failed else "over\n"
            self._write(text)
            self._say(text)
            until = time.monotonic() + (_FAILED if failed else _WELL)
            while any(each.poll() is None for each in self._running) and time.monotonic() < until:
                time.sleep(0.02)
        for process in self._running:
            process.kill()  # the way to a node; what is there hears of that, or reads the file
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=0.1)

    def _begin(self) -> None:
        self._due = math.inf
        self._write("")
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        for words in self._on_nodes(self._words):
            with suppress(OSError):  # a session of their own: the batch system may signal those of the job
                process = subprocess.Popen(words, 0, None, pipe, nothing, nothing, start_new_session=True)
                self._running.append(process)
        self._say("begin\n")

    def _write(self, text: str) -> None:
        with suppress(OSError), open(self._file, "a", encoding="ascii") as file:
            file.write(text)

    def _say(self, text: str) -> None:
        for pipe in filter(None, (process.stdin for process in self._running)):
            with suppress(OSError):
                os.set_blocking(pipe.fileno(), False)
                pipe.write(text.encode())
