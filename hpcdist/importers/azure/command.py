"""Commands of Azure ML: ``${{inputs.x}}``, ``{inputs.x}`` and optional groups become hpcdist's templates.

On Azure a path is absolute, and the program starts in the folder of its code; so a relative path is
prefixed with the submit directory, and outputs are in ``$HPCDIST_OUTPUTS``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from hpcdist.base.errors import Path, did_you_mean
from hpcdist.base.words import quote
from hpcdist.importers.container import NOT_EXPANDED, PLAIN_LINES, Quoting, as_word, escape_templates
from hpcdist.importers.reading import Reading

SUBMITTED_IN: Final = "submitted_in"
"""The variable of the command that holds the folder in which the job was submitted."""

_PLACEHOLDER: Final = re.compile(
    r"\$\{\{\s*(?P<new>[^{}]*?)\s*\}\}|(?<![{$])\{(?P<old>(?:inputs|outputs|search_space)\.\w[^{}\n]*)\}"
)
_GROUP: Final = re.compile(r"\$\[\[(?P<new>.*?)\]\]", re.DOTALL)
_LEGACY_GROUP: Final = re.compile(rf"{_GROUP.pattern}|(?<!\[)\[(?P<old>[^\[\]]+?)\](?!\])", re.DOTALL)
_OPTION: Final = re.compile(r"(?:^|\s)(--?[A-Za-z][\w-]*)\s+$")


class Param(NamedTuple):
    """An input under its name in templates.

    ``is_optional``: it may have no value; ``is_empty``: the value in the file is an empty text; ``is_word``:
    its value is one word of the command, whatever is in it.
    """

    name: str
    is_path: bool = False
    is_optional: bool = False
    is_empty: bool = False
    is_word: bool = False


class AzureOutput(NamedTuple):
    """An output under its name below ``$HPCDIST_OUTPUTS``."""

    name: str
    is_file: bool = False


class Remark(NamedTuple):
    """A problem or a warning about a command."""

    message: str
    hint: str = ""
    is_error: bool = True


class Translation:
    """One command; ``text`` is its native form, ``remarks`` are the problems and warnings.

    ``legacy``: square brackets too are a group, and around words without a placeholder they are dropped, as
    in the first components (azure-ml-component 0.9.18, ``_command_execution_builder``); since spec v2
    they are the shell's. ``searched``: the params of a sweep's search space.
    """

    def __init__(
        self,
        command: str,
        params: Mapping[str, Param],
        outputs: Mapping[str, AzureOutput],
        *,
        legacy: bool,
        searched: Mapping[str, Param] = MappingProxyType({}),
    ) -> None:
        self._params, self._outputs, self._legacy = params, outputs, legacy
        self._searched = searched
        self._parts: list[tuple[bool, str]] = []
        self._quoting = Quoting(command)
        self.remarks: list[Remark] = []
        self.used: list[AzureOutput] = []
        self.has_paths = False
        for text, match in _pieces(_LEGACY_GROUP if legacy else _GROUP, command):
            self._plain(text)
            if match:
                self._group(match)
        self.text = _joined(self._parts)

    def _group(self, match: re.Match[str]) -> None:
        """Write a group, which is kept only where its inputs have values."""
        of_brackets = self._legacy and match["new"] is None
        inner = match["old"] if of_brackets else match["new"]
        named = [
            name
            for kind, name in (_reference(found) for found in _PLACEHOLDER.finditer(inner))
            if kind == "inputs" and name in self._params
        ]
        if of_brackets and not named:
            self._brackets(match[0], inner)
            return
        asked = named[:1] if of_brackets else named
        lacking = [name for name in asked if self._params[name].is_optional]
        conditions = dict.fromkeys(f"{self._params[name].name} is not none" for name in lacking)
        if conditions:
            self._template("{% if " + " and ".join(conditions) + " %}")
        self._plain(inner, sure=lacking)
        if conditions:
            self._template("{% endif %}")

    def _brackets(self, whole: str, inner: str) -> None:
        """Write square brackets that hold no input."""
        if not inner.isspace():
            hint = "write `test` for the brackets of bash"
            self.remarks.append(
                Remark(f"the brackets of {whole!r} are dropped, as Azure does", hint, is_error=False)
            )
            self._plain(inner)
        else:
            self._plain(whole)

    def _plain(self, text: str, sure: list[str] | None = None) -> None:
        """Write text with placeholders; ``sure`` inputs have a value here."""
        for literal, match in _pieces(_PLACEHOLDER, text):
            self._literal(literal)
            if match:
                self._placeholder(match, sure or [])

    def _placeholder(self, match: re.Match[str], sure: list[str]) -> None:
        kind, name = _reference(match)
        if kind == "inputs" and name in self._params:
            self._check_value(name, match)
            self._input(name, self._params[name], sure)
        elif kind == "outputs" and name in self._outputs:
            self._output(self._outputs[name])
        elif kind == "search_space" and name in self._searched:
            self._input(name, self._searched[name], [name])
        else:
            known = {
                "inputs": self._params,
                "outputs": self._outputs,
                "search_space": self._searched or None,
            }.get(kind)
            hint = did_you_mean(name, known) if known is not None else "write the value itself"
            self.remarks.append(Remark(f"{match[0]!r} is not defined here", hint))
            self._literal(match[0])

    def _check_value(self, name: str, match: re.Match[str]) -> None:
        """Warn if an option gets no value, since the shell drops an empty one without quotes."""
        option = _OPTION.search(match.string[: match.start()])
        param, is_end = self._params[name], not match.string[match.end() :][:1].strip()
        if param.is_empty and not param.is_word and option and is_end and not self._quoting.within:
            message = f"{option[1]} gets no value, as on Azure, while the input {name!r} is empty"
            self.remarks.append(Remark(message, f"put quotes around {match[0]}", is_error=False))

    def _input(self, name: str, param: Param, sure: list[str]) -> None:
        lacks = param.is_optional and name not in sure
        if lacks:
            message = f"the optional input {name!r} becomes empty text where it has no value"
            hint = f"put $[[ ]] around what belongs to ${{{{inputs.{name}}}}}"
            self.remarks.append(Remark(message, hint, is_error=False))
        if param.is_path:
            self.has_paths = True
            given = f"{param.name} is not none and " if lacks else ""
            self._template(f'{{% if {given}({param.name}|string)[:1] != "/" %}}')
            self._shell(f"${SUBMITTED_IN}/")
            self._template("{% endif %}")
        value = f'{param.name} if {param.name} is not none else ""' if lacks else param.name
        is_word = (param.is_path or param.is_word) and not self._quoting.within
        self._template(as_word(value) if is_word else f"{{{{ {value} }}}}")

    def _output(self, output: AzureOutput) -> None:
        if output not in self.used:
            self.used.append(output)
        self._shell(f"$HPCDIST_OUTPUTS/{output.name}")

    def _shell(self, text: str) -> None:
        """Write text that the shell expands, whatever quotes are open."""
        if self._quoting.within == PLAIN_LINES:
            self.remarks.append(Remark(f"a path is in {NOT_EXPANDED.message}", NOT_EXPANDED.hint))
        self._parts.append((False, self._quoting.expanded(text)))

    def _template(self, text: str) -> None:
        self._quoting.value()
        self._parts.append((True, text))

    def _literal(self, text: str) -> None:
        self._quoting.read(text)
        self._parts.append((False, text))


def one_line(text: str) -> str:
    """Return a command of the first components, which were split into words at white space."""
    return re.sub(r"\s*\n\s*(?=\S)", " ", text)


def _joined(parts: list[tuple[bool, str]]) -> str:
    """Join the parts; a brace directly before a template is escaped."""
    text, plain = "", ""
    for is_template, part in [*parts, (True, "")]:
        if not is_template:
            plain += part
            continue
        loose = bool(part) and plain.endswith("{")
        plain = escape_templates(plain)
        text += (plain[:-1] + '{{ "{" }}' if loose and plain.endswith("{") else plain) + part
        plain = ""
    return text


def _pieces(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield each match with the text before it, and the text after the last with none."""
    at = 0
    for match in pattern.finditer(text):
        yield text[at : match.start()], match
        at = match.end()
    yield text[at:], None


