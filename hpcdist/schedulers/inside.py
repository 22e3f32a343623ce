"""Commands on the nodes of a job that runs, where the batch system starts none."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

from hpcdist.host.command import Command
from hpcdist.schedulers.base import Nodes
from hpcdist.words import join


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
    own = ["-t"] if terminal else ["-o", "BatchMode=yes"]
    options = ("-o", "ConnectTimeout=20", "-o", "LogLevel=ERROR", *own)  # not -q: a refusal is to be read
    for name in nodes.names:
        yield Command(("ssh", *options, "--", name, line), keep_environment=("LC_ALL",))
