"""The program of an experiment: a command, or the entrypoint of its image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hpcdist.documents.fields import Model
from hpcdist.errors import Path
from hpcdist.experiment.steps import Beside, Step
from hpcdist.words import join_commands


class Run(Model, frozen=True):
    """The program: a command, or the entrypoint of the image.

    ``cmd``: the command, one text, or several joined by ``&&``: what bash runs in each task, with
    ``{{ param }}`` replaced; an ``mpirun``, ``srun`` or ``horovodrun`` line in it runs once, on the first
    node. ``entrypoint``: ``image`` starts the ENTRYPOINT of the image of ``build`` instead of a command.
    ``args``: arguments instead of the image's CMD, as bash reads them (``--lr 0.1 --rank $HPCDIST_RANK``),
    or those of each role: ``{master: ..., worker: ...}``. ``prepare`` and ``finish``: a step before and
    after the program; the program does not run if the first fails, and the second runs whatever happened
    (``$HPCDIST_EXIT_CODE``). ``beside``: programs that run beside the tasks. ``workdir``: the folder of the
    image in which the program starts, by default the submit directory.
    """

    main = "cmd"
    may_be_empty = frozenset({"cmd", "args"})

    cmd: str | tuple[str, ...] | None = None
    entrypoint: Literal["image"] | None = None
    args: str | dict[str, str] | None = None
    workdir: str | None = None
    prepare: Step | None = None
    finish: Step | None = None
    beside: tuple[Beside, ...] = ()

    @property
    def steps(self) -> tuple[tuple[Path, Step | Beside], ...]:
        """The steps before, after and beside the program, each with its path in this section."""
        ends = ((("prepare",), self.prepare), (("finish",), self.finish))
        beside = ((("beside", index), one) for index, one in enumerate(self.beside))
        return (*((path, step) for path, step in ends if step), *beside)

    @property
    def starts_entrypoint(self) -> bool:
        """Whether the image's entrypoint is the program."""
        return self.cmd is None and self.entrypoint is not None

    @property
    def command(self) -> str:
        """The text that bash runs, as it was written; of an entrypoint, ``$@`` is what starts it."""
        if self.cmd is None:
            return _starting(self.args)
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


def by_role(commands: Mapping[str, str], other: str = "") -> str:
    """Return a command that runs that of its task's role; ``other`` is for roles that are not listed."""
    return choosing("$HPCDIST_ROLE", commands, other)


def choosing(word: str, commands: Mapping[str, str], other: str = "") -> str:
    """Return a command that runs the first whose pattern a word of bash matches, else ``other``."""
    patterns_by_text: dict[str, list[str]] = {}
    for pattern, text in (*commands.items(), *([("*", other)] if other else [])):
        patterns_by_text.setdefault(text, []).append(pattern)
    branches = [f"{' | '.join(names)})\n{text.rstrip()}\n;;" for text, names in patterns_by_text.items()]
    return "\n".join([f"case {word} in", *branches, "esac"])


def _starting(args: str | dict[str, str] | None) -> str:
    if isinstance(args, dict):
        return by_role({role: _starting(text) for role, text in args.items()}, _starting(None))
    return " ".join(filter(None, ('"$@"', args)))
