"""Directives as the words of a command that waits for an allocation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcdist.plan.values import Directive


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
