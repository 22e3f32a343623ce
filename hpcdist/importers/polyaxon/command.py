"""The command of Polyaxon 0.x, ``run.cmd``: its lines as bash is to read them, its operators as templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from hpcdist.base.errors import Path, Place, Problem
from hpcdist.base.tree import Map, Seq

# --- ``run.cmd``, which Polyaxon 0.x joins, dropping the backslashes between its lines
#
# If YAML has already joined the lines, the backslashes remain, and bash reads each as the first
# character of the next word. Polyaxon splits a command at white space, drops words that are a backslash only
# and strips backslashes off the others (polyaxon-schemas 0.6.1, ``ops/run``).
#
# Text in ``{% raw %}`` stays unchanged; ``keep_lines`` uses it for commands of other forms.

_BLOCK: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
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
"""Lines of a file, a case or an array, which a Polyaxon command cannot have."""
_JOINED: Final = {"at_line_end": "\\\n", "alone": "", "before_option": " ", "option_line": " "}


def lines(data: Map, remarks: list[Problem]) -> None:
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
    """Return a command whose options follow their program; joining it again changes nothing."""
    while (new := _replace_joins(text, lambda match: _JOINED[match.lastgroup or ""])) != text:
        text = new
    return text


def keep_lines(data: Map) -> Map:
    """Return an experiment in which `lines` joins no lines; its rendered commands are the same."""
    new = data.copy()
    _change_commands(new, lambda text, *_: _replace_joins(text, _raw).replace("{{% raw", '{{ "{" }}{% raw'))
    return new


def _raw(match: re.Match[str]) -> str:
    """Protect text that would be joined, except the end of a line, so that lines stay lines."""
    begin = "\n" if match["option_line"] else ""
    return f"{begin}{{% raw %}}{match[0].removeprefix(begin)}{{% endraw %}}"


def _replace_joins(text: str, meant: Callable[[re.Match[str]], str]) -> str:
    """Return a command with a replacement for each place that Polyaxon joins."""
    if _SCRIPT.search(text):
        return text
    return _PIECE.sub(lambda match: meant(match) if match.lastgroup else match[0], text)


def operators(data: Map) -> None:
    """Rewrite operators in ``data["run"]["cmd"]`` as templates: ``if: {cond, do, else_do}``, and ``for``."""
    run = data.get("run")
    if not isinstance(run, Map) or not isinstance(command := run.get("cmd"), (Map, Seq)):
        return
    data["run"] = new = run.copy()
    if isinstance(command, Seq):
        new["cmd"] = command.mapped(lambda _, one: _template(one) or one if isinstance(one, Map) else one)
    else:
        new["cmd"] = _template(command) or command


def _template(node: Any) -> str | None:
    """Return the text of a command, of a list of them, or of an operator; None for anything else."""
    if isinstance(node, Seq):
        texts = [_template(item) for item in node]
        return None if None in texts else " && ".join(map(str, texts))
    if not isinstance(node, Map):
        return None if node is None else str(node)
    name, fields = next(iter(node.items()), ("", None))
    if len(node) != 1 or not isinstance(fields, Map) or (do := _template(fields.get("do"))) is None:
        return None
    if name == "if" and fields.get("cond") is not None:
        other = _template(fields.get("else_do"))
        last = "" if other is None else f"{{% else %}}{other}"
        return f"{{% if {_expression(fields['cond'])} %}}{do}{last}{{% endif %}}"
    if name == "for" and fields.get("len") is not None:
        each, index = _expression(fields["len"]), fields.get("index", "index")
        after = "{% if not loop.last %} && {% endif %}"
        return f"{{% for {index} in range({each}) %}}{do}{after}{{% endfor %}}"
    return None


def _expression(value: object) -> str:
    """Return the expression of a value that may have templates: ``n == 2`` of ``{{ n == 2 }}``."""
    text = str(value)
    alone = _BLOCK.fullmatch(text.strip())
    return alone[1].strip() if alone else _BLOCK.sub(lambda match: f"({match[1].strip()})", text)


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
            lambda at, one: change(one, (*path, at), commands.place_of(at)) if isinstance(one, str) else one
        )
    data["run"] = new
