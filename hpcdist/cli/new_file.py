"""The file that a verb writes: a new one, for one that is there may hold what its user has changed."""

from __future__ import annotations

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
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)
