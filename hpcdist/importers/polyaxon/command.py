"""The ``run.cmd`` of Polyaxon 0.x, which joins its lines, and drops the backslashes between them.

Where YAML has joined the lines before, the backslashes are still there, and for bash each is the first
character of the next word. Polyaxon splits a command at white space, drops words that are a backslash only
and strips backslashes off the others (polyaxon-schemas 0.6.1, ``ops/run``).
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.errors import Path, Place, Problem
from hpcdist.tree import Map, Seq

_PIECE: Final = re.compile(
    r"""'[^']*' | "(?:[^"\\]|\\.)*" | \{\{.*?\}\}
    | (?P<at_line_end>\\[ \t]+\n)
    | (?P<alone>(?<!\S)\\(?:[ \t]+|\Z))
    | (?P<before_option>\\[ \t]+(?=-))
    | (?P<option_line>\n[ \t]*(?=-))
    | \\.""",
    re.VERBOSE | re.DOTALL,
)
_SCRIPT: Final = re.compile(r"<<|;;|\([ \t]*$", re.MULTILINE)
"""Lines of a file, a case or an array, none of which Polyaxon could have."""
_MEANT: Final = {"at_line_end": "\\\n", "alone": "", "before_option": " ", "option_line": " "}


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Rewrite ``data["run"]["cmd"]`` so that bash joins the lines that Polyaxon joins."""
    run = data.get("run")
    if not isinstance(run, Map) or "cmd" not in run:
        return
    new, path = run.copy(), ("run", "cmd")
    if isinstance(run["cmd"], str):
        new["cmd"] = _joined(run["cmd"], path, run.place_of("cmd"), remarks)
    elif isinstance(run["cmd"], Seq):
        commands = run["cmd"]
        new["cmd"] = commands.mapped(
            lambda at, item: (
                _joined(item, (*path, at), commands.place_of(at), remarks) if isinstance(item, str) else item
            )
        )
    data["run"] = new


def _joined(text: str, path: Path, place: Place | None, remarks: list[Problem]) -> str:
    if _SCRIPT.search(text):
        return text
    new = _PIECE.sub(lambda match: _MEANT.get(match.lastgroup or "", match[0]), text)
    if new != text:
        message = "the lines are joined here as Polyaxon joins them"
        hint = "write `cmd: |`, and end each line that goes on with `\\`; quote a space that is meant"
        remarks.append(Problem(message, path, hint, "warning", place))
    return new