def _reference(match: re.Match[str]) -> tuple[str, str]:
    """Return what a placeholder names: ``inputs`` or ``outputs`` (or something else), and the name."""
    kind, _, name = (match["new"] if match["new"] is not None else match["old"]).partition(".")
    return kind, name.removesuffix(".path")


# --- Outputs of Azure ML, which are kept below the directory of the run

TYPES: Final = {
    "string": "str", "str": "str", "integer": "int", "int": "int", "float": "float", "double": "float",
    "number": "float", "boolean": "bool", "bool": "bool", "enum": "enum", "mode": "enum",
}  # fmt: skip
FILES: Final = frozenset({"uri_file", "anyfile", "zipfile", "csvfile"})
HIDDEN: Final = "hpcdist does not hide code or data"
_KEPT: Final = "outputs are kept in the directory of the run, below $HPCDIST_OUTPUTS"
_OUTPUT_IGNORED: Final = {
    **dict.fromkeys(
        ("path", "mode", "name", "version", "datastore", "datastore_mode", "is_control", "early_available",
         "data", "optional", "is_link_mode", "display_name", "description"), _KEPT,
    ),
    "intellectual_property": HIDDEN,
}  # fmt: skip


def own_name(output: str) -> str:
    """Return the name of an output's file or folder below the outputs of the run."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", output).lstrip(".-") or "output"


def read_outputs(read: Reading) -> dict[str, AzureOutput]:
    """Take the outputs: names below the directory of the run."""
    found: dict[str, AzureOutput] = {}
    if not read.section("outputs"):
        return found
    for name in read.keys("outputs"):
        value = read.peek("outputs", name)
        kind = read.peek("outputs", name, "type") if isinstance(value, Mapping) else None
        found[name] = AzureOutput(
            own_name(name), is_file=str(kind).lower() in FILES | TYPES.keys()
        )  # a value is a file
        if isinstance(value, Mapping) and value:
            read.get("outputs", name, "type")
            read.ignore_all(_OUTPUT_IGNORED, "outputs", name)
        elif value is None or value == {}:
            read.get("outputs", name)
        else:
            read.ignore("outputs", name, why=_KEPT)
    return found


# --- The code of an Azure ML job, and the directory in which its command runs
#
# Azure copies the code to a directory of each node, makes ``outputs`` and ``logs`` in it before the command
# runs, and keeps what is written to them
# (https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files).

_REMOTE: Final = re.compile(r"[A-Za-z][\w+.-]+:|git@")
_OUTPUTS: Final = 'ln -sn "$HPCDIST_OUTPUTS" outputs; ln -sn "$HPCDIST_OUTPUTS/logs" logs;'
_HIDDEN: Final = (
    "[[ ${HPCDIST_RANK:-0} != 0 || ! -e $OLDPWD/outputs && ! -e $OLDPWD/logs ]] || "
    'echo "./outputs and ./logs are those of $HPCDIST_OUTPUTS, and not of $OLDPWD" >&2'
)
_MLFLOW: Final = (
    'export MLFLOW_TRACKING_URI="${MLFLOW_TRACKING_URI:-file:$HPCDIST_OUTPUTS/mlruns-${HPCDIST_RANK:-0}}" '
    "MLFLOW_ALLOW_FILE_STORE=true"
)
"""On Azure, MLflow needs no destination; version 3 records to files only if that is allowed."""


class AzureCode:
    """The code of a file, taken from it; paths are relative to the submit directory."""

    def __init__(self, read: Reading, command: Path, *, legacy: bool) -> None:
        self._read = read
        self._path = self._code(read.folder(*command) if legacy else "")
        self._included = [*self._includes()]

    def preparation(self, translation: Translation) -> Iterator[str]:
        """Yield the lines before a command: its own directory on each node, with links to the code.

        Its ``outputs`` and ``logs`` are links to the outputs of the run, so that nothing is written to
        folders of these names in the code, which other runs use, too. Existing files, from
        another task or an earlier start, stay.
        """
        if translation.has_paths or self._included:
            yield f"{SUBMITTED_IN}=$PWD"
        if self._path not in ("", "."):
            yield f"cd {escape_templates(quote(self._path))} || exit"
        folders = dict.fromkeys(["logs", *(item.name for item in translation.used if not item.is_file)])
        outputs = " ".join(f'"$HPCDIST_OUTPUTS/{name}"' for name in folders)
        yield f'mkdir -p {outputs} "$HPCDIST_JOB_DIR/code/$HPCDIST_NODE" && cd "$_" || exit'
        yield _HIDDEN
        yield _MLFLOW
        included = "".join(f"{self._word(path)} " for path in self._included)
        yield f'(shopt -s dotglob nullglob; {_OUTPUTS} ln -s "$OLDPWD"/* {included}.) 2>/dev/null'

    def _word(self, path: str) -> str:
        submitted_in = "" if path.startswith("/") else f'"${SUBMITTED_IN}"/'
        return submitted_in + escape_templates(quote(path))

    def _code(self, default: str) -> str:
        """Return the folder in which the command runs."""
        read, path = self._read, self._path_of_code()
        code = read.get(*path) if path != ("code",) or not isinstance(read.peek("code"), dict) else None
        if code is None:
            return default
        if not isinstance(code, str):
            read.refuse(*path, why=f"expected the path of a folder, got {code!r}")
            return ""
        if _REMOTE.match(code) or code.endswith(".zip"):
            why, hint = f"the code {code!r} is not fetched", "check it out, and write its folder"
            read.warn(*path, why=why, hint=hint)
            return ""
        if re.search(r"\.(py|sh|ipynb|R|r|jl)$", code):  # a file, which Azure puts into its own folder
            code = posixpath.dirname(code)
        return self._relative(code, *path)

    def _path_of_code(self) -> Path:
        keys = ("path", "directory", "local_path", "file")
        return next((("code", key) for key in keys if self._read.peek("code", key) is not None), ("code",))

    def _includes(self) -> Iterator[str]:
        """Yield the files and folders that are added to the code."""
        for at, item in self._read.items("additional_includes"):
            if isinstance(item, str) and not _REMOTE.match(item):
                self._read.get("additional_includes", at)
                yield self._relative(item, "additional_includes", at)
            else:
                why = "it is not fetched: add a copy of it to the code"
                self._read.ignore("additional_includes", at, why=why)

    def _relative(self, path: str, *key: str | int) -> str:
        return posixpath.normpath(posixpath.join(self._read.folder(*key), path))
