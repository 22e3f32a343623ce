"""MPI: the program calls MPI_Init itself; the launcher gives it all. ChainerMN is no more than that."""

from __future__ import annotations

from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.plain import Plain
from hpcdist.layers.protocols import Topology


class Mpi(Plain):
    """A program that is started by MPI, under whatever name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU, over MPI; programs take the one whose number is their rank on the node."""
        del experiment
        return Topology(task="gpu", gpu_visibility="node", needs_mpi=True)


MPI = Mpi("mpi")
CHAINERMN = Mpi("chainermn")
