"""The command of a function of MLRun, and its params.

``python -u COMMAND ARGS`` unless ``mode: pass`` makes the command a complete one; ``{name}`` in
both is replaced by a param (``mlrun/runtimes/local.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path
from hpcdist.importers.container import as_word, escape_templates, ignore_set_keys, words
from hpcdist.importers.mlrun.code import code_command, code_of, start_line
from hpcdist.importers.mlrun.handlers import Program, handler_of, put_handler, stand_in_for
from hpcdist.importers.mlrun.search import put_search
from hpcdist.importers.reading import Reading, placed
from hpcdist.words import quote

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_STORED: Final = re.compile(r"(store|v3io|db|hub|ds)://")
_REMOTE: Final = re.compile(r"[a-z0-9]+://")
_BY_SHELL: Final = "write `mode: pass`, and {codefile} where the command names its file: `bash {codefile}`"


def params_of(read: Reading, spec: Path) -> dict[str, object]:
    """Take ``parameters``, and the search over others; return all, with one value of each."""
    params = Map(place=read.place(*spec, "parameters"))
    for section in ("inputs", "parameters"):
        if not isinstance(read.peek(*spec, section), (Mapping, NoneType)):
            read.refuse(*spec, section, why="expected keys and values", hint="write `NAME: VALUE`")
        for name in read.keys(*spec, section):
            _take_param(read, params, name, (*spec, section, name))
    if params:
        read.put("params", params, *spec, "parameters")
    return {**params, **put_search(read, spec)}


def _take_param(read: Reading, params: Map, name: str, source: Path) -> None:
    """Take a parameter, or the path of an input."""
    value = read.get(*source)
    if not name.isidentifier():
        read.refuse(*source, why=f"{name!r} is not a valid param name")
        return
    if isinstance(value, str) and _STORED.match(value):
        hint = f"copy the file to the machine, and give its path: `-p {name}=PATH`"
        read.warn(*source, why=f"{value} is found only by a server of MLRun", hint=hint)
    params.put(name, value, read.place(*source))
    if (text := getattr(read.peek(*source[:-1]), "texts", {}).get(name)) is not None:
        params.texts[name] = text


def params_variable(params: Mapping[str, object]) -> dict[str, str]:
    """Return the variable in which a program of MLRun reads its params."""
    return {"MLRUN_EXEC_CONFIG": _config(params)} if params else {}


def put_program(read: Reading, path: Path) -> None:
    """Put the program that an entry of a project names."""
    program = read.text(*path, "url") or ""
    if handler := handler_of(read, (*path, "handler"), ""):
        put_handler(read, handler, Program(file=program), {}, path)
    else:
        if read.peek(*path, "kind") != "mpijob":
            why = "it is run as a program, since no handler is named"
            read.warn(*path, "url", why=why, hint="`--set handler=NAME` calls a function of it")
        read.put("run.cmd", f"python -u {quote(escape_templates(program))}", *path, "url")


def _config(params: Mapping[str, object]) -> str:
    """Return what the program reads by ``mlrun.get_or_create_ctx``: JSON with the params."""
    parts = ", ".join(f'"{name}": {{{{ {name}|tojson }}}}' for name in params)
    return f'{{"spec": {{"parameters": {{{parts}}} }} }}'


def put_command(read: Reading, spec: Path, params: Mapping[str, object]) -> None:
    """Put the command, if a batch job can run it."""
    command, mode = read.text(*spec, "command") or "", read.get(*spec, "mode")
    folder, python = read.text(*spec, "workdir"), _python(read, spec)
    code = code_of(read, (*spec, "build", "functionSourceCode"))
    origin = read.text(*spec, "build", "origin_filename") or ""
    handler = handler_of(read, (*spec, "default_handler"), code)
    source = (*spec, "command" if command else "build")
    if mode not in (None, "", "pass", "args"):
        read.refuse(*spec, "mode", why=f"unknown mode {mode!r}", hint="write `pass`, or nothing")
    if not code and _REMOTE.match(command):
        read.refuse(*source, why=f"{command} is not fetched", hint="write the path of the program")
    elif not code and command.endswith(".ipynb"):
        read.refuse(
            *source, why="a notebook is not a program", hint="export it as a script (jupyter nbconvert)"
        )
    elif handler:
        ignore_set_keys(read, {"args": "a handler gets params only"}, *spec)
        program = Program(code, origin if code else command, python, folder)
        put_handler(read, handler, program, params, (*spec, "parameters"))
    else:
        _put_program(read, spec, Program(code, origin, python, folder), _Texts(read, params))


def _put_program(read: Reading, spec: Path, program: Program, texts: _Texts) -> None:
    """Put the command of a function without a handler."""
    command, whole = read.text(*spec, "command") or "", read.get(*spec, "mode") == "pass"
    end = _arguments(read, spec, texts)
    file, line = start_line(command, program.file, program.python, whole=whole)
    source = (*spec, "command" if command else "build")
    if program.code and not file:
        read.refuse(*source, why="the file does not say how its code is run", hint=_BY_SHELL)
    elif program.code:
        written = {file: program.code, **stand_in_for(program.code, file)}
        text = code_command(written, texts.filled(line, *source) + end, program.folder)
        read.put("run.cmd", text, *spec, "build", "functionSourceCode")
    elif not command:
        read.refuse(*spec, "command", why="there is no command", hint="write the program, such as train.py")
    else:
        text = command if whole else " ".join([program.python, *command.split()])
        read.put("run.cmd", _in_folder(f"{texts.filled(text, *source)}{end}", program.folder), *source)
    texts.declare(spec)


def _python(read: Reading, spec: Path) -> str:
    options = words(read, *spec, "py_args") or []
    return " ".join(["python", "-u", *([options] if isinstance(options, str) else map(quote, options))])


def _arguments(read: Reading, spec: Path, texts: _Texts) -> str:
    """Take ``args``: the text after the command, with a space before it."""
    args = words(read, *spec, "args") or []
    items = [(*spec, "args", at) for at, item in read.items(*spec, "args") if item is not None]
    sources: list[Path] = [*items] or [(*spec, "args")]
    text = ""
    for word, source in zip([args] if isinstance(args, str) else args, sources, strict=False):
        if re.match(r"-x \w+=", word):
            why = "this option of mpirun is passed to the program: write it in `mpi_args`"
            read.warn(*source, why=why)
        text += f" {texts.word(word, *source)}"
    return text


class _Texts:
    """Texts with ``{name}``; names without a value become inputs, given with -p."""

    def __init__(self, read: Reading, params: Mapping[str, object]) -> None:
        self._read, self._params = read, params
        self._lacking: dict[str, Path] = {}

    def word(self, text: str, *source: str | int) -> str:
        """Return one word for a shell."""
        return self._made(text, lambda part: quote(escape_templates(part)), source) or "''"

    def filled(self, text: str, *source: str | int) -> str:
        """Return shell text."""
        return self._made(text, escape_templates, source)

    def _made(self, text: str, plain: Callable[[str], str], source: Path) -> str:
        parts = _PLACEHOLDER.split(text)
        return "".join(
            self._value(part, source) if at % 2 else plain(part) for at, part in enumerate(parts) if part
        )

    def _value(self, name: str, source: Path) -> str:
        if name not in self._params:
            self._lacking.setdefault(name, source)
        value = self._params.get(name)
        return as_word(name, plain=isinstance(value, (int, float)))

    def declare(self, spec: Path) -> None:
        """Declare params without a value as inputs, and then all others too: inputs list all params."""
        if not self._lacking:
            return
        sources = {name: (*spec, "parameters", name) for name in self._params} | self._lacking
        inputs = Seq()
        for at, (name, source) in enumerate(sources.items()):
            place = self._read.place(*source)
            inputs.add(placed({"name": name}, place), place)
            self._read.origins["inputs", at] = source
        self._read.put("inputs", inputs, *next(iter(sources.values())))


def _in_folder(text: str, folder: str | None) -> str:
    return text if not folder or folder in (".", "./") else f"cd {quote(escape_templates(folder))} && {text}"
