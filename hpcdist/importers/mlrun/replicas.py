"""Replicas of a function of MLRun, and the options of mpirun for them."""

from __future__ import annotations

import re
from typing import Any, Final

from hpcdist.errors import Path
from hpcdist.importers import container, launch_lines
from hpcdist.importers.container import ignore_set_keys
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch
from hpcdist.importers.reading import Reading
from hpcdist.words import join

_SERVER: Final = "it is for a server of MLRun"
Variables = dict[str, tuple[str, Path]]
"""The value of each variable, and the key that it comes from."""


def put_replicas(read: Reading, spec: Path, env: Variables, *, distributed: bool) -> None:
    """Put the replicas, of which MLRun starts one by default; ``env`` gets the variables of ``mpi_args``."""
    amounts = container.amounts(read, *spec, "resources")
    if amounts:
        read.put("environment.resources", amounts, *spec, "resources")
    count: Any = read.get(*spec, "replicas")
    if not distributed:
        ignore_set_keys(read, {"replicas": "a job is one process", "mpi_args": _SERVER}, *spec)
        return
    if count is None:
        count = 1
        read.warn(
            *spec, why="there is no `replicas` here (exports leave it out): one process is planned",
            hint="write `replicas: 4`, or give `--set environment.replicas.n_workers=3` for four",
        )  # fmt: skip
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        read.refuse(*spec, "replicas", why=f"{count!r} replicas cannot be started", hint="write 1 or more")
        read.get(*spec, "mpi_args")
        return
    read.put("environment.replicas.n_workers", count - 1, *spec, "replicas")
    if amounts:
        read.put("environment.replicas.default_worker", {"resources": amounts}, *spec, "resources")
    gpu = amounts.get("gpu", {})
    if gpu.get("limits", gpu.get("requests", 0)) not in (0, 1):
        read.put("environment.processes_per_replica", 1, *spec, "resources")
    _mpi_args(read, (*spec, "mpi_args"), count, env)


def _mpi_args(read: Reading, path: Path, count: int, env: Variables) -> None:
    """Take the options of mpirun, which may be one word with a space."""
    words = container.words(read, *path)
    if not words:
        return
    texts = [words] if isinstance(words, str) else [_options(word) for word in words]
    try:
        line = _line(" ".join(texts))
    except UnsupportedLaunch as reason:
        why = f"these options are of an mpirun {reason}"
        read.refuse(*path, why=why, hint="remove that, or set it by `batch.launcher`")
        return
    if line.np not in (None, count):
        read.refuse(*path, why=f"mpirun starts {line.np} processes, and there are {count} replicas")
    if line.per_node not in (None, "1"):
        why = f"{line.per_node} processes per replica, but MLRun starts one"
        read.refuse(*path, why=why, hint="write more replicas")
    for text in line.dropped:
        read.warn(*path, why=f"{text} has no effect: hpcdist starts the processes")
    env |= {name: (container.escape_templates(value), path) for name, value in line.variables.items()}
    unset = [name for name in line.passed if name not in env]
    if unset:
        why = f"-x {' '.join(unset)} of mpirun names what is not in `spec.env`"
        read.warn(*path, why=why, hint="the tasks get its value from the site's modules and your shell")


def _options(word: str) -> str:
    """Return shell text; ``-x A=B`` in one word is an option with its value."""
    return word if re.match(r"-\S+ ", word) else join([word])


def _line(options: str) -> Line:
    line = launch_lines.parse_launch_line(f"mpirun {options} program", {})
    if line is None or line.command != "program":
        words = line.command.removesuffix(" program") if line else options
        raise UnsupportedLaunch(f"that starts {words!r}, which is none of its options")
    if line.folder:
        raise UnsupportedLaunch(f"that works in {line.folder}")
    return line
