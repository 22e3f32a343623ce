"""The files that verbs write: mostly new ones, for one that is there may hold what its user has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hpcdist.errors import ConfigError, Problem
from hpcdist.host import ownership


def chosen(output: str | None) -> Path | None:
    """Return where to write, None for stdout.

    Raises:
        ConfigError: where there is such a file already.
    """
    file = Path(output) if output and output != "-" else None
    if file and file.exists():
        hint = "remove it first, or name another file by -o"
        raise ConfigError(Problem(f"there is {file} already, and it is not written over", hint=hint))
    return file


def write(file: Path | None, text: str) -> None:
    """Write the text to the file, whose folder is made if need be, or print it."""
    if not file:
        click.echo(text.encode(), nl=False)
        return
    ownership.make(file.parent)
    with whole(file), file.open("x", encoding="utf-8") as stream:
        stream.write(text)


def overwrite(file: Path, data: bytes, *, script: bool = False, user: int | None = None) -> None:
    """Write over what the file holds; a script is for its user alone to read and to change.

    Only the user's own links are followed, and root's (/dev/stdout): by somebody else's, in a folder that
    is shared, another file of the user would be written over.

    Raises:
        ConfigError: where the link, or the file that is to be a script, belongs to somebody else.
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
        said = f"the {kind} {file} belongs to {ownership.name_of(owner)}, and nothing is written to it"
        raise ConfigError(Problem(said, hint="name another file by -o"))


@contextmanager
def whole(file: Path) -> Iterator[None]:
    """Where the file cannot be written to its end, as on a full disk, leave no part of it, and name it.

    Half a script would run as one.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            if file.is_file():
                file.unlink(missing_ok=True)
            error.filename = str(file)
        raise
