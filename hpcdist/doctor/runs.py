"""Where runs are kept, and the clock of this host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hpcdist.doctor.finding import Finding, failure, result_of, run_it_yourself
from hpcdist.host.command import Command
from hpcdist.schedulers.surveyors import Answers

_SHARED_SYSTEMS: Final = (
    "afs", "beegfs", "ceph", "cifs", "fhgfs", "gfs/gfs2", "gpfs", "k-afs", "lustre", "nfs", "ocfs2", "panfs",
    "smb2", "snfs", "wekafs",
)  # fmt: skip
"""File systems that hosts share, as stat(1) of coreutils names them; it calls BeeGFS fhgfs."""

_UNCERTAIN: Final = ("UNKNOWN", "fuse")
"""Prefixes of stat(1) for file systems that it does not know, or that a program implements."""

FILE_SYSTEM: Final = "file system"

_INSPECT: Final = """\
folder=$1
while [[ ! -e $folder ]]; do folder=$(dirname -- "$folder"); done
if [[ -e $1 && (! -O $1 || $(find -H "$1" -maxdepth 0 -perm /022)) ]]; then
  echo shared
else
  [[ -d $folder && -w $folder && -x $folder ]] && echo writable || echo closed
fi
echo "$folder"
stat --file-system --format=%T -- "$folder"
"""
_CLOCK: Final = Command(("timedatectl", "show", "--property=NTPSynchronized", "--value"), timeout=10)


def inspect_folder(folder: Path) -> Command:
    """Return the command that prints whether the folder is writable, and its file system.

    It is a separate process because a network file system may hang.
    """
    return Command(("bash", "-c", _INSPECT, "hpcdist", str(folder)), timeout=20)


def commands(folder: Path) -> Iterator[Command]:
    """Yield the commands of these checks."""
    yield inspect_folder(folder)
    yield _CLOCK


def findings(folder: Path, answers: Answers, *, alone: bool) -> Iterator[Finding]:
    """Yield the findings; ``alone``: jobs run on this host only."""
    yield from _folder(folder, answers, alone=alone)
    yield _clock(answers)


def _folder(folder: Path, answers: Answers, *, alone: bool) -> Iterator[Finding]:
    done = result_of(answers, inspect_folder(folder))
    lines = done.stdout.splitlines()
    if not done.ok or len(lines) != 3:  # noqa: PLR2004 - what _INSPECT prints
        hint = "check whether its file system responds, or choose another directory with --runs-dir"
        yield Finding("runs", "folder", "error", f"{folder}: {failure(done)}", hint)
        return
    state, there, system = lines
    if state == "writable":
        yield Finding("runs", "folder", "ok", f"{folder}")
    elif state == "shared":
        hint = f"`chmod go-w {folder}` if it is yours, or choose another directory with --runs-dir"
        yield Finding(
            "runs", "folder", "warning", f"{folder} is writable by others, so submit refuses it", hint
        )
    else:
        hint = "choose another directory with --runs-dir, or by $HPCDIST_RUNS_DIR"
        yield Finding("runs", "folder", "error", f"{there} is not writable", hint)
    if alone or system in _SHARED_SYSTEMS:
        yield Finding("runs", FILE_SYSTEM, "ok", f"{system}; jobs run on this host only" if alone else system)
        return
    hint = "choose a folder on a file system that all nodes share; `hpcdist doctor --job` tests this one"
    if system.startswith(_UNCERTAIN):
        detail = f"{system}, which may or may not be shared; nodes must reach {folder} too"
        yield Finding("runs", FILE_SYSTEM, "unknown", detail, hint)
    else:
        detail = f"{system}, which is usually local to one host; nodes must reach {folder} too"
        yield Finding("runs", FILE_SYSTEM, "warning", detail, hint)


def _clock(answers: Answers) -> Finding:
    done = result_of(answers, _CLOCK)
    word = done.stdout.strip()
    if done.ok and word == "yes":
        return Finding("clock", "clock", "ok", "it is synchronized by NTP")
    if done.ok and word == "no":
        hint = "report it to the centre: tickets of munge and Kerberos are refused where clocks differ"
        return Finding("clock", "clock", "warning", "it is not synchronized by NTP", hint)
    detail = "timedatectl does not report it" if done.ok else failure(done)
    return Finding("clock", "clock", "unknown", detail, run_it_yourself(_CLOCK))
