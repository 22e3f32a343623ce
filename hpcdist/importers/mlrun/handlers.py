"""Handlers: functions that MLRun calls with a context; in a job, `run_handler.py` calls them.

That program and `stand_in.py` are in the command, so that the script needs no hpcdist, as any other.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from importlib.resources import files
from sys import version_info
from typing import Final, NamedTuple

from hpcdist.documents.tree import Seq
from hpcdist.errors import Path, comma_list
from hpcdist.importers.mlrun.code import code_command, code_file
from hpcdist.importers.reading import Reading, placed
from hpcdist.words import quote

_PROGRAMS: Final = ("run_handler", "stand_in")
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SILENT: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.ClassDef, *_FUNCTION)


class Handler(NamedTuple):
    """The function to call: ``name``, ``module.name`` or ``Class::name``, and the key that names it."""

    name: str
    source: Path


class Program(NamedTuple):
    """What defines the handler: code that the file contains, with its original file, or a file of its own."""

    code: str = ""
    file: str = ""
    python: str = "python -u"
    folder: str | None = None


def handler_of(read: Reading, path: Path, code: str) -> Handler | None:
    """Return the handler of a function; ``path`` is its key, and ``--set handler=NAME`` is another.

    Code that only defines functions needs one: its only function is it, and of several none.
    """
    for source in (("handler",), path):
        if name := read.text(*source):
            return Handler(name, source)
    names = [name for name in _functions(code) if not name.startswith("_")] if _only_defines(code) else []
    source = (*path[:-1], "build", "functionSourceCode")
    if len(names) == 1:
        read.warn(*source, why=f"the code runs nothing by itself: its function {names[0]!r} is called")
        return Handler(names[0], source)
    if names:
        why = f"this code defines {comma_list(names)}, and calls none: nothing would be run"
        read.refuse(*source, why=why, hint=f"choose one: `--set handler={names[0]}`")
    return None


def put_handler(
    read: Reading, handler: Handler, program: Program, params: Mapping[str, object], path: Path
) -> None:
    """Put the command that calls a handler, and its params; ``path`` is that of the params."""
    file = code_file(program.file) if program.code else quote(program.file) if program.file else ""
    functions = _functions(program.code)
    plain = handler.name.isidentifier()
    if plain and program.code and (error := _syntax_error(program.code)):
        read.warn(
            *handler.source, why=f"the code is not of Python {version_info[0]}.{version_info[1]}: {error}"
        )
    elif plain and program.code and handler.name not in functions:
        known = f"its functions are {comma_list(functions)}" if functions else "it defines no function"
        hint = f"choose one: `--set handler={next(iter(functions))}`" if functions else "name its program"
        read.refuse(*handler.source, why=f"the code has no function {handler.name!r}; {known}", hint=hint)
        return
    if plain and not file:
        read.refuse(
            *handler.source, why=f"the file does not say where {handler.name!r} is defined",
            hint="write the program in `spec.command`, such as train.py",
        )  # fmt: skip
        return
    written = {f'"$code"/call/{name}.py': program_text(name) for name in _PROGRAMS}
    line = f'{program.python} "$code"/call/run_handler.py {quote(handler.name)} {file}'.rstrip()
    if program.code:
        written[file] = program.code
    read.put("run.cmd", code_command(written, line, program.folder), *handler.source)
    if handler.name in functions:
        _declare(read, handler, functions[handler.name], params, path)


def _declare(
    read: Reading, handler: Handler, arguments: ast.arguments, params: Mapping[str, object], path: Path
) -> None:
    """Declare the params that a handler takes; with ``**kwargs``, it takes all."""
    if arguments.kwarg:
        return
    optional = dict(_optional(arguments))
    for name in [name for name in params if name not in optional]:
        read.warn(*path, name, why=f"{handler.name!r} does not take it, and MLRun would not pass it")
        optional[name] = True
    inputs = Seq()
    for at, (name, value) in enumerate(optional.items()):
        source = (*path, name) if name in params else handler.source
        data = {"name": name, "is_optional": True} if value else {"name": name}
        inputs.add(placed(data, read.place(*source)), read.place(*source))
        read.origins["inputs", at] = source
    if inputs:
        read.put("inputs", inputs, *handler.source)


def _optional(arguments: ast.arguments) -> Iterator[tuple[str, bool]]:
    """Yield the params of a function, and whether each has a default; the context is none."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    found = [(arg.arg, at >= first) for at, arg in enumerate(positional)]
    found += [
        (arg.arg, value is not None)
        for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return ((name, value) for name, value in found if name != "context")


def stand_in_for(code: str, file: str) -> dict[str, str]:
    """Return what a program that is no handler finds where mlrun is not installed, if it uses mlrun."""
    if not file.endswith(".py") or not re.search(r"\bmlrun\b", code):
        return {}
    return {'"$code"/mlrun.py': program_text("script"), '"$code"/stand_in.py': program_text("stand_in")}


def program_text(name: str) -> str:
    """Return the text of a standalone program."""
    return files("hpcdist.importers.mlrun").joinpath(f"{name}.py").read_text(encoding="utf-8")


def _functions(code: str) -> dict[str, ast.arguments]:
    return {node.name: node.args for node in _body(code) if isinstance(node, _FUNCTION)}


def _only_defines(code: str) -> bool:
    """Return whether running the code would do nothing but define."""
    return all(isinstance(node, _SILENT) or _is_text(node) for node in _body(code))


def _body(code: str) -> list[ast.stmt]:
    """Return the statements of a program, none if this Python cannot read it."""
    found = _parsed(code)
    return found if isinstance(found, list) else []


def _syntax_error(code: str) -> str:
    """Return why this Python cannot read a program; that of the job may be newer."""
    found = _parsed(code)
    return found if isinstance(found, str) else ""


def _parsed(code: str) -> list[ast.stmt] | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code).body
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "it is nested too deeply"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
