"""Writing output files: most verbs only create new files, as existing ones may hold the user's edits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem


def chosen(output: str | None) -> Path | None:
    """Return the file to write, None for stdout.

    Raises:
        ConfigError: if the file exists.
    """
    file = Path(output) if output and output != "-" else None
    if file and file.exists():
        hint = "remove it, or choose another file with -o"
        raise ConfigError(Problem(f"{file} already exists", hint=hint))
    return file


def write(file: Path | None, text: str) -> None:
    """Write the text to the file, creating its directory if needed, or print it."""
    if not file:
        click.echo(text.encode(), nl=False)
        return
    ownership.make(file.parent)
    with whole(file), file.open("x", encoding="utf-8") as stream:
        stream.write(text)


def overwrite(file: Path, data: bytes, *, script: bool = False, user: int | None = None) -> None:
    """Write the file, replacing its content; a script is readable and writable by its owner only.

    Symbolic links are followed only if they belong to the user or to root (/dev/stdout): another user's
    link, in a shared directory, could overwrite any file of this user.

    Raises:
        ConfigError: if the link, or the existing file of a script, belongs to another user.
    """
    user = os.geteuid() if user is None else user
    link = file.is_symlink()
    if link:
        _refuse(file, file.lstat().st_uid, {0, user}, "link")
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if link else os.O_NOFOLLOW)
    mode = 0o700 if script else 0o666
    with whole(file), os.fdopen(os.open(file, flags, mode), "wb") as stream:
        found = os.fstat(stream.fileno())
        if stat.S_ISREG(found.st_mode):
            if script:
                _refuse(file, found.st_uid, {user}, "file")
                os.fchmod(stream.fileno(), 0o700)
            stream.truncate()
        stream.write(data)


def _refuse(file: Path, owner: int, allowed: set[int], kind: str) -> None:
    if owner not in allowed:
        message = f"the {kind} {file} belongs to {ownership.name_of(owner)} and is not overwritten"
        raise ConfigError(Problem(message, hint="choose another file with -o"))


@contextmanager
def whole(file: Path) -> Iterator[None]:
    """Remove the file if writing it fails, as on a full disk, and add its name to the error.

    A truncated script would still run.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            if file.is_file():
                file.unlink(missing_ok=True)
            error.filename = str(file)
        raise
