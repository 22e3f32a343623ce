"""The program of an experiment: a command, or the entrypoint of its image."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model
from hpcdist.words import join_commands


class Run(Model, frozen=True):
    """The program: a command, or the entrypoint of the image.

    ``cmd``: the command, one text, or several joined by ``&&``: what bash runs in each task, with
    ``{{ param }}`` replaced; an ``mpirun``, ``srun`` or ``horovodrun`` line in it runs once, on the first
    node. ``entrypoint``: ``image`` starts the ENTRYPOINT of the image of ``build`` instead of a command.
    ``args``: arguments instead of the image's CMD, as bash reads them: ``--lr 0.1 --rank $HPCDIST_RANK``.
    ``workdir``: the folder of the image in which the entrypoint starts.
    """

    main = "cmd"
    may_be_empty = frozenset({"cmd", "args"})

    cmd: str | tuple[str, ...] | None = None
    entrypoint: Literal["image"] | None = None
    args: str | None = None
    workdir: str | None = None

    @property
    def starts_entrypoint(self) -> bool:
        """Whether the image's entrypoint is the program."""
        return self.cmd is None and self.entrypoint is not None

    @property
    def command(self) -> str:
        """The text that bash runs, as it was written; of an entrypoint, ``$@`` is what starts it."""
        if self.cmd is None:
            return " ".join(filter(None, ('"$@"', self.args)))
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)
