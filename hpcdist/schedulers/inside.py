"""Commands on the nodes of a job that runs, and batch systems that start them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from hpcdist.host.command import Command
from hpcdist.words import join


class Nodes(NamedTuple):
    """Nodes of a running job, with their numbers in its plan.

    ``job``: the job or the element of an array as the batch system knows it: ``12``, ``12_3``, ``12[3]``.
    """

    job: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]


@runtime_checkable
class StartsInside(Protocol):
    """What a scheduler may have besides: starting programs in a job that runs, beside those of the job."""

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield the commands that run these words once on each of these nodes, as few as possible.

        Each prints what the words print, whole lines at a time, and ends with their exit code; of several
        nodes with one that is not 0. ``terminal``: the words get a terminal, where that can be had.
        """
        ...


def line_of(words: Sequence[str]) -> str:
    """Return one line that runs these words, which every shell reads alike."""
    text = base64.b64encode(f"exec {join(words)}".encode()).decode()
    return f"exec bash -c 'eval \"$(echo {text} | base64 -d)\"'"


def by_ssh(nodes: Nodes, words: Sequence[str], *, terminal: bool) -> Iterator[Command]:
    """Yield an ssh for each node, where a batch system starts nothing in jobs from outside.

    The words run beside the job, outside its limits, if the site lets users of a job in. The user's login
    shell there, which may be csh, gets one line that every shell reads alike.
    """
    line = line_of(words)
    options = ("-o", "ConnectTimeout=20", "-q", *(["-t"] if terminal else ["-o", "BatchMode=yes"]))
    for name in nodes.names:
        yield Command(("ssh", *options, "--", name, line), keep_environment=("LC_ALL",))
