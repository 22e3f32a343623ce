"""Errors, warnings and notes on stderr, one line each; only this module catches all errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import click

from hpcdist.base.errors import ConfigError, ExitCode, HpcdistError, OutputError, Problem

_UNWRITABLE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.ESTALE}
)
"""Errors of writing to stdout, which have no file name."""

_COLLECTED: Final = "hpcdist.collected"


def print_problems(problems: Iterable[Problem]) -> None:
    """Print each problem as one line; inside ``collect``, keep it instead."""
    context = click.get_current_context(silent=True)
    collected: list[Problem] | None = context.meta.get(_COLLECTED) if context else None
    for problem in problems:
        if collected is None:
            _to_stderr(f"{problem.severity}: {problem}")
        else:
            collected.append(problem)


def note(text: str) -> None:
    """Print a remark that is neither a result nor a problem."""
    _to_stderr(f"note: {text}")


def _to_stderr(text: str) -> None:
    """Print one line; a full or closed stderr is ignored."""
    with suppress(OSError):
        click.echo(one_line(text), err=True)


def one_line(text: str) -> str:
    """Return the text on one line and without control characters."""
    return printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))


def printable(text: str) -> str:
    """Return the text with control characters, which a terminal would interpret, as hexadecimal escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


@contextmanager
def error_boundary(*, debug: bool) -> Iterator[None]:
    """Turn every exception raised inside into a message and an exit code."""
    _escape_unencodable()
    try:
        yield
        if sys.stdout:
            sys.stdout.flush()
    except (click.ClickException, click.exceptions.Exit):
        raise
    except click.Abort:  # Ctrl-C at a prompt, whose line has no end yet
        click.echo(err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        _discard_stdout()
        raise click.exceptions.Exit(ExitCode.CLOSED_PIPE) from None
    except Exception as error:  # noqa: BLE001 - the last place to report it
        if debug:
            import traceback

            traceback.print_exc()
        raise click.exceptions.Exit(_report(error)) from None


@contextmanager
def collect(show: Callable[[list[Problem]], None]) -> Iterator[None]:
    """Pass all problems raised or printed inside to ``show`` at the end instead of printing them."""
    collected: list[Problem] = []
    click.get_current_context().meta[_COLLECTED] = collected
    code = 0
    try:
        yield
    except HpcdistError as error:
        collected += error.problems
        code = error.exit_code
    show(collected)
    if code:
        raise click.exceptions.Exit(code)


def _report(error: Exception) -> int:
    """Print an error; return its exit code."""
    if isinstance(error, HpcdistError):
        if isinstance(error, OutputError):
            _discard_stdout()
        print_problems(error.problems)
        return error.exit_code
    if isinstance(error, FileNotFoundError) and error.filename is None:  # os.getcwd names none
        print_problems([Problem("the current directory no longer exists", hint="change to another one")])
        return ConfigError.exit_code
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        _discard_stdout()
        print_problems([Problem(f"standard output cannot be written: {error.strerror}")])
        return OutputError.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        print_problems([Problem(f"{where}{error.strerror or error}")])
        return ConfigError.exit_code
    message = f"{type(error).__name__}: {error}: this is a bug in hpcdist"
    print_problems([Problem(message, hint="please report it with the output of `hpcdist --debug VERB ...`")])
    return ExitCode.FAULT


def _escape_unencodable() -> None:
    """Print characters that the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null: Python would flush into the broken pipe once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
