"""Commands on the nodes of a job that runs, where the batch system starts none."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hpcdist.host.command import Command
from hpcdist.schedulers.base import Nodes
from hpcdist.words import join

if TYPE_CHECKING:
    from hpcdist.plan.values import Directive


# --- Directives as the words of a command that waits for an allocation


def options(directives: Iterable[Directive], but: Collection[str] = ()) -> Iterator[str]:
    """Yield the words of directives on a command line, without those with the flags ``but``.

    Only ``-pe`` of Grid Engine takes two words as its value.
    """
    for directive in directives:
        flag, _, name = directive.flag.partition(" ")
        value = f"{name}={directive.value}" if name else directive.value
        if directive.flag in but:
            continue
        if value is None:
            yield flag
        elif flag.startswith("--"):
            yield f"{flag}={value}"
        else:
            yield from (flag, *(value.split(" ") if flag == "-pe" else (value,)))


# --- Commands on the nodes of a job that runs, where the batch system starts none


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
