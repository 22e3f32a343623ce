"""The ``run.cmd`` of Polyaxon 0.x, which joins its lines, and drops the backslashes between them.

Where YAML has joined the lines before, the backslashes remain, and bash takes each for the first
character of the next word. Polyaxon splits a command at white space, drops words that are a backslash only
and strips backslashes off the others (polyaxon-schemas 0.6.1, ``ops/run``).

What stands in ``{% raw %}`` stays unchanged; ``keep_lines`` uses it for commands of other forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path, Place, Problem

_PIECE: Final = re.compile(
    r"""(?<!\S)\#[^\n]* | '[^']*' | "(?:[^"\\]|\\.)*" | \{\{.*?\}\} | \{%[ ]raw[ ]%\}.*?\{%[ ]endraw[ ]%\}
    | (?P<at_line_end>\\[ \t]+\n)
    | (?P<alone>(?<!\S)\\(?:[ \t]+|\Z))
    | (?P<before_option>\\[ \t]+(?=-))
    | (?P<option_line>\n[ \t]*(?=-))
    | \\.""",
    re.VERBOSE | re.DOTALL,
)
_SCRIPT: Final = re.compile(r"<<|;;|\([ \t]*$", re.MULTILINE)
"""Lines of a file, a case or an array, none of which a Polyaxon command can have."""
_JOINED: Final = {"at_line_end": "\\\n", "alone": "", "before_option": " ", "option_line": " "}


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Rewrite ``data["run"]["cmd"]`` so that bash joins the lines that Polyaxon joins."""

    def change(text: str, path: Path, place: Place | None) -> str:
        new = joined(text)
        if new != text:
            message = "the lines are joined here as Polyaxon joins them"
            hint = "write `cmd: |`, and end each continued line with `\\`; quote spaces that must be kept"
            remarks.append(Problem(message, path, hint, "warning", place))
        return new

    _change_commands(data, change)


def joined(text: str) -> str:
    """Return a command whose options follow their program; joining it once more changes nothing."""
    while (new := _replace_joins(text, lambda match: _JOINED[match.lastgroup or ""])) != text:
        text = new
    return text


def keep_lines(data: Map) -> Map:
    """Return an experiment in which ``normalise`` joins no lines; its rendered commands are the same."""
    new = data.copy()
    _change_commands(new, lambda text, *_: _replace_joins(text, _raw).replace("{{% raw", '{{ "{" }}{% raw'))
    return new


def _raw(match: re.Match[str]) -> str:
    """Protect what would be joined, but not the end of a line, so that lines stay lines."""
    begin = "\n" if match["option_line"] else ""
    return f"{begin}{{% raw %}}{match[0].removeprefix(begin)}{{% endraw %}}"


def _replace_joins(text: str, meant: Callable[[re.Match[str]], str]) -> str:
    """Return a command with a replacement for each place that Polyaxon joins."""
    if _SCRIPT.search(text):
        return text
    return _PIECE.sub(lambda match: meant(match) if match.lastgroup else match[0], text)


def _change_commands(data: Map, change: Callable[[str, Path, Place | None], str]) -> None:
    """Set each text of ``data["run"]["cmd"]``, which is one or a list, to the result of ``change``."""
    run = data.get("run")
    if not isinstance(run, Map) or "cmd" not in run:
        return
    new, path, commands = run.copy(), ("run", "cmd"), run["cmd"]
    if isinstance(commands, str):
        new["cmd"] = change(commands, path, run.place_of("cmd"))
    elif isinstance(commands, Seq):
        new["cmd"] = commands.mapped(
            lambda at, item: (
                change(item, (*path, at), commands.place_of(at)) if isinstance(item, str) else item
            )
        )
    data["run"] = new
