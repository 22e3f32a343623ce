"""Texts of Polyaxon 1 and 2: their templates become hpcdist's, and lists of words become a command.

``{{ params.lr }}`` is ``{{ lr }}``; ``{{ params.lr.as_arg }}`` is ``--lr=VALUE``, ``--lr`` for a true bool,
nothing for null; ``{{ globals.run_outputs_path }}`` is ``$POLYAXON_RUN_OUTPUTS_PATH``, quoted so that the
shell expands it (https://polyaxon.com/docs/core/context/).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.base.words import VARIABLE_NAME
from hpcdist.importers.container import NOT_EXPANDED, PLAIN_LINES, Quoting, as_word, script_of
from hpcdist.importers.polyaxon import contexts
from hpcdist.importers.reading import Reading

_BLOCK: Final = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})", re.DOTALL)
_AS_ARG: Final = re.compile(r"\{\{-?\s*params\.(\w+)\.as_arg\s*-?\}\}")
_AS_ARGS: Final = re.compile(r"\{\{-?\s*params\.as_args\s*-?\}\}")
_PARAM: Final = re.compile(r"\bparams\.(\w+)(?:\.(?:as_str|value))?(?![\w.])")
_SCRIPT_PART: Final = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\$\$?\(\w+\))", re.DOTALL)
_TAKES_WORDS: Final = re.compile(r"\$(?:[@*#\d]|\{#?[@*\d])")
"""References of a script to the words after it."""
_REFERENCE: Final = re.compile(r"\$\$?\((\w+)\)")
_NUMBERS: Final = frozenset({"int", "float", "bool"})


class TextInput(NamedTuple):
    """A param as used in texts: whether it needs no quotes, and its form as an argument.

    ``required``: some trials of a list lack it, so it must be declared or set for them.
    """

    plain: bool = False
    flag: bool = False
    form: str | None = None
    required: bool = False


class Texts:
    """The texts of one file, with the params that they may use.

    ``repository`` is the name of the code that Polyaxon fetches before the program starts, empty if it is
    unknown, None without such code.
    """

    def __init__(self, read: Reading, inputs: Mapping[str, TextInput], repository: str | None = "") -> None:
        self._read = read
        self._inputs = inputs
        self.repository = repository
        self._warned = False

    def template(self, text: str, *path: str | int) -> str:
        """Return a text with its templates in hpcdist's form; a template without equivalent is an error."""
        return "".join(
            self._block(part, path) if at % 2 else part for at, part in enumerate(_BLOCK.split(text))
        )

    def exports(self, variables: Mapping[str, str], *path: str | int) -> str:
        """Return the lines of a script that set variables with names that a shell allows."""
        return "".join(
            f"export {name}={self.command([value], (), *path)}\n" for name, value in variables.items()
        )

    def _block(self, block: str, path: Path) -> str:
        if alone := _AS_ARG.fullmatch(block):
            return self._argument(alone[1], path)
        if _AS_ARGS.fullmatch(block):
            return " ".join(self._argument(name, path) for name in self._inputs)
        new = _PARAM.sub(r"\1", block)
        unknown = next(contexts.unknown_names(new, self._inputs), None)
        if unknown:
            self._read.refuse(*path, why=unknown.why, hint=unknown.hint)
            return "{% raw %}" + block + "{% endraw %}"
        return new

    def _argument(self, name: str, path: Path) -> str:
        """Return the template of ``--name=value``, which is empty for null."""
        entry = self._inputs.get(name, TextInput())
        if entry.flag:
            return f"{{% if {name} %}}--{name}{{% endif %}}"
        form = (
            self.script(entry.form, (), *path)
            if entry.form
            else f"--{name}={self._quoted(f'{{{{ {name} }}}}')}"
        )
        return f"{{% if {name} is not none %}}{form}{{% endif %}}"

    def _quoted(self, block: str) -> str:
        """Return a template that a shell reads as one word, whatever its value."""
        name = block[2:-2].removeprefix("-").removesuffix("-").strip()
        known = self._inputs.get(name)
        if not block.startswith("{{") or (known and known.plain):
            return block
        return as_word(name)

    def command(self, words: Iterable[str], variables: Iterable[str], *path: str | int) -> str:
        """Return the words as one text for bash: the script itself where they are ``bash -c SCRIPT``."""
        listed, known = list(words), frozenset(variables)
        if script := script_of(listed):
            return self.script(script, known, *path)
        if (script := script_of(listed[:3])) and not _TAKES_WORDS.search(script):
            why = "the shell runs the first text after -c only; what follows is $0, $1 and so on"
            self._read.warn(*path, why=why, hint="write it as one text")
        return " ".join(self._word(word, known, path) for word in listed)

    def script(self, text: str, variables: Iterable[str], *path: str | int) -> str:
        """Return a script, in which ``$(NAME)`` of Kubernetes is bash's ``${NAME}``."""
        known, quoting = frozenset(variables), Quoting(text)
        parts = _SCRIPT_PART.split(contexts.simplified(text, self.repository or ""))
        for at in range(1, len(parts), 2):
            quoting.read(parts[at - 1])
            parts[at] = self._script_part(parts[at], parts[at + 1], known, quoting, path)
        return "".join(parts)

    def _script_part(self, part: str, after: str, known: frozenset[str], quoting: Quoting, path: Path) -> str:
        """Return a template or a reference of a script as text that the shell expands in its quotes."""
        if value := contexts.job_value(part):
            self._warn_of_folder(part, path)
            if quoting.within == PLAIN_LINES:
                self._read.refuse(*path, why=f"{part} is in {NOT_EXPANDED.message}", hint=NOT_EXPANDED.hint)
            return quoting.expanded(re.sub(r"\$(\w+)", r"${\1}", value) if re.match(r"\w", after) else value)
        if not part.startswith("$"):
            quoting.value()
            return self._block(part, path)
        if part.startswith("$$") or part[2:-1] not in known:
            new = part[1:] if part.startswith("$$") else part
            quoting.read(new)
            return new
        return quoting.expanded(f"${{{part[2:-1]}}}") if quoting.within == "'" else f"${{{part[2:-1]}}}"

    def _warn_of_folder(self, block: str, path: Path) -> None:
        if "artifacts_path" not in block or self._warned or self.repository is None:
            return
        self._warned = True
        what = f"in the folder of {self.repository}" if self.repository else "where the code is"
        why = "`globals.artifacts_path` is the directory where the job is submitted"
        self._read.warn(*path, why=why, hint=f"submit it {what}")

    def _word(self, word: str, known: frozenset[str], path: Path) -> str:
        parts = _BLOCK.split(contexts.simplified(word, self.repository or ""))
        if len(parts) == 1:
            return _literal(word, known)
        text = ""
        for at, part in enumerate(parts):
            text += self._piece(part, path) if at % 2 else _literal(part, known) if part else ""
        return text

    def _piece(self, block: str, path: Path) -> str:
        if value := contexts.job_value(block):
            self._warn_of_folder(block, path)
            return f'"{value}"'
        new = self._block(block, path)
        as_args = _AS_ARG.fullmatch(block) or _AS_ARGS.fullmatch(block)
        return self._quoted(new) if new.startswith("{{") and not as_args else new


