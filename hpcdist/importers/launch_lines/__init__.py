"""Parses launch lines: the options of mpirun, horovodrun or torchrun, and the program that they start.

A line that does more than start one program is not converted. ``-x A=$B`` becomes an assignment in front of
the program, which each task's shell expands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.experiment.launch.options import HOROVOD, MPI, TORCH
from hpcdist.importers.launch_lines.options import Options
from hpcdist.importers.launch_lines.shell_words import (
    UnsupportedLaunch,
    assignment,
    is_expanded_once,
    words_of,
)

__all__ = ["Line", "UnsupportedLaunch", "parse_launch_line"]

_NAMES: Final = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
_LAUNCH: Final = re.compile(r"(?:^|[^\w-])(?:mpirun|mpiexec\S*|orterun|horovodrun|torchrun)\s")
_TABLES: Final = {"mpirun": MPI, "horovodrun": HOROVOD, "torchrun": TORCH}


class Line(NamedTuple):
    """A parsed launch line; ``command`` is the program with its arguments, as shell text.

    ``per_node`` is a number or a word such as ``auto``; ``by_node``: ranks go to the nodes in turn.
    ``hosts`` are those that the line names itself, empty for the hostfile that its system writes.
    ``variables`` are those whose value is known, ``passed`` those that are exported by name alone; ``knobs``
    are options of horovodrun by name, None for those without a value; ``nodes`` and ``restarts`` are
    torchrun's; ``dropped`` have no effect here.
    """

    program: str
    command: str
    np: int | None = None
    per_node: str | None = None
    by_node: bool = False
    folder: str = ""
    hosts: str = ""
    variables: dict[str, str] = {}
    passed: tuple[str, ...] = ()
    knobs: dict[str, str | None] = {}
    nodes: str = ""
    restarts: str = ""
    dropped: tuple[str, ...] = ()


def parse_launch_line(text: str, env: Mapping[str, str]) -> Line | None:
    """Parse a launch line; return None for any other command.

    ``env`` are the variables that the file sets.

    Raises:
        UnsupportedLaunch: for a launch that cannot be converted.
    """
    found = words_of(text)
    words = [word for word, _ in found]
    start = next((at for at, word in enumerate(words) if assignment(word) is None), len(words))
    program, at = _program(words, start + (words[start : start + 1] == ["exec"]))
    if not program:
        if not found and _LAUNCH.search(text):
            raise UnsupportedLaunch("which does more than start processes")
        return None
    options = Options(_TABLES[program], env)
    for word in words[:start]:
        options.assign(word)
    at = options.read(words, at)
    _check_program(words[at:])
    return _line(program, text[found[at][1] :].strip(), options)


def _program(words: list[str], at: int) -> tuple[str, int]:
    """Return the launcher at a position, and the position of its options."""
    name = words[at].rsplit("/", 1)[-1] if at < len(words) else ""
    if name in _NAMES:
        return "mpirun", at + 1
    if name in ("horovodrun", "torchrun"):
        return name, at + 1
    if re.fullmatch(r"python[\d.]*", name) and words[at + 1 : at + 3] == ["-m", "torch.distributed.run"]:
        return "torchrun", at + 3
    return "", at


def _check_program(words: list[str]) -> None:
    if not words:
        raise UnsupportedLaunch("in which no program is started")
    if ":" in words:
        raise UnsupportedLaunch("which starts several programs")
    if any(map(is_expanded_once, words)):
        raise UnsupportedLaunch("whose arguments the shell expands only once")


def _line(program: str, command: str, options: Options) -> Line:
    np = options.values.get("np")
    if np is not None and not np.isdecimal():
        raise UnsupportedLaunch(f"in which {np!r} is not a number of processes")
    return Line(
        program=program,
        command=" ".join([*options.before, _program_text(program, command)]),
        np=int(np) if np else None,
        per_node=_plain_number(options.values.get("per_node")),
        by_node="by_node" in options.values,
        folder=options.values.get("folder", ""),
        hosts=options.values.get("hosts", ""),
        variables=options.variables,
        passed=tuple(options.passed),
        knobs=options.knobs,
        nodes=options.values.get("nodes", ""),
        restarts=options.values.get("restarts", ""),
        dropped=tuple(options.dropped),
    )


def _plain_number(text: str | None) -> str | None:
    """Return a number without zeros before it; any other text as it is."""
    return str(int(text)) if text and text.isascii() and text.isdecimal() else text


def _program_text(program: str, command: str) -> str:
    """Return the command of torchrun's program, a Python script unless an option changes that."""
    if program != "torchrun":
        return command
    first, _, rest = command.partition(" ")
    if first in ("--no-python", "--no_python"):
        return rest.strip()
    module = first in ("-m", "--module")
    return f"python -u -m {rest.strip()}" if module else f"python -u {command}"
