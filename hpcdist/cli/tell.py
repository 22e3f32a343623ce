"""Telling what is wrong or odd: one line each, to stderr; the one place of this room that catches errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import click

from hpcdist.errors import ConfigError, ExitCode, HpcdistError, OutputError, Problem

_UNWRITABLE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.ESTALE}
)
"""Why stdout cannot be written; of any other file, the error has the name."""

_KEPT: Final = "hpcdist.kept"


def tell(problems: Iterable[Problem]) -> None:
    """Print each problem as one line, or keep it for ``listed``."""
    context = click.get_current_context(silent=True)
    kept: list[Problem] | None = context.meta.get(_KEPT) if context else None
    for problem in problems:
        if kept is None:
            _to_stderr(f"{problem.severity}: {problem}")
        else:
            kept.append(problem)


def note(text: str) -> None:
    """Say something that is neither a result nor wrong."""
    _to_stderr(f"note: {text}")


def _to_stderr(text: str) -> None:
    """Print one line; where stderr is full or closed there is nobody to tell, and the work goes on."""
    with suppress(OSError):
        click.echo(one_line(text), err=True)


def one_line(text: str) -> str:
    """Return the text without line ends and without what a terminal would obey."""
    return printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Return the text with the numbers of those characters that a terminal would obey."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


@contextmanager
def sentences(*, debug: bool) -> Iterator[None]:
    """Turn whatever is raised inside into sentences and an exit code."""
    _never_fail_to_print()
    try:
        yield
        if sys.stdout:
            sys.stdout.flush()
    except (click.ClickException, click.exceptions.Exit):
        raise
    except click.Abort:  # Ctrl-C at a question, whose line has no end yet
        click.echo(err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise click.exceptions.Exit(ExitCode.CLOSED_PIPE) from None
    except Exception as error:  # noqa: BLE001 - the last one to whom it can be told is the user
        if debug:
            import traceback

            traceback.print_exc()
        raise click.exceptions.Exit(_told(error)) from None


@contextmanager
def listed(show: Callable[[list[Problem]], None]) -> Iterator[None]:
    """Hand all problems to ``show`` at the end, warnings and errors, instead of printing them."""
    kept: list[Problem] = []
    click.get_current_context().meta[_KEPT] = kept
    code = 0
    try:
        yield
    except HpcdistError as error:
        kept += error.problems
        code = error.exit_code
    show(kept)
    if code:
        raise click.exceptions.Exit(code)


def _told(error: Exception) -> int:
    """Tell an error; return its exit code."""
    if isinstance(error, HpcdistError):
        if isinstance(error, OutputError):
            _forget_stdout()
        tell(error.problems)
        return error.exit_code
    if isinstance(error, FileNotFoundError) and error.filename is None:  # os.getcwd names none
        tell([Problem("the folder that you are in is no longer there", hint="change to another")])
        return ConfigError.exit_code
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        _forget_stdout()
        tell([Problem(f"standard output cannot be written: {error.strerror}")])
        return OutputError.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        tell([Problem(f"{where}{error.strerror or error}")])
        return ConfigError.exit_code
    said = f"{type(error).__name__}: {error}: this is a fault of hpcdist"
    tell([Problem(said, hint="please report it, with what `hpcdist --debug VERB ...` prints")])
    return ExitCode.FAULT


def _never_fail_to_print() -> None:
    """Let a terminal that lacks a letter show its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Give stdout another end: Python would flush into the broken pipe once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
