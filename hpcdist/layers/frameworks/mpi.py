"""MPI: the program calls MPI_Init itself; the launcher provides everything. ChainerMN needs no more."""

from __future__ import annotations

from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.plain import Plain
from hpcdist.layers.protocols import Topology


class Mpi(Plain):
    """A framework of this name whose programs call MPI_Init."""

    def __init__(self, name: str) -> None:
        self.name = name

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU, over MPI; programs use the one whose number is their rank on the node."""
        del experiment
        return Topology(task="gpu", gpu_visibility="node", needs_mpi=True)


MPI = Mpi("mpi")
CHAINERMN = Mpi("chainermn")
