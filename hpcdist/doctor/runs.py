"""Where runs are kept, and the clock of this host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hpcdist.doctor.finding import Finding, by_hand, failure, said
from hpcdist.host.command import Command
from hpcdist.schedulers.surveyors import Answers

_SHARED: Final = (
    "afs", "beegfs", "ceph", "cifs", "fhgfs", "gfs/gfs2", "gpfs", "k-afs", "lustre", "nfs", "ocfs2", "panfs",
    "smb2", "snfs", "wekafs",
)  # fmt: skip
"""Names that stat(1) of coreutils has for file systems that hosts share; it calls BeeGFS fhgfs."""

_UNTOLD: Final = ("UNKNOWN", "fuse")
"""How stat(1) begins the name of one that it does not know, or that is a program's own."""

SYSTEM: Final = "file system"

_LOOK: Final = """\
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


def look_at(folder: Path) -> Command:
    """Return what asks whether one may write there, and on what file system that is.

    It is a process of its own since a network file system may not answer.
    """
    return Command(("bash", "-c", _LOOK, "hpcdist", str(folder)), timeout=20)


def ask(folder: Path) -> Iterator[Command]:
    """Yield what to ask."""
    yield look_at(folder)
    yield _CLOCK


def findings(folder: Path, answers: Answers, *, alone: bool) -> Iterator[Finding]:
    """Yield what was found; ``alone``: jobs run on this host only."""
    yield from _folder(folder, answers, alone=alone)
    yield _clock(answers)


def _folder(folder: Path, answers: Answers, *, alone: bool) -> Iterator[Finding]:
    done = said(answers, look_at(folder))
    lines = done.stdout.splitlines()
    if not done.ok or len(lines) != 3:  # noqa: PLR2004 - as many as it prints
        do = "look whether its file system answers, or choose another folder with --runs-dir"
        yield Finding("runs", "folder", "error", f"{folder}: {failure(done)}", do)
        return
    state, there, system = lines
    if state == "writable":
        yield Finding("runs", "folder", "ok", f"{folder}")
    elif state == "shared":
        do = f"`chmod go-w {folder}` if it is yours, or choose another folder with --runs-dir"
        yield Finding("runs", "folder", "warning", f"{folder} is not yours alone, and submit refuses it", do)
    else:
        do = "choose another folder with --runs-dir, or by $HPCDIST_RUNS_DIR"
        yield Finding("runs", "folder", "error", f"nothing can be written to {there}", do)
    if alone or system in _SHARED:
        yield Finding("runs", SYSTEM, "ok", f"{system}; one host needs no other" if alone else system)
        return
    do = "choose a folder of a file system that all nodes share; `hpcdist doctor --job` tries this one"
    if system.startswith(_UNTOLD):
        seen = f"{system}, which may be shared or not; nodes must find {folder} too"
        yield Finding("runs", SYSTEM, "unknown", seen, do)
    else:
        seen = f"{system}, which mostly belongs to one host alone; nodes must find {folder} too"
        yield Finding("runs", SYSTEM, "warning", seen, do)


def _clock(answers: Answers) -> Finding:
    done = said(answers, _CLOCK)
    word = done.stdout.strip()
    if done.ok and word == "yes":
        return Finding("clock", "clock", "ok", "it is kept right by NTP")
    if done.ok and word == "no":
        do = "tell the centre: tickets of munge and Kerberos are refused where clocks differ"
        return Finding("clock", "clock", "warning", "no NTP keeps it right", do)
    seen = "timedatectl does not tell" if done.ok else failure(done)
    return Finding("clock", "clock", "unknown", seen, by_hand(_CLOCK))
