"""Copies of what a run has, for a run that begins with them: outputs, checkpoints and the copy of its code.

Each copy is a separate file, as programs may write in place; where the file system can, it shares the blocks
of the original until one is written (copy_file_range(2)). A symbolic link stays one: within the run it leads
to the copy, and out of it to where it led. What disappears meanwhile is left out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs.code_copy import FOLDER, RECORD, CodeResult
from hpcdist.runs.rundir import OPTIONS, RunDirectory
from hpcdist.script import trial_table

KEPT: Final = ("outputs", "checkpoints")
"""The folders that a copy of a run starts with."""

COPIED: Final = "copied"
"""The file that marks a run with such copies; scripts check whether it exists."""

_DIFF: Final = "code.diff"
_MOST: Final = 1 << 28
_PIECE: Final = 1 << 30


def copy(run: RunDirectory, new: RunDirectory) -> None:
    """Copy the outputs and checkpoints of this run into a new one.

    Raises:
        OSError: if a file cannot be read or written.
    """
    for name in KEPT:
        _copy_folder(run.path, new.path, Path(name))
    mark(run, new)


def mark(run: RunDirectory, new: RunDirectory) -> None:
    """Mark a new run as one that begins with copies of this one's files.

    Raises:
        OSError: if that cannot be written.
    """
    new.write(COPIED, f"{run.name}\n")


def copy_code(run: RunDirectory, new: RunDirectory) -> CodeResult:
    """Copy the code of this run into a new one.

    Raises:
        ConfigError: if its code is gone.
        OSError: if a file cannot be read or written.
    """
    if not (run.path / FOLDER).is_dir():
        hint = "-u takes it anew from the folder where the run was submitted"
        raise ConfigError(Problem(f"{run.path / FOLDER}, the code of {run.name}, is gone", hint=hint))
    _copy_folder(run.path, new.path, Path(FOLDER))
    data = json.loads(run.read(RECORD, _MOST))
    start = new.path / Path(data["start"]).relative_to(run.path)
    files = {RECORD: f"{json.dumps({**data, 'start': str(start)}, indent=2)}\n"}
    with suppress(FileNotFoundError):
        files[_DIFF] = run.read(_DIFF, _MOST).decode("utf-8", "surrogateescape")
    return CodeResult(files, str(start), action=f"copy {run.path / FOLDER}, to {new.path / FOLDER}")


def _copy_folder(top: Path, new: Path, name: Path) -> None:
    try:
        entries = [*os.scandir(top / name)]
    except FileNotFoundError:
        return
    (new / name).mkdir(mode=0o700, exist_ok=True)
    for entry in entries:
        own = name / entry.name
        if entry.is_symlink():
            with suppress(FileNotFoundError):
                leads_to = (top / own).readlink()
                if leads_to.is_absolute() and leads_to.is_relative_to(top):
                    leads_to = new / leads_to.relative_to(top)
                (new / own).symlink_to(leads_to)
        elif entry.is_dir(follow_symlinks=False):
            _copy_folder(top, new, own)
        elif entry.is_file(follow_symlinks=False):
            _copy_file(top / own, new / own)


def _copy_file(source: Path, place: Path) -> None:
    with suppress(FileNotFoundError), ownership.open_regular(source) as stream:
        found = os.fstat(stream.fileno())
        with place.open("xb") as copied:
            _copy_bytes(stream, copied, found.st_size)
            os.fchmod(copied.fileno(), stat.S_IMODE(found.st_mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy_bytes(stream: BinaryIO, copied: BinaryIO, size: int) -> None:
    """Copy a file by the kernel, where it can; between some file systems it cannot."""
    left = size
    with suppress(OSError):
        while left > 0 and (done := os.copy_file_range(stream.fileno(), copied.fileno(), min(left, _PIECE))):
            left -= done
    stream.seek(size - left)
    copied.seek(size - left)
    shutil.copyfileobj(stream, copied)


# --- What may be shared of a run directory: its files, with values like secrets masked


MASK: Final = "********"
_OF_JOB: Final = re.compile(r"(plan\.[0-9]+\.json|job\.[0-9]+\.sh|trials\.[0-9]+\.tsv)")
"""The files of the later jobs of a run."""

NAMES: Final = ("experiment.yml", OPTIONS, "plan.json", "job.sh", trial_table.FILE, "code.json", "code.diff")
_SEARCHED: Final = NAMES[:5]
"""Where secrets are looked for; a diff is of a program, in which such names are variables."""

_RUNTIME: Final = "\n# --- The runtime of hpcdist "
"""Begins what is the same in every script."""

_LIMIT: Final = 1 << 26
_SHORTEST: Final = 6
_NAME: Final = (
    r"(?:token|secret|passwo?r?d|passphrase|credentials?|(?:api|access|secret|private)[_-]?key(?:[_-]id)?)"
)
_VALUE: Final = r"""(?:\\?"([^"\\\n]*)|'([^'\n]*)|([^\s"',;}\])\\]+))"""
_SECRET: Final = re.compile(
    rf"""{_NAME}\\?["']?\s*(?:[=:]|,\s*"value":)\s*{_VALUE}|(?<![\w-])(?=\w*-)[\w-]*{_NAME}\s+{_VALUE}|://[^/\s:@"']*:([^/\s@"']+)@""",
    re.IGNORECASE,
)
_PARAM: Final = re.compile(rf".*{_NAME}", re.DOTALL | re.IGNORECASE)
_HARMLESS: Final = re.compile(r"[$<~/{\[-].*", re.DOTALL)
"""A variable, a placeholder, another option, or the path of a file that has the secret."""


class Masked:
    """Replaces these values, also as JSON and as a shell's word."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for text in secrets for form in (text, json.dumps(text)[1:-1], shlex.quote(text))}
        self._forms = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        return self._forms.sub(MASK, text)


def secrets(directory: RunDirectory, params: Mapping[str, Any]) -> set[str]:
    """Return the values in the files of a run, and in params, whose names look like secrets.

    A file that cannot be read has none.
    """
    texts: list[str] = []
    for name in _SEARCHED:
        with suppress(OSError):
            texts.append(directory.read(name, _LIMIT).decode("utf-8", "replace"))
    return secrets_in(texts, params)


def secrets_in(texts: Iterable[str], *params: Mapping[str, Any]) -> set[str]:
    """Return the values in these texts, and in params, whose names look like secrets."""
    parts = (text.partition(_RUNTIME)[0] for text in texts)
    found = {next(filter(None, match.groups()), "") for text in parts for match in _SECRET.finditer(text)}
    pairs = (pair for each in params for pair in each.items())
    found |= {value for name, value in pairs if isinstance(value, str) and _PARAM.fullmatch(name)}
    return {text for text in found if len(text) >= _SHORTEST and not _HARMLESS.fullmatch(text)}


def read(directory: RunDirectory, *params: Mapping[str, Any]) -> tuple[dict[str, str], Masked]:
    """Return the existing files, masked, and the mask, for other texts of the run.

    ``params``: of the run, and of each of its elements.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    texts: dict[str, str] = {}
    with directory.opened():
        for name in (*NAMES, *_of_jobs(directory)):
            with suppress(FileNotFoundError):
                texts[name] = directory.read(name, _LIMIT).decode("utf-8", "replace")
    masked = Masked(secrets_in((texts.get(name, "") for name in _SEARCHED), *params))
    return {name: masked(text) for name, text in texts.items()}, masked


def _of_jobs(directory: RunDirectory) -> list[str]:
    return sorted(path.name for path in directory.path.iterdir() if _OF_JOB.fullmatch(path.name))
