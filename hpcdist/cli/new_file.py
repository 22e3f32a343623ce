"""The files that verbs write: mostly new ones, for one that is there may hold what its user has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hpcdist.errors import ConfigError, Problem


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
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole(file), file.open("x", encoding="utf-8") as stream:
        stream.write(text)


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
