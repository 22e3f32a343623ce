"""A finding of the lint, and what variables are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.documents.text_checks import MODULE_RESETS
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.values import Origin, Variable, Word, joined
from hpcdist.site.conditions import JobFacts, Library
from hpcdist.site.fabric import Network, ResolvedSetting, resolve_settings
from hpcdist.site.model import Site
from hpcdist.spelling import closest

# --- How the names begin that the lint knows, and beginnings that are most likely misspelt ones

PREFIXES: Final = (
    "NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_", "UCX_", "OMPI_MCA_", "PRTE_MCA_",
    "PMIX_MCA_", "CCL_", "RDMAV_", "HOROVOD_",
)  # fmt: skip
"""The prefixes of the variables that the lint knows."""

_MISSPELT: Final = ("NCCL_", "HOROVOD_")
"""The others are short, or two words."""


def misspelt_prefix(name: str) -> str | None:
    """Return the prefix that the first word of a name misspells; None for a good one, and for another word.

    One letter too few or too many; HCCL_ and MCCL_ are the prefixes of other libraries.
    """
    begin, underscore, _ = name.partition("_")
    if not underscore or name.startswith(PREFIXES):
        return None
    near = [prefix for prefix in _MISSPELT if len(prefix) != len(begin) + 1]
    return next((prefix for prefix in near if closest(begin, [prefix[:-1]], 1)), None)


# --- A finding of the lint, and what variables are checked against

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


# --- The values that a site file sets for a job, and the values of users that differ from them


def site_values_of(site: Site, job: JobFacts) -> dict[str, SiteValue]:
    """Return the values that the site always sets: none that depends on a file being there."""
    items = (item for item in resolve_settings(site.fabric, job) if item.found is None and item.links is None)
    return {item.name: _site_value(item, site) for item in items}


def constant_site_values(site: Site, jobs: Iterable[JobFacts]) -> dict[str, SiteValue]:
    """Return the values that the site sets equally for all these jobs."""
    first, *others = (site_values_of(site, job) for job in jobs)
    return {name: item for name, item in first.items() if all(other.get(name) == item for other in others)}


def _site_value(item: ResolvedSetting, site: Site) -> SiteValue:
    why = site.fabric.known.get(item.name, item.why)
    return SiteValue(text_of(item.value), site.name, why, _source(item.key, site))


def _source(key: str, site: Site) -> str:
    """Return the source of a key of the site file: that of its longest documented prefix."""
    sources = {prefix: source.where for source in reversed(site.sources) for prefix in source.of}
    fitting = [prefix for prefix in sources if f"{key}.".startswith(f"{prefix}.")]
    return sources[max(fitting, key=len)] if fitting else f"site {site.name}: {key}"


def differing_values(values: Mapping[str, Variable], context: LintContext) -> Iterator[Finding]:
    """Yield the user's values that differ from the site's."""
    for name, variable in values.items():
        own = context.site_values.get(name)
        if own is None or variable.origin.kind in ("site", "default"):
            continue
        if variable.value.strip().lower() != own.value.lower():
            happens = f"site {own.site} sets it to {own.value}" + (f": {own.why}" if own.why else "")
            yield finding_on(variable, happens, "remove it, unless you know better", own.source)
