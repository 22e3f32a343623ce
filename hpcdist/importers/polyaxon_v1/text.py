"""Texts of Polyaxon 1 and 2: their templates become hpcdist's, and lists of words become a command.

``{{ params.lr }}`` is ``{{ lr }}``; ``{{ params.lr.as_arg }}`` is ``--lr=VALUE``, ``--lr`` for a true bool,
nothing for null; ``{{ globals.run_outputs_path }}`` is ``$POLYAXON_RUN_OUTPUTS_PATH``
(https://polyaxon.com/docs/core/context/).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpcdist.errors import Path
from hpcdist.importers.container import as_word
from hpcdist.importers.reading import Reading
from hpcdist.words import VARIABLE_NAME

_BLOCK: Final = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})", re.DOTALL)
_AS_ARG: Final = re.compile(r"\{\{-?\s*params\.(\w+)\.as_arg\s*-?\}\}")
_AS_ARGS: Final = re.compile(r"\{\{-?\s*params\.as_args\s*-?\}\}")
_PARAM: Final = re.compile(r"\bparams\.(\w+)(?:\.(?:as_str|value))?(?![\w.])")
_GLOBAL: Final = re.compile(r"\{\{-?\s*globals\.(\w+)\s*-?\}\}")
_PATHS: Final = {"run_outputs_path": "$POLYAXON_RUN_OUTPUTS_PATH"}
_FOLDERS: Final = ("globals.artifacts_path", "globals.run_artifacts_path")
_FOREIGN: Final = re.compile(
    r"(?<![\w.'\"])(params|globals|connections|ops|runs|dag|init|hooks)\.(?=\w)[\w.]+"
)
_SHELLS: Final = frozenset({"sh", "bash"})
_SCRIPT: Final = re.compile(r"-([lexu]*)c")
_TAKES_WORDS: Final = re.compile(r"\$(?:[@*#\d]|\{#?[@*\d])")
"""References of a script to the words after it."""
_REFERENCE: Final = re.compile(r"\$\$?\((\w+)\)")
_NUMBERS: Final = frozenset({"int", "float", "bool"})


class Input(NamedTuple):
    """A param as used in texts: whether it needs no quotes, and its form as an argument."""

    plain: bool = False
    flag: bool = False
    form: str | None = None


class Texts:
    """The texts of one file, with the params that they may use."""

    def __init__(self, read: Reading, inputs: Mapping[str, Input]) -> None:
        self._read = read
        self._inputs = inputs

    def template(self, text: str, *path: str | int) -> str:
        """Return a text with its templates in hpcdist's form; one without equivalent is an error there."""
        return "".join(
            self._block(part, path) if at % 2 else part for at, part in enumerate(_BLOCK.split(text))
        )

    def exports(self, variables: Mapping[str, str], *path: str | int) -> str:
        """Return the lines of a script that set variables, whose names a shell allows."""
        return "".join(
            f"export {name}={self.command([value], (), *path)}\n" for name, value in variables.items()
        )

    def _block(self, block: str, path: Path) -> str:
        if alone := _AS_ARG.fullmatch(block):
            return self._argument(alone[1], path)
        if _AS_ARGS.fullmatch(block):
            return " ".join(self._argument(name, path) for name in self._inputs)
        if (alone := _GLOBAL.fullmatch(block)) and alone[1] in _PATHS:
            return _PATHS[alone[1]]
        new = _PARAM.sub(r"\1", block)
        if left := _FOREIGN.search(new):
            hint = "write the value itself, or make it a param"
            if left[0] in _FOLDERS:
                hint = "code lies where the job is submitted; what $POLYAXON_RUN_OUTPUTS_PATH holds is kept"
            self._read.refuse(*path, why=f"{left[0]!r} is known to a server of Polyaxon only", hint=hint)
            return "{% raw %}" + block + "{% endraw %}"
        return new

    def _argument(self, name: str, path: Path) -> str:
        """Return the template of ``--name=value``, which is nothing for null."""
        entry = self._inputs.get(name, Input())
        if entry.flag:
            return f"{{% if {name} %}}--{name}{{% endif %}}"
        form = (
            self.template(entry.form, *path)
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
        known = frozenset(variables)

        def reference(match: re.Match[str]) -> str:
            if match[0].startswith("$$"):
                return match[0][1:]
            return f"${{{match[1]}}}" if match[1] in known else match[0]

        return self.template(_REFERENCE.sub(reference, text), *path)

    def _word(self, word: str, known: frozenset[str], path: Path) -> str:
        parts = _BLOCK.split(word)
        if len(parts) == 1:
            return _literal(word, known)
        text = ""
        for at, part in enumerate(parts):
            text += self._piece(part, path) if at % 2 else _literal(part, known) if part else ""
        return text

    def _piece(self, block: str, path: Path) -> str:
        if _AS_ARG.fullmatch(block) or _AS_ARGS.fullmatch(block):
            return self._block(block, path)
        new = self._block(block, path)
        return f'"{new}"' if new.startswith("$") else self._quoted(new) if new.startswith("{{") else new


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
        if VARIABLE_NAME.fullmatch(name) and any(found[1] in _PATHS for found in _GLOBAL.finditer(value))
    }


def script_of(words: list[str]) -> str | None:
    """Return the script of ``bash -c SCRIPT``, with what its options set, None where it is none."""
    match words:
        case [shell, option, script] if shell.rsplit("/", 1)[-1] in _SHELLS:
            found = _SCRIPT.fullmatch(option)
            flags = found[1].replace("l", "") if found else ""
            return (f"set -{flags}\n{script}" if flags else script) if found else None
        case _:
            return None


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