def _literal(text: str, known: frozenset[str]) -> str:
    """Quote a text; ``$(NAME)`` of a variable of the container is filled in by Kubernetes, here by bash."""
    pieces, end = [], 0
    for match in _REFERENCE.finditer(text):
        if match[0].startswith("$$") or match[1] not in known:
            continue
        pieces += [shlex.quote(text[end : match.start()])] if match.start() > end else []
        pieces.append(f'"${{{match[1]}}}"')
        end = match.end()
    return "".join([*pieces, shlex.quote(text[end:])] if end < len(text) or not pieces else pieces)


def only_in_job(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose values contain a path known only in the job."""
    return {
        name: value
        for name, value in variables.items()
        if VARIABLE_NAME.fullmatch(name) and contexts.has_job_value(value)
    }


class TemplateMask:
    """Replaces templates by plain words, so that text can be parsed as shell words."""

    def __init__(self, text: str) -> None:
        self._blocks: list[str] = []
        self.text = _BLOCK.sub(self._hold, text)

    def _hold(self, match: re.Match[str]) -> str:
        self._blocks.append(match[0])
        return f"\ue000{len(self._blocks) - 1}\ue001"

    def restore(self, text: str) -> str:
        """Return a text with its templates restored."""
        return re.sub("\ue000(\\d+)\ue001", lambda match: self._blocks[int(match[1])], text)


def plain_type(kind: object) -> bool:
    """Return whether values of this type need no quotes in a shell."""
    return kind in _NUMBERS
