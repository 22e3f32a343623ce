"""Nodes whose GPUs are used otherwise than those of their peers.

A node that is slow keeps its GPUs busy while those of the others wait for it, where the CPU does the waiting
(MPI, Gloo). Kernels of NCCL wait on the GPU, which then looks busy: there the slow node is the one whose
GPUs are used less, as its CPUs or its input hold it up. So both are shown, and only the first is certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpcdist.nodes.peers import median
from hpcdist.nodes.slow import Slow
from hpcdist.usage.samples import NodeUse

_FEWEST: Final = 4
_SAMPLES: Final = 20
_LEAST: Final = 15.0
"""Percent: the first node often does more than the others."""

_SPREADS: Final = 6.0
_SIGMA: Final = 1.4826


def compare(uses: Iterable[NodeUse]) -> tuple[tuple[Slow, ...], str] | None:
    """Return the nodes of an attempt that stand out, and what was compared; None where there are too few.

    Nodes with different numbers of GPUs are not compared.
    """
    known = [(use, use.use) for use in uses if use.use is not None and use.samples >= _SAMPLES]
    if len(known) < _FEWEST or len({len(use.gpus) for use, _ in known}) > 1:
        return None
    usual = median(percent for _, percent in known)
    limit = max(_LEAST, _SPREADS * _SIGMA * median(abs(percent - usual) for _, percent in known))
    found = [_slow(use, percent, usual, len(known)) for use, percent in known if abs(percent - usual) > limit]
    found.sort(key=lambda each: -abs(each.excess))
    return tuple(found), f"{len(known)} nodes, {usual:.0f}% in their median"


def _slow(use: NodeUse, percent: float, usual: float, nodes: int) -> Slow:
    host, is_busier = use.host.partition(".")[0], percent > usual
    why = "it has less to do, or its CPUs or input hold it up"
    if is_busier:
        why = "the others seem to wait for it"
    text = f"the GPUs of {host or f'node {use.node}'} were used {percent:.0f}%, {usual:.0f}% in the median"
    return Slow(
        host,
        (),
        None,
        percent / usual - 1 if usual else 1.0,
        is_busier,
        f"{text} of {nodes} nodes: {why}",
    )
