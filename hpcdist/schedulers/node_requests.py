"""Jobs that want nodes by name: how each batch system is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpcdist.registry import Registry
from hpcdist.schedulers import hostlist


class NodeRequest(NamedTuple):
    """What a job requests so that it gets these nodes, each of which it has as a whole or most of it.

    ``directive``: one of the batch system's own; ``constraint``: of all its nodes; ``of_each``: of each one.
    """

    directive: str = ""
    constraint: str = ""
    of_each: tuple[str, ...] = ()


def by_slurm(names: Sequence[str]) -> NodeRequest:
    """Name them: all of the list, and no others, where it has as many as the job (sbatch(1))."""
    return NodeRequest(f"--nodelist={hostlist.compress(names)}")


def by_pbs(names: Sequence[str]) -> NodeRequest:
    """Request a chunk for each node: PBS has no list of them (pbs_resources(7B), ``host``)."""
    return NodeRequest(of_each=tuple(f"host={name}" for name in names))


def by_lsf(names: Sequence[str]) -> NodeRequest:
    """Name the candidates: as many as the job has hosts, so that it gets all (bsub(1), ``-m``)."""
    return NodeRequest(f"-m '{' '.join(names)}'")


def by_flux(names: Sequence[str]) -> NodeRequest:
    """Name the candidates, without brackets, which constraints have for a choice (flux-batch(1))."""
    return NodeRequest(constraint=f"host:{','.join(names)}")


def by_grid_engine(names: Sequence[str]) -> NodeRequest:
    """Name the candidates, of which its parallel environment takes so many (tried on 8.1.9)."""
    return NodeRequest(f"-l hostname={'|'.join(names)}")


node_requests: Registry[Callable[[Sequence[str]], NodeRequest]] = Registry(
    "node_request",
    {
        "slurm": "hpcdist.schedulers.node_requests:by_slurm",
        "pbs": "hpcdist.schedulers.node_requests:by_pbs",
        "lsf": "hpcdist.schedulers.node_requests:by_lsf",
        "flux": "hpcdist.schedulers.node_requests:by_flux",
        "sge": "hpcdist.schedulers.node_requests:by_grid_engine",
    },
)
"""By the name of the scheduler."""
