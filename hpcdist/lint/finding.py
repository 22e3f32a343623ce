"""A finding of the lint, and what variables are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.plan.origin import Origin, joined
from hpcdist.plan.values import Variable, Word
from hpcdist.site.fabric import Library, Network

Severity = Literal["note", "warning", "error"]

_MODULE: Final = re.compile(r"(nccl|openmpi)/(\d+(?:\.\d+)*)", re.IGNORECASE)


class Finding(NamedTuple):
    """What is wrong or unusual about a variable; ``value`` is None if it is not set, and for several.

    ``severity``: ``error`` for what nobody may set by hand, ``note`` for what is right and yet no habit.
    """

    name: str
    value: str | None
    origin: Origin
    happens: str
    write: str
    source: str
    severity: Severity = "warning"

    def __str__(self) -> str:
        return f"{self.origin}: {self.text}; {self.hint}"

    @property
    def text(self) -> str:
        """The variable, and what will happen."""
        return f"{self.name}{'' if self.value is None else f'={self.value}'}: {self.happens}"

    @property
    def hint(self) -> str:
        """What to write, and the source."""
        return f"{self.write} ({self.source})"


def finding_on(  # noqa: PLR0913, PLR0917 - as many as a finding has parts
    variable: Variable, happens: str, write: str, source: str, severity: Severity = "warning", value: str = ""
) -> Finding:
    """Return a finding about a variable."""
    said = value or variable.value
    return Finding(variable.name, said, variable.origin, happens, write, source, severity)


def summarized(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the warnings, then the notes: those that say the same as one, none on what has a warning."""
    graver = [item for item in found if item.severity != "note"]
    warned = {item.name for item in graver}
    alike: dict[tuple[str, str], list[Finding]] = {}
    for item in found:
        if item.severity == "note" and item.name not in warned:
            alike.setdefault((item.happens, item.write), []).append(item)
    yield from graver
    yield from map(_as_one, alike.values())


def _as_one(notes: Sequence[Finding]) -> Finding:
    first = notes[0]
    if len(notes) == 1:
        return first
    origins = dict.fromkeys(item.origin for item in notes)
    sources = dict.fromkeys(item.source.partition("#")[0] for item in notes)
    return first._replace(
        name=", ".join(dict.fromkeys(item.name for item in notes)),
        value=None,
        origin=joined(origins, ", "),
        source=", ".join(sources),
    )


class SiteValue(NamedTuple):
    """What a site's file sets a variable to, why ("": unknown), and the source."""

    value: str
    site: str
    why: str
    source: str


class LintContext(NamedTuple):
    """What variables are checked against; None: not known.

    ``words``: what the scheduler and the launcher are told. ``versions``: of ``nccl`` and ``openmpi``, as far
    as module names tell. ``known``: variables of the site's own file that are odd for a reason.
    ``given``: what that file sets.
    """

    network: Network | None = None
    library: Library | None = None
    nodes: int | None = None
    words: tuple[Word, ...] | None = None
    versions: Mapping[str, tuple[int, ...]] = {}
    known: Mapping[str, str] = {}
    given: Mapping[str, SiteValue] = {}


def versions_of(modules: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the versions in names of modules, such as ``NCCL/2.22.3-CUDA-12``."""
    found = (_MODULE.match(module) for module in modules)
    return {match[1].lower(): tuple(map(int, match[2].split("."))) for match in found if match}
