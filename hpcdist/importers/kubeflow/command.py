"""What a Kubernetes container runs, ``command`` and ``args``, as shell text.

A reference ``$(NAME)`` in it or in a variable is Kubernetes' own, expanded before any shell reads it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers import container
from hpcdist.importers.reading import Reading

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_SHELL: Final = re.compile(r"(?:/(?:usr/)?bin/)?(?:env )?(?:ba|da|z)?sh")
_FLAGS: Final = re.compile(r"-[ceuxlo]+")


def words_of(read: Reading, path: Path) -> list[str] | str | None:
    """Return the words of ``command`` and ``args``, one text if the command is one."""
    command, args = (container.words(read, *path, key) for key in ("command", "args"))
    if isinstance(command, str) and command.strip():
        return command if not args else [*_split(command), *_listed(args)]
    words = _listed(command) if isinstance(command, list) and any(command) else []
    rest = _listed(args)
    if not words and rest:
        if not container.is_program(rest[0]):
            return None
        why = "the image's own entrypoint is not started: `args` is used as the whole command"
        read.warn(*path, "args", why=why, hint="write them as `command`")
    return [*words, *rest] or None


def shell_text(command: list[str] | str, env: Mapping[str, str], elsewhere: frozenset[str]) -> str:
    """Return the command as shell text; a script of ``sh -c`` is returned itself."""
    names = frozenset(elsewhere - env.keys())
    if isinstance(command, str):
        return filled_in(command, env, names)
    script = _script(command)
    if script is not None:
        return filled_in(script, env, names)
    return quoted_words(command, env, names)


def quoted_words(words: Sequence[str], env: Mapping[str, str], names: frozenset[str]) -> str:
    """Return the words for a shell, which expands the references to ``names``."""
    return " ".join(_quoted(word, env, names) for word in words)


def filled_in(text: str, env: Mapping[str, str], names: frozenset[str] | tuple[str, ...]) -> str:
    """Expand the references in a text; those of ``names`` become shell variables."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return env[name] if name in env else f"${{{name}}}" if name in names else match[0]

    return _REFERENCE.sub(one, text)


def arguments_of(read: Reading, path: Path) -> list[str]:
    """Return the words of ``args``, which replace the CMD of an image whose ENTRYPOINT is the program."""
    return _listed(container.words(read, *path, "args"))


def _listed(words: list[str] | str | None) -> list[str]:
    return [words] if isinstance(words, str) else list(words or ())


def _split(text: str) -> list[str]:
    """Return the words of a shell line, the line itself where a quotation is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _script(words: list[str]) -> str | None:
    """Return the script of ``sh -c``, None for any other command."""
    if not words or not _SHELL.fullmatch(words[0]):
        return None
    options, rest = "", words[1:]
    while "c" not in options and rest and _FLAGS.fullmatch(rest[0]):
        piped = "o" in rest[0] and rest[1:2] == ["pipefail"]
        options, rest = options + rest[0][1:] + "p" * piped, rest[1 + piped :]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if "c" not in options or options.count("o") != options.count("p") or len(rest) != 1:
        return None
    own = "".join(letter for letter in "eux" if letter in options)
    set_own = " ".join(["set", *[f"-{own}"] * bool(own), *["-o pipefail"] * ("p" in options)])
    return (f"{set_own}\n" if set_own != "set" else "") + rest[0].strip("\n")


def _quoted(word: str, env: Mapping[str, str], names: frozenset[str]) -> str:
    """Quote a word for the shell, except references that only the job can expand."""
    parts, at = [], 0
    for match in _REFERENCE.finditer(word):
        if match[1] in names:
            parts += [word[at : match.start()], f'"${match[1]}"']
            at = match.end()
    parts.append(word[at:])
    texts = [part if index % 2 else _plain(part, env) for index, part in enumerate(parts)]
    return "".join(texts) or "''"


def _plain(text: str, env: Mapping[str, str]) -> str:
    return shlex.quote(filled_in(text, env, ())) if text else ""
