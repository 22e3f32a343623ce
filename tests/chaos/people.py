"""A user of hpcdist whose commands are processes of their own, which can be killed."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import hpcdist
from hpcdist.cli import main


def import_all() -> None:
    """Import all of hpcdist, so that most of the life of a process forked off this one is its verb."""
    for module in pkgutil.walk_packages(hpcdist.__path__, "hpcdist."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


class Attempt(NamedTuple):
    """How one `hpcdist` ended."""

    code: int
    out: str
    err: str


class Person:
    """A user with a folder of their own."""

    def __init__(self, folder: Path, path: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{path}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(folder),
            "XDG_CACHE_HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            **environment,
        }

    def start(self, *words: str, into: str = "") -> int:
        """Start `hpcdist WORDS`, which prints to files ``out`` and ``err`` with this end; return its pid."""
        if pid := os.fork():
            return pid
        code = 70
        try:
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.environment)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(name + into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            main(words, prog_name="hpcdist")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(code)

    def ended(self, pid: int, *, into: str = "") -> Attempt:
        """Wait for a process."""
        _, status = os.waitpid(pid, 0)
        files = (self.folder / (name + into) for name in ("out", "err"))
        out, err = (file.read_text() if file.exists() else "" for file in files)
        return Attempt(os.waitstatus_to_exitcode(status), out, err)

    def run(self, *words: str) -> Attempt:
        """Run `hpcdist WORDS` to its end."""
        return self.ended(self.start(*words))
