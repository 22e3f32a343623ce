"""Code inside a function of MLRun, in base64: each process writes it to a file and runs that.

It is run as ``mlrun run`` does in the pod
(https://github.com/mlrun/mlrun/blob/v1.10.1/mlrun/__main__.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.container import escape_templates
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_TEXT: Final = re.compile(r"[^\x00-\x08\x0b-\x1f]*")
_PLACEHOLDER: Final = "{codefile}"


def code_of(read: Reading, path: Path) -> str:
    """Return the code in the file."""
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
    return code


def start_line(command: str, origin: str, python: str, *, whole: bool) -> tuple[str, str]:
    """Return the file for the code, as a shell reads it, and the line that runs it.

    Both are empty where MLRun could not run it. ``origin`` is the original file of the code;
    ``whole`` means a complete command, not a Python script with its arguments.
    """
    first, rest = [*command.split(maxsplit=1), "", ""][:2]
    suffix, old = PurePosixPath(first).suffix, PurePosixPath(origin)
    if not whole and (suffix == ".py" or first in ("", "*", _PLACEHOLDER)):
        file = code_file(origin)
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


def code_file(origin: str) -> str:
    """Return the file for Python code, as a shell reads it; ``origin`` is the original file."""
    stem = PurePosixPath(origin).stem
    return _file(f"{stem}.py" if stem else "main.py")


def code_command(files: Mapping[str, str], line: str, folder: str | None) -> str:
    """Return a command that writes files, such as the code, for each process, and runs that line."""
    folders = sorted({file.rpartition("/")[0] for file in files} - {'"$code"'})
    text = " && ".join(["code=$(mktemp -d)", *(f"mkdir {folder}" for folder in folders)]) + " || exit\n"
    text += "".join(_written(file, code) for file, code in files.items())
    if folder and folder not in (".", "./"):
        text += f"cd {quote(escape_templates(folder))} || exit\n"
    return text + line


def _written(file: str, code: str) -> str:
    mark = "END_OF_CODE"
    while mark in code:
        mark += "_"
    return f"cat > {file} << '{mark}'\n{escape_templates(code).rstrip(chr(10))}\n{mark}\n"
