"""Allocations for a shell: the commands that wait for one and run a script there, with this terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from hpcdist.schedulers import Submission

if TYPE_CHECKING:
    from hpcdist.host.command import Command
    from hpcdist.plan.values import Directive


class ShellRequest(NamedTuple):
    """A script that runs in the foreground; ``directives``: what its header asks for.

    ``terminal``: whether this process has one; else the script reads and writes what this process does.
    """

    submission: Submission
    directives: tuple[Directive, ...] = ()
    terminal: bool = False


@runtime_checkable
class StartsShells(Protocol):
    """What a scheduler may have besides: an allocation whose script has the user's terminal."""

    def shell(self, request: ShellRequest) -> Command:
        """Return the command that waits for the allocation, says so, and runs the script on its first node.

        It ends with the script's exit code, and the allocation with it. Signals end both.
        """
        ...


@runtime_checkable
class StartsLoginShells(Protocol):
    """What a scheduler may have besides: such an allocation, in which the user starts the script."""

    def login_shell(self, request: ShellRequest) -> Command:
        """Return the command that waits for the allocation, and runs the user's login shell there."""
        ...


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
