"""A launch line taken apart: what mpirun, horovodrun or torchrun were told, and the program that they start.

A line that does more than start one program stays as it is. What the shell is to fill into ``-x A=$B`` is
set in front of the program, where each task's shell does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.experiment.launch.options import HOROVOD, MPI, TORCH
from hpcdist.importers.launch_lines.options import Options
from hpcdist.importers.launch_lines.shell_words import Unclear, assignment, is_made_once, words_of

__all__ = ["Line", "Unclear", "take_apart"]

_NAMES: Final = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
_LAUNCH: Final = re.compile(r"(?:^|[^\w-])(?:mpirun|mpiexec\S*|orterun|horovodrun|torchrun)\s")
_TABLES: Final = {"mpirun": MPI, "horovodrun": HOROVOD, "torchrun": TORCH}


class Line(NamedTuple):
    """What a launch line says; ``command`` is the program with its arguments, as shell text.

    ``per_node`` is a number or a word such as ``auto``; ``by_node``: ranks go to the nodes in turn.
    ``hosts`` are those that the line names itself, nothing where it has the list that its system wrote.
    ``variables`` are those whose value is known, ``passed`` those that are exported by name alone; ``knobs``
    are options of horovodrun or torchrun by name; ``dropped`` have no effect here.
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
    knobs: dict[str, str] = {}
    dropped: tuple[str, ...] = ()


def take_apart(text: str, env: Mapping[str, str], knobs: frozenset[str] = frozenset()) -> Line | None:
    """Return what a launch line says, None for what is no launch line.

    ``env`` are the variables that the file sets; ``knobs`` the names of horovodrun's own options.

    Raises:
        Unclear: for a launch that cannot be told in another way.
    """
    found = words_of(text)
    words = [word for word, _ in found]
    start = next((at for at, word in enumerate(words) if assignment(word) is None), len(words))
    program, at = _program(words, start + (words[start : start + 1] == ["exec"]))
    if not program:
        if not found and _LAUNCH.search(text):
            raise Unclear("which does more than start processes")
        return None
    options = Options(_TABLES[program], env, knobs if program == "horovodrun" else frozenset())
    for word in words[:start]:
        options.assign(word)
    at = options.read(words, at)
    _check_program(words[at:])
    return _line(program, text[found[at][1] :].strip(), options)


def _program(words: list[str], at: int) -> tuple[str, int]:
    """Return the launcher that stands there, and where its options begin."""
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
        raise Unclear("in which no program is started")
    if ":" in words:
        raise Unclear("which starts several programs")
    if any(map(is_made_once, words)):
        raise Unclear("whose arguments the shell makes, once")


def _line(program: str, command: str, options: Options) -> Line:
    np = options.said.get("np")
    if np is not None and not np.isdecimal():
        raise Unclear(f"in which {np!r} is not a number of processes")
    return Line(
        program=program,
        command=" ".join([*options.before, _run_by(program, command)]),
        np=int(np) if np else None,
        per_node=options.said.get("per_node"),
        by_node="by_node" in options.said,
        folder=options.said.get("folder", ""),
        hosts=options.said.get("hosts", ""),
        variables=options.variables,
        passed=tuple(options.passed),
        knobs=options.knobs
        | {key: options.said[key] for key in ("nodes", "restarts") if key in options.said},
        dropped=tuple(options.dropped),
    )


def _run_by(program: str, command: str) -> str:
    """Return what torchrun would run: a Python script, unless it is told otherwise."""
    if program != "torchrun":
        return command
    first, _, rest = command.partition(" ")
    if first in ("--no-python", "--no_python"):
        return rest.strip()
    module = first in ("-m", "--module")
    return f"python -u -m {rest.strip()}" if module else f"python -u {command}"
