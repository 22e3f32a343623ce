"""What a script is made of, each with its origin: directives, variables, words."""

from __future__ import annotations

from typing import Final

from hpcdist.documents.fields import Model
from hpcdist.plan.origin import Origin
from hpcdist.plan.placeholders import Template


class Directive(Model, frozen=True, kw_only=True):
    """One line for the scheduler: ``--nodes=2``; ``value`` None for a bare flag; ``group`` for het jobs."""

    flag: str
    value: str | None
    origin: Origin
    group: int = 0


class Variable(Model, frozen=True, kw_only=True):
    """A variable and its value; ``shell``: bash expands it, as its ``template`` says. ``role``: tasks, or "".

    ``found`` and ``links``: where this file is not found when the job runs, or no program of the command
    links this library, it is ``otherwise`` (None: not set).
    """

    name: str
    value: str
    origin: Origin
    shell: bool = False
    template: Template | None = None
    role: str = ""
    found: str | None = None
    links: str | None = None
    otherwise: str | None = None

    @property
    def is_late(self) -> bool:
        """Whether the job itself decides whether it is set."""
        return self.found is not None or self.links is not None

    @classmethod
    def filled(cls, name: str, template: Template, origin: Origin, role: str = "") -> Variable:
        """Return a variable whose value the script fills in."""
        return cls(name=name, value=template.bash, origin=origin, shell=True, template=template, role=role)  # noqa: S604 - starts no process


class Word(Model, frozen=True, kw_only=True):
    """One word of the launch line, or several that belong together and are shell already (``shell``)."""

    text: str
    origin: Origin
    shell: bool = False

    @classmethod
    def raw(cls, text: str, origin: Origin) -> Word:
        """Return what is shell already."""
        return cls(text=text, origin=origin, shell=True)  # noqa: S604 - starts no process


PROGRAM: Final = '"$commands"'
"""What stands for the user's command."""

TASK_WRAPPER: Final = Word.raw('bash -c "$(declare -f task); task"', Origin("task wrapper"))
