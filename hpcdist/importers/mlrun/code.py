"""Code inside a function of MLRun, in base64: each process writes it to a file and runs that.

It is run as ``mlrun run`` does in the pod
(https://github.com/mlrun/mlrun/blob/v1.10.1/mlrun/__main__.py).
"""

from __future__ import annotations

import ast
import base64
import binascii
import re
import warnings
from pathlib import PurePosixPath
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.container import escape_templates
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

CALL: Final = "write a program that calls it, and name that in `spec.command`"
_DEFINED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SILENT: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
_TEXT: Final = re.compile(r"[^\x00-\x08\x0b-\x1f]*")
_PLACEHOLDER: Final = "{codefile}"


def code_of(read: Reading, path: Path, *, handled: bool) -> str:
    """Return the code in the file; ``handled`` if the file names the function to call."""
    text = read.text(*path)
    if not text:
        return ""
    try:
        code = base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        code = ""
    if not code or not _TEXT.fullmatch(code):
        read.refuse(*path, why="this is not a program in base64", hint="name the program in `spec.command`")
        return ""
    if (defined := _only_defines(code)) and not handled:
        why = f"this code defines {', '.join(defined)}, and calls none of it: nothing would be run"
        read.refuse(*path, why=why, hint=CALL)
    return code


def _only_defines(code: str) -> list[str]:
    """Return what the code defines, if it does nothing else; an empty list for a program."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = [node.name for node in body if isinstance(node, _DEFINED)]
    return names if all(isinstance(node, (*_DEFINED, *_SILENT)) or _is_text(node) for node in body) else []


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def start_line(command: str, origin: str, python: str, *, whole: bool) -> tuple[str, str]:
    """Return the file for the code, as a shell reads it, and the line that runs it.

    Both are empty where MLRun could not run it. ``origin`` is the original file of the code;
    ``whole`` means a complete command, not a Python script with its arguments.
    """
    first, rest = [*command.split(maxsplit=1), "", ""][:2]
    suffix, old = PurePosixPath(first).suffix, PurePosixPath(origin)
    if not whole and (suffix == ".py" or first in ("", "*", _PLACEHOLDER)):
        file = _file(f"{old.stem}.py" if old.name else "main.py")
        return file, " ".join([python, file, *rest.split()])
    if whole and _PLACEHOLDER in command:
        file = _file(old.name or "codefile")
        return file, command.replace(_PLACEHOLDER, file)
    if whole and ".sh" in (suffix, old.suffix):
        file = _file(old.name or "codefile.sh")
        return file, f"bash {file} {rest}".strip()
    return "", ""


def _file(name: str) -> str:
    return '"$code"/' + quote(re.sub(r"[^\w.-]", "_", name))


def code_command(code: str, file: str, line: str, folder: str | None) -> str:
    """Return a command that writes the code for each process, and runs that line."""
    mark = "END_OF_CODE"
    while mark in code:
        mark += "_"
    lines = [
        "code=$(mktemp -d) || exit",
        f"cat > {file} << '{mark}'",
        escape_templates(code).rstrip("\n"),
        mark,
        *([f"cd {quote(escape_templates(folder))} || exit"] if folder and folder not in (".", "./") else []),
        line,
    ]
    return "\n".join(lines)
