"""The command of a function of MLRun, and the params that it is given.

``python -u COMMAND ARGS`` where ``mode: pass`` does not say that the command is a whole one; ``{name}`` in
both is filled with a param (``mlrun/runtimes/local.py``). Code may travel in the file, in base64.
"""

from __future__ import annotations

import ast
import base64
import binascii
import re
import warnings
from collections.abc import Mapping
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.container import as_word, protected, words
from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import every, instead, listed
from hpcdist.words import quote

_PLACE: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_REMOTE: Final = re.compile(r"[a-z0-9]+://")
_ESCAPED: Final = r"""|replace("\\", "\\\\")|replace('"', '\\"')|replace("\n", "\\n")"""
_CALL: Final = "write a program that calls it, and name that in `spec.command`"
_DEFINED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SILENT: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
_NOT_ENDED: Final = re.compile(r"[^\x00-\x08\x0b-\x1f]*")


def params_of(read: Reading, spec: Path) -> dict[str, object]:
    """Take ``parameters``; searches over them are many jobs."""
    refuse_searches(read, spec)
    given = read.get(*spec, "parameters")
    if given is not None and not isinstance(given, Mapping):
        read.refuse(*spec, "parameters", why="expected keys and values", hint="write `NAME: VALUE`")
        return {}
    params = dict(given or {})
    for name in [name for name in params if not name.isidentifier()]:
        read.refuse(*spec, "parameters", name, why=f"{name!r} cannot be the name of a param here")
        del params[name]
    if params:
        read.put("params", given, *spec, "parameters")
    return params


def refuse_searches(read: Reading, spec: Path) -> None:
    """Refuse hyper-parameters; where the file lists their values, the hint is what to submit."""
    strategy = read.peek(*spec, "hyper_param_options", "strategy") or read.peek(*spec, "strategy")
    for key in ("hyperparams", "hyper_param_options", "param_file", "strategy", "selector"):
        node = read.peek(*spec, key)
        if node:
            file = read.peek(*spec, key, "param_file") or (node if key == "param_file" else "")
            each = f"submit once for each line of {file}, with its values as `-p NAME=VALUE`"
            hint = _one_by_one(node, strategy) if key == "hyperparams" else each if file else "remove it"
            read.refuse(*spec, key, why="a search over parameters is many jobs", hint=hint)


def _one_by_one(node: object, strategy: object) -> str:
    """Return what to submit instead: ``grid`` is each value with each other, ``list`` one after the other."""
    lists = dict(node) if isinstance(node, Mapping) else {}
    if not lists or not all(isinstance(values, list) and values for values in lists.values()):
        return "write one value of each in `parameters`, and submit once for each with `-p NAME=VALUE`"
    trials = every(lists)
    if strategy == "list":
        trials = listed([dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=False)])
    given = ", ".join(f"{name}: {values[0]}" for name, values in lists.items())
    return instead(trials, f"write `parameters: {{{given}}}`")


def told(params: Mapping[str, object]) -> dict[str, str]:
    """Return the variable from which a program of MLRun reads its params."""
    return {"MLRUN_EXEC_CONFIG": _config(params)} if params else {}


def put_short(read: Reading, path: Path) -> None:
    """Put the program that an entry of a project names."""
    program = read.text(*path, "url") or ""
    if handler := read.get(*path, "handler"):
        read.refuse(*path, "handler", why=f"MLRun would call the function {handler!r}", hint=_CALL)
    else:
        read.put("run.cmd", f"python -u {quote(protected(program))}", *path, "url")


def _config(params: Mapping[str, object]) -> str:
    """Return what the program reads by ``mlrun.get_or_create_ctx``: JSON with the params of the day."""
    parts = ", ".join(f'"{name}": {_json(name, value)}' for name, value in params.items())
    return f'{{"spec": {{"parameters": {{{parts}}} }} }}'


def _json(name: str, value: object) -> str:
    if isinstance(value, str):
        return f'"{{{{ {name}{_ESCAPED} }}}}"'
    if isinstance(value, bool):
        return f"{{{{ ({name})|lower }}}}"
    return f"{{{{ {name} }}}}" if isinstance(value, (int, float)) else _plain_json(value)


def _plain_json(value: object) -> str:
    import json

    return protected(json.dumps(value, default=str))


