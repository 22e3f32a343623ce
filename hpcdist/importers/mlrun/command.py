"""The command of a function of MLRun, and its params.

``python -u COMMAND ARGS`` unless ``mode: pass`` makes the command a complete one; ``{name}`` in
both is replaced by a param (``mlrun/runtimes/local.py``).
"""

from __future__ import annotations

import ast
import base64
import binascii
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import PurePosixPath
from random import Random
from sys import version_info
from types import NoneType
from typing import Final, NamedTuple

from hpcdist.base.errors import Path, comma_list
from hpcdist.base.tree import Map, Seq
from hpcdist.base.words import quote
from hpcdist.experiment.trials import MOST_TRIALS
from hpcdist.importers.container import as_word, escape_templates, ignore_set_keys, in_folder, words
from hpcdist.importers.job import ForeignJob, ForeignSearch, Sourced
from hpcdist.importers.reading import Reading, placed

# --- Code inside a function of MLRun, in base64: each process writes it to a file and runs that
#
# It is run as ``mlrun run`` does in the pod
# (https://github.com/mlrun/mlrun/blob/v1.10.1/mlrun/__main__.py).

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


# --- Handlers: functions that MLRun calls with a context; in a job, `run_handler.py` calls them
#
# That program is part of the command, so the script needs no hpcdist.

_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SILENT: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.ClassDef, *_FUNCTION)


class Handler(NamedTuple):
    """The function to call: ``name``, ``module.name`` or ``Class::name``, and the key that names it."""

    name: str
    source: Path


class Program(NamedTuple):
    """What defines the handler: code that the file contains, with its original file, or a separate file."""

    code: str = ""
    file: str = ""
    python: str = "python -u"
    folder: str | None = None


class Params(NamedTuple):
    """The params of a function, and the section that has them."""

    values: Mapping[str, object]
    path: Path


