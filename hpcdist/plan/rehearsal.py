"""What a rehearsal of restarts does to its run."""

from __future__ import annotations

from typing import Literal, get_args

from hpcdist.documents.fields import Model

End = Literal["notice", "write", "node", "rank"]
ENDS: tuple[End, ...] = get_args(End)


class Rehearsal(Model, frozen=True, kw_only=True):
    """How a rehearsal ends the attempts of a run: ``hpcdist rehearse`` plans it, and no key of a file.

    ``ends``: what ends each attempt but the last: ``notice`` the signal before a time limit, ``write`` KILL
    to a rank of the first node while a checkpoint is written, ``node`` KILL to all ranks of a node, ``rank``
    KILL to a rank of another node. ``seed``: of their moments. ``nodes``: those of the real run.
    ``node_mtbf_hours``: the mean time between failures of a node, where it is known.
    """

    ends: tuple[End, ...]
    seed: int
    nodes: int
    node_mtbf_hours: float | None = None

    @property
    def words(self) -> str:
        """The seed and the ends, as the script reads them."""
        return " ".join((str(self.seed), *self.ends))
