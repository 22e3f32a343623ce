"""A finding of the lint, and what variables are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.documents.text_checks import MODULE_RESETS
from hpcdist.plan.values import Origin, Variable, Word, joined
from hpcdist.site.conditions import Library
from hpcdist.site.fabric import Network

Severity = Literal["note", "warning", "error"]

_MODULE: Final = re.compile(r"(nccl|openmpi)/(\d+(?:\.\d+)*)", re.IGNORECASE)


class Finding(NamedTuple):
    """What is wrong or unusual about a variable; ``value`` is None if it is not set, and for several.

    ``severity``: ``error`` for what must never be set by hand, ``note`` for what is valid but unusual.
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
        """The variable, and the effect."""
        return f"{self.name}{'' if self.value is None else f'={self.value}'}: {self.happens}"

    @property
    def hint(self) -> str:
        """What to write, and the source."""
        return f"{self.write} ({self.source})"


def finding_on(  # noqa: PLR0913, PLR0917 - as many as a finding has parts
    variable: Variable, happens: str, write: str, source: str, severity: Severity = "warning", value: str = ""
) -> Finding:
    """Return a finding about a variable."""
    shown = value or variable.value
    return Finding(variable.name, shown, variable.origin, happens, write, source, severity)


def summarized(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the warnings, then the notes: equal ones merged, none for a variable with a warning."""
    graver = [item for item in found if item.severity != "note"]
    warned = {item.name for item in graver}
    by_text: dict[tuple[str, str], list[Finding]] = {}
    for item in found:
        if item.severity == "note" and item.name not in warned:
            by_text.setdefault((item.happens, item.write), []).append(item)
    yield from graver
    yield from map(_merged, by_text.values())


def _merged(notes: Sequence[Finding]) -> Finding:
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
    """The value that a site file gives a variable, the reason ("": unknown) and the source."""

    value: str
    site: str
    why: str
    source: str


class LintContext(NamedTuple):
    """The machine and the job for which variables are checked; None: not known.

    ``words``: directives and launcher options. ``versions``: of ``nccl`` and ``openmpi``, from the names of
    modules. ``known``: variables that the site file sets in an unusual way on purpose, with the reason.
    ``site_values``: what that file sets.
    """

    network: Network | None = None
    library: Library | None = None
    nodes: int | None = None
    words: tuple[Word, ...] | None = None
    versions: Mapping[str, tuple[int, ...]] = {}
    known: Mapping[str, str] = {}
    site_values: Mapping[str, SiteValue] = {}


def versions_of(modules: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the versions in names of the modules that are loaded in the end: ``NCCL/2.22.3-CUDA-12``."""
    loaded: list[str] = []
    for module in modules:
        if module in MODULE_RESETS:
            loaded = []
        elif module.startswith("-"):
            loaded = [other for other in loaded if module[1:] not in (other, other.partition("/")[0])]
        else:
            loaded.append(module)
    found = (_MODULE.match(module) for module in loaded)
    return {match[1].lower(): tuple(map(int, match[2].split("."))) for match in found if match}