def handler_of(read: Reading, path: Path, code: str) -> Handler | None:
    """Return the handler of a function; ``path`` is its key, and ``--set handler=NAME`` is another.

    Code that only defines functions needs a handler: its only function, or None if it has several.
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


def put_handler(read: Reading, job: ForeignJob, handler: Handler, program: Program, params: Params) -> None:
    """Take the command that calls a handler, and its params."""
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
    written = {'"$code"/call/run_handler.py': program_text("run_handler")}
    line = f'{program.python} "$code"/call/run_handler.py {quote(handler.name)} {file}'.rstrip()
    if program.code:
        written[file] = program.code
    job.command = Sourced(code_command(written, line, program.folder), handler.source)
    if handler.name in functions:
        _declare(read, handler, functions[handler.name], params)


def _declare(read: Reading, handler: Handler, arguments: ast.arguments, params: Params) -> None:
    """Declare the params that a handler takes; with ``**kwargs``, it takes all."""
    if arguments.kwarg:
        return
    optional = dict(_optional(arguments))
    for name in [name for name in params.values if name not in optional]:
        read.warn(*params.path, name, why=f"{handler.name!r} does not take it, and MLRun would not pass it")
        optional[name] = True
    sources = {name: (*params.path, name) if name in params.values else handler.source for name in optional}
    _put_inputs(read, sources, [name for name, value in optional.items() if value])


def _put_inputs(read: Reading, sources: Mapping[str, Path], optional: Collection[str] = ()) -> None:
    """Declare the params with these names, each at its source."""
    inputs = Seq()
    for at, (name, source) in enumerate(sources.items()):
        place, extra = read.place(*source), {"is_optional": True} if name in optional else {}
        inputs.add(placed({"name": name, **extra}, place), place)
        read.origins["inputs", at] = source
    if inputs:
        read.put("inputs", inputs, *next(iter(sources.values())))


def _optional(arguments: ast.arguments) -> Iterator[tuple[str, bool]]:
    """Yield the params of a function, and whether each has a default; the context is not one."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    found = [(arg.arg, at >= first) for at, arg in enumerate(positional)]
    found += [
        (arg.arg, value is not None)
        for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return ((name, value) for name, value in found if name != "context")


def program_text(name: str) -> str:
    """Return the text of a standalone program."""
    return files("hpcdist.importers.mlrun").joinpath(f"{name}.py").read_text(encoding="utf-8")


def _functions(code: str) -> dict[str, ast.arguments]:
    return {node.name: node.args for node in _body(code) if isinstance(node, _FUNCTION)}


def _only_defines(code: str) -> bool:
    """Return whether the code only defines things when it runs."""
    return all(isinstance(node, _SILENT) or _is_text(node) for node in _body(code))


def _body(code: str) -> list[ast.stmt]:
    """Return the statements of a program, none if this Python cannot read it."""
    found = _parsed(code)
    return found if isinstance(found, list) else []


def _syntax_error(code: str) -> str:
    """Return why this Python cannot read a program; the job's Python may be newer."""
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


# --- The command of a function of MLRun, and its params

_COMMAND_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
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


def put_program(read: Reading, job: ForeignJob, path: Path) -> None:
    """Put the program that an entry of a project names."""
    program = read.text(*path, "url") or ""
    if handler := handler_of(read, (*path, "handler"), ""):
        put_handler(read, job, handler, Program(file=program), Params({}, path))
    else:
        if read.peek(*path, "kind") != "mpijob":
            why = "it is run as a program, since no handler is named"
            read.warn(*path, "url", why=why, hint="`--set handler=NAME` calls a function of it")
        job.command = Sourced(f"python -u {quote(escape_templates(program))}", (*path, "url"))


def _config(params: Mapping[str, object]) -> str:
    """Return the JSON with the params that ``mlrun.get_or_create_ctx`` reads."""
    parts = ", ".join(f'"{name}": {{{{ {name}|tojson }}}}' for name in params)
    return f'{{"spec": {{"parameters": {{{parts}}} }} }}'


def put_command(read: Reading, job: ForeignJob, spec: Path, params: Mapping[str, object]) -> None:
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
        put_handler(read, job, handler, program, Params(params, (*spec, "parameters")))
    else:
        _put_program(read, job, spec, Program(code, origin, python, folder), _Texts(read, params))


def _put_program(read: Reading, job: ForeignJob, spec: Path, program: Program, texts: _Texts) -> None:
    """Put the command of a function without a handler."""
    command, whole = read.text(*spec, "command") or "", read.get(*spec, "mode") == "pass"
    end = _arguments(read, spec, texts)
    file, line = start_line(command, program.file, program.python, whole=whole)
    source = (*spec, "command" if command else "build")
    if program.code and not file:
        read.refuse(*source, why="the file does not say how its code is run", hint=_BY_SHELL)
    elif program.code:
        text = code_command({file: program.code}, texts.filled(line, *source) + end, program.folder)
        job.command = Sourced(text, (*spec, "build", "functionSourceCode"))
    elif not command:
        read.refuse(*spec, "command", why="there is no command", hint="write the program, such as train.py")
    else:
        text = command if whole else " ".join([program.python, *command.split()])
        folder = escape_templates(program.folder or "")
        job.command = Sourced(in_folder(folder, f"{texts.filled(text, *source)}{end}"), source)
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
            read.warn(*source, why="this option of mpirun is passed to the program: write it in `mpi_args`")
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
        parts = _COMMAND_PLACEHOLDER.split(text)
        return "".join(
            self._value(part, source) if at % 2 else plain(part) for at, part in enumerate(parts) if part
        )

    def _value(self, name: str, source: Path) -> str:
        if name not in self._params:
            self._lacking.setdefault(name, source)
        value = self._params.get(name)
        return as_word(name, plain=isinstance(value, (int, float)))

    def declare(self, spec: Path) -> None:
        """Declare params without a value as inputs, and then all others, since inputs list all params."""
        sources = {name: (*spec, "parameters", name) for name in self._params} | self._lacking
        _put_inputs(self._read, sources if self._lacking else {})


# --- Hyper-parameters of MLRun as the section ``hptuning``: ``grid``, ``list`` and ``random``
#
# Source: mlrun 1.12.1, ``mlrun/runtimes/generators.py``. In its grid the first parameter changes fastest;
# ``random`` draws ``max_iterations`` times, so a trial may occur twice.

_OPTIONS: Final = "hyper_param_options"
_STRATEGIES: Final = ("grid", "list", "random")
_ITERATIONS: Final = 10  # MLRun's default
_ERRORS: Final = 3  # MLRun's default, also for 0
_IGNORED: Final = {
    **dict.fromkeys(("dask_cluster_uri", "teardown_dask"), "the batch system runs the trials"),
}
_STOP: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*([<>])=?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_SELECTOR: Final = re.compile(r"(?:(max|min)\.)?(.+)")


def put_search(read: Reading, spec: Path) -> dict[str, object]:
    """Put the search, if there is one; return its params, each with one of its values."""
    options = (*spec, _OPTIONS)
    file, lists = _lists(read, spec)
    if lists is None:
        refused = file or read.peek(*spec, "hyperparams")
        for key in (_OPTIONS, "strategy", "selector"):
            if read.get(*spec, key) and not refused:
                read.ignore(*spec, key, why="there are no `hyperparams`")
        return {}
    read.ignore_all(_IGNORED, *options)
    search = ForeignSearch(read, *lists)
    strategy = _strategy(read, spec, file)
    paths = ((*options, "selector"), (*spec, "selector"))
    text, path = next(((text, path) for path in paths if (text := read.text(*path))), ("", paths[0]))
    if match := _SELECTOR.fullmatch(text):
        search.compare_by(match[2], "minimize" if match[1] == "min" else "maximize", *path)
    _put_ends(read, search, options)
    read.get(*options, "parallel_runs")
    search.copy({"parallel_runs": "concurrency"}, *options)
    values = {name: found for name in read.keys(*lists) if (found := _values(read, (*lists, name), strategy))}
    if strategy == "grid":
        search.static("grid_search", None, *lists)
        for name, found in reversed([*values.items()]):  # in the native form the last changes fastest
            space = Map(place=read.place(*lists, name))
            space.put("values", found, read.place(*lists, name))
            search.add(name, space, *lists, name)
    elif strategy and values:
        draws = _draws(read, spec) if strategy == "random" else 0
        rows = _rows(read, values, lists, draws)
        if rows is not None:
            search.put("mapping", rows, *lists)
    search.write()
    return {name: _sample(found) for name, found in values.items()}


def param_file_in(data: Map) -> tuple[Path, str] | None:
    """Return the key and the path of the file with the parameters of a function."""
    read = Reading(data)
    for path in (("spec", "param_file"), ("spec", _OPTIONS, "param_file")):
        name = read.peek(*path)
        if isinstance(name, str) and name and "://" not in name and not read.peek("spec", "hyperparams"):
            return path, name
    return None


def _lists(read: Reading, spec: Path) -> tuple[str, Path | None]:
    """Return the name of the file with the lists, if they are in one, and their path; None without lists."""
    own: Path = (*spec, "hyperparams")
    for path in ((*spec, "param_file"), (*spec, _OPTIONS, "param_file")):
        node = read.peek(*path)
        if not node:
            continue
        if read.peek(*own):
            read.refuse(*path, why="there are `hyperparams` too", hint="keep one of them")
            return "", own
        if isinstance(node, Map):
            return node.place.file if node.place else "", path
        hint = "write its values as `hyperparams`, or copy it next to this file and give that name"
        read.refuse(*path, why=f"{node} is not read here", hint=hint)
        return str(node), None
    node = read.peek(*own)
    if node and not isinstance(node, Mapping):
        read.refuse(*own, why="expected keys and values", hint="write `NAME: [VALUE, ...]`")
        return "", None
    return "", own if node else None


def _strategy(read: Reading, spec: Path, file: str) -> str:
    """Return the strategy; "" with an error if it is unknown."""
    paths = ((*spec, "strategy"), (*spec, _OPTIONS, "strategy"))
    given, path = next(((text, path) for path in paths if (text := read.text(*path))), ("", paths[1]))
    read.get(*paths[1])
    table = file.endswith(".csv")
    strategy = given or ("list" if table else "grid")
    most = (*spec, _OPTIONS, "max_iterations")
    if strategy not in _STRATEGIES:
        why = f"unknown strategy {given!r}"
        if given == "custom":
            why = "with the strategy 'custom' the function makes its own runs, which a batch job does not"
        read.refuse(*path, why=why, hint="write grid, list or random")
        return ""
    if table and strategy != "list":
        why = "a table in CSV is a list of trials"
        read.refuse(*path, why=why, hint="write `strategy: list`, or the lists as JSON")
        return ""
    if strategy != "random" and read.peek(*most):
        hint = "write `strategy: random`, or remove it"
        read.refuse(*most, why="max_iterations is of the strategy random", hint=hint)
    return strategy


def _put_ends(read: Reading, search: ForeignSearch, options: Path) -> None:
    """Put the number of failures and the result after which no further trial starts."""
    errors = read.get(*options, "max_errors")
    if isinstance(errors, int) and not isinstance(errors, bool) and errors >= 0:
        search.put("max_failures", (errors or _ERRORS) + 1, *options, "max_errors")
    elif errors is not None:
        read.refuse(*options, "max_errors", why=f"{errors!r} is no number of trials", hint="write a number")
    path = (*options, "stop_condition")
    if match := _STOP.fullmatch(read.text(*path) or ""):
        goal = "maximize" if match[2] == ">" else "minimize"
        search.stop({"metric": match[1], "value": float(match[3]), "optimization": goal}, *path)
    else:
        read.ignore(*path, why="only one result compared with a number ends a search: `accuracy >= 0.9`")


def _values(read: Reading, path: Path, strategy: str) -> Seq | None:
    """Return the values of a parameter; in a list, a value for all trials may stand alone."""
    value = read.get(*path)
    if not str(path[-1]).isidentifier():
        read.refuse(*path, why=f"{path[-1]!r} is not a valid param name")
    elif isinstance(value, Seq) and value:
        return value
    elif strategy == "list" and not isinstance(value, (Map, Seq)):
        one = Seq(place=read.place(*path))
        one.add(value, read.place(*path), getattr(read.peek(*path[:-1]), "texts", {}).get(path[-1]))
        return one
    else:
        read.refuse(*path, why="its values are missing", hint="write a list")
    return None


def _draws(read: Reading, spec: Path) -> int:
    """Return how many trials a random search draws."""
    path = (*spec, _OPTIONS, "max_iterations")
    count = read.get(*path) or _ITERATIONS
    if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= MOST_TRIALS:
        return count
    read.refuse(
        *path, why=f"{count!r} is no number of trials", hint=f"write a number from 1 to {MOST_TRIALS}"
    )
    return _ITERATIONS


def _rows(read: Reading, values: Mapping[str, Seq], lists: Path, draws: int) -> Seq | None:
    """Return the trials one by one: row by row, or drawn, always the same; None, with an error."""
    random = Random(0)  # noqa: S311 - trials are no secret
    chosen = [{name: random.randrange(len(found)) for name, found in values.items()} for _ in range(draws)]
    if not draws:
        count = max(map(len, values.values()))
        listed = [name for name in values if isinstance(read.peek(*lists, name), Seq)]
        for name in (name for name in listed if len(values[name]) != count):
            why = f"it has {len(values[name])} values, and another parameter has {count}"
            read.refuse(*lists, name, why=why, hint="in a list of trials, write as many of each")
            return None
        chosen = [{name: min(row, len(found) - 1) for name, found in values.items()} for row in range(count)]
    rows = Seq(place=read.place(*lists))
    for indices in chosen:
        row = Map(place=read.place(*lists))
        for name, at in indices.items():
            row.put(name, values[name][at], values[name].place_of(at))
            if at in values[name].texts:
                row.texts[name] = values[name].texts[at]
        rows.add(row, read.place(*lists))
    return rows


def _sample(values: Seq) -> object:
    """Return one of the values: one that is not a number, if any."""
    return next((value for value in values if not isinstance(value, (int, float))), values[0])