def put_command(read: Reading, spec: Path, params: Mapping[str, object]) -> None:
    """Put the command, where there is one that a batch job can run."""
    command = read.text(*spec, "command") or ""
    mode = read.get(*spec, "mode")
    args = words(read, *spec, "args") or []
    folder = read.text(*spec, "workdir")
    texts = _Texts(read, params)
    handler = read.get(*spec, "default_handler")
    code = _code(read, (*spec, "build", "functionSourceCode"), handled=bool(handler))
    name = read.text(*spec, "build", "origin_filename") or command
    source = (*spec, "command" if command else "build")
    arguments = [args] if isinstance(args, str) else args
    for index, word in enumerate(arguments):
        if re.match(r"-x \w+=", word):
            why = "the program gets this, which is an option of mpirun: write it in `mpi_args`"
            read.warn(*spec, "args", index, why=why)
    end = "".join(f" {texts.word(word)}" for word in arguments)
    if handler:
        read.refuse(*spec, "default_handler", why=f"MLRun would call the function {handler!r}", hint=_CALL)
    elif _REMOTE.match(command):
        read.refuse(*source, why=f"{command} is not fetched", hint="write the path of the program")
    elif code:
        read.put("run.cmd", _with_code(code, name, end, folder), *spec, "build", "functionSourceCode")
    elif not command:
        read.refuse(*spec, "command", why="there is no command", hint="write the program, such as train.py")
    elif command.endswith(".ipynb"):
        read.refuse(*source, why="a notebook is no program", hint="export it as a script (jupyter nbconvert)")
    else:
        options = words(read, *spec, "py_args") or []
        python = ["python", "-u", *([options] if isinstance(options, str) else map(quote, options))]
        text = command if mode == "pass" else " ".join([*python, *command.split()])
        read.put("run.cmd", _in_folder(f"{texts.filled(text)}{end}", folder), *source)
    if mode not in (None, "", "pass", "args"):
        read.refuse(*spec, "mode", why=f"there is no mode {mode!r} here", hint="write `pass`, or nothing")
    texts.declare(spec)


class _Texts:
    """Texts with ``{name}``; names that have no value become inputs, to be given with -p."""

    def __init__(self, read: Reading, params: Mapping[str, object]) -> None:
        self._read, self._params = read, params
        self._lacking: list[str] = []

    def word(self, text: str) -> str:
        """Return one word for a shell."""
        parts = _PLACE.split(text)
        pieces = [
            self._value(part) if at % 2 else quote(protected(part)) for at, part in enumerate(parts) if part
        ]
        return "".join(pieces) or "''"

    def filled(self, text: str) -> str:
        """Return shell text."""
        parts = _PLACE.split(text)
        return "".join(self._value(part) if at % 2 else protected(part) for at, part in enumerate(parts))

    def _value(self, name: str) -> str:
        if name not in self._params and name not in self._lacking:
            self._lacking.append(name)
        value = self._params.get(name)
        return as_word(name, plain=isinstance(value, (int, float)))

    def declare(self, spec: Path) -> None:
        """Declare what has no value, and with it the others: where there are inputs, all params are."""
        if self._lacking:
            inputs = [{"name": name} for name in (*self._params, *self._lacking)]
            self._read.put("inputs", inputs, *spec, "args")


def _code(read: Reading, path: Path, *, handled: bool) -> str:
    """Return the code that travels in the file, of which the file may say which function is called."""
    text = read.text(*path)
    if not text:
        return ""
    try:
        code = base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        code = ""
    if not code or not _NOT_ENDED.fullmatch(code):
        read.refuse(*path, why="this is no program in base64", hint="name the program in `spec.command`")
        return ""
    if (defined := _only_defines(code)) and not handled:
        why = f"this code defines {', '.join(defined)}, and calls none of it: nothing would be run"
        read.refuse(*path, why=why, hint=_CALL)
    return code


def _only_defines(code: str) -> list[str]:
    """Return what the code defines where it does nothing else, which a program does that runs."""
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


def _with_code(code: str, name: str, arguments: str, folder: str | None) -> str:
    """Return a command that writes the code for each process, and runs it."""
    mark = "END_OF_CODE"
    while mark in code:
        mark += "_"
    file = quote(re.sub(r"[^\w.-]", "_", name.rsplit("/", 1)[-1]) or "main.py")
    lines = [
        "code=$(mktemp -d) || exit",
        f"cat > \"$code\"/{file} << '{mark}'",
        protected(code).rstrip("\n"),
        mark,
        *([f"cd {quote(folder)} || exit"] if folder and folder not in (".", "./") else []),
        f'python -u "$code"/{file}{arguments}',
    ]
    return "\n".join(lines)


def _in_folder(text: str, folder: str | None) -> str:
    return text if not folder or folder in (".", "./") else f"cd {quote(protected(folder))} && {text}"
