"""A finding of the lint, and what variables are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from hpcdist.base.spelling import closest
from hpcdist.base.text_checks import MODULE_RESETS
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.values import Origin, Variable, Word, joined
from hpcdist.site.fabric import JobFacts, Library, Network, ResolvedSetting, resolve_settings
from hpcdist.site.model import Site

# --- The prefixes of the names that the lint knows, and likely misspellings of these prefixes

PREFIXES: Final = (
    "NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_", "UCX_", "OMPI_MCA_", "PRTE_MCA_",
    "PMIX_MCA_", "CCL_", "RDMAV_", "HOROVOD_",
)  # fmt: skip
"""The prefixes of the variables that the lint knows."""

INTERFACES: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""The variables that choose the network interface of a library."""

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


class LintFinding(NamedTuple):
    """What is wrong or unusual about a variable; ``value`` is None if not set, or for several variables.

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
) -> LintFinding:
    """Return a finding about a variable."""
    shown = value or variable.value
    return LintFinding(variable.name, shown, variable.origin, happens, write, source, severity)


def summarized(found: Sequence[LintFinding]) -> Iterator[LintFinding]:
    """Yield the warnings, then the notes: equal ones merged, none for a variable with a warning."""
    graver = [item for item in found if item.severity != "note"]
    warned = {item.name for item in graver}
    by_text: dict[tuple[str, str], list[LintFinding]] = {}
    for item in found:
        if item.severity == "note" and item.name not in warned:
            by_text.setdefault((item.happens, item.write), []).append(item)
    yield from graver
    yield from map(_merged, by_text.values())


def _merged(notes: Sequence[LintFinding]) -> LintFinding:
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
    """Return the values that the site always sets, whichever files exist."""
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
    """Return the source of a key of the site file: its longest documented prefix has it."""
    sources = {prefix: source.where for source in reversed(site.sources) for prefix in source.of}
    fitting = [prefix for prefix in sources if f"{key}.".startswith(f"{prefix}.")]
    return sources[max(fitting, key=len)] if fitting else f"site {site.name}: {key}"


def differing_values(values: Mapping[str, Variable], context: LintContext) -> Iterator[LintFinding]:
    """Yield the user's values that differ from the site's."""
    for name, variable in values.items():
        own = context.site_values.get(name)
        if own is None or variable.origin.kind in ("site", "default"):
            continue
        if variable.value.strip().lower() != own.value.lower():
            happens = f"site {own.site} sets it to {own.value}" + (f": {own.why}" if own.why else "")
            yield finding_on(variable, happens, "remove it, unless you know better", own.source)


# --- Kinds of values: each knows what the program that reads a variable does with a wrong one

_NUMBER: Final = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")
_SIZE: Final = re.compile(r"([0-9]+)([kKmMgG])(?:i?[bB])?")
_POWERS: Final = {"k": 10, "m": 20, "g": 30}
_YES: Final = frozenset({"y", "yes", "t", "true", "on", "enable", "enabled"})
_NO: Final = frozenset({"n", "no", "f", "false", "off", "disable", "disabled"})


class ValueProblem(NamedTuple):
    """The effect of a wrong value, and what to write instead."""

    happens: str
    write: str


class Kind(Protocol):
    """The values that a variable may have."""

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        ...


def read(text: str, base: int = 0) -> tuple[int, str]:
    """Return what C's strtoll makes of a text, and the rest that it leaves; 0 and all of it for no number.

    Base 0 takes ``0x10`` and reads ``010`` as octal; base 10 neither.
    """
    match = _NUMBER.match(text)
    if not match:
        return 0, text
    sign, digits = match.groups()
    if digits[:2].lower() == "0x":
        number, rest = (int(digits, 16), "") if base == 0 else (0, digits[1:])
    elif base == 0 and digits.startswith("0"):
        octal = re.match("[0-7]*", digits)
        seen = octal[0] if octal else ""
        number, rest = int(seen, 8), digits[len(seen) :]
    else:
        number, rest = int(digits), ""
    return -number if sign == "-" else number, rest + text[match.end() :]


class Integer(NamedTuple):
    """A whole number from ``low`` to ``high`` (None: no end).

    ``strict``: the program ends with an error at any other text; ``needs_digits``: only at one that
    does not begin with a digit. ``beyond``: the effect outside the range; ``also``: other allowed numbers.
    """

    low: int | None = None
    high: int | None = None
    program: str = "NCCL"
    beyond: str = ""
    also: tuple[int, ...] = ()
    base: int = 0
    strict: bool = False
    needs_digits: bool = False

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        if not value.strip():
            return self._of_nothing()
        number, rest = read(value, self.base)
        if rest.strip() or not -(2**63) <= number < 2**63:
            return self._misread(value, number, rest)
        if self.base == 0 and value.strip().lstrip("+-").isdecimal() and number != int(value):
            happens = f"{self.program} reads a number with a leading 0 as octal, here as {number}"
            return ValueProblem(happens, f"write {int(value)}")
        if number in self.also or self._within(number):
            return None
        happens = f"{self.program} documents {self.range} and does not check it"
        return ValueProblem(self.beyond or happens, f"write a number that is {self.range}")

    @property
    def range(self) -> str:
        """The allowed numbers, in words."""
        if self.low is None or self.high is None:
            return "a whole number" if self.low is None else f"{self.low} or more"
        return f"{self.low} to {self.high}" if self.high - self.low > 1 else f"{self.low} or {self.high}"

    def _within(self, number: int) -> bool:
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def _of_nothing(self) -> ValueProblem | None:
        if self.program == "NCCL":  # it treats an empty value as unset
            return None
        ends = self.strict or self.needs_digits
        happens = "ends with an error at an empty value" if ends else "reads an empty value as 0"
        return ValueProblem(f"{self.program} {happens}", "remove it, or write a number")

    def _misread(self, value: str, number: int, rest: str) -> ValueProblem:
        if not -(2**63) <= number < 2**63:
            return ValueProblem(
                f"{self.program} cannot hold the number and uses its default", self._advice(value)
            )
        if self.strict or (self.needs_digits and rest == value):
            return ValueProblem(
                f"{self.program} ends with an error: this is no whole number", self._advice(value)
            )
        ignored = (
            "it does not begin with a digit"
            if rest == value
            else f"what follows, {rest.strip()!r}, is ignored"
        )
        return ValueProblem(
            f"{self.program} reads {number} without a warning: {ignored}", self._advice(value)
        )

    def _advice(self, value: str) -> str:
        word = value.strip().lower()
        size = _SIZE.fullmatch(word)
        if size and self._within(number := int(size[1]) << _POWERS[size[2]]):
            return f"write {number}"
        if word in _YES and self._within(1):
            return "write 1"
        return "write 0" if word in _NO and self._within(0) else f"write a number, {self.range}"


class OneOf(NamedTuple):
    """One of some words; ``exact``: the case of letters counts. ``otherwise``: what happens for another."""

    words: Sequence[str]
    otherwise: str
    program: str = "NCCL"
    exact: bool = False

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        if value in self.words or (not self.exact and value.lower() in map(str.lower, self.words)):
            return None
        happens = f"{self.program} {self.otherwise}"
        meant = [word for word in self.words if word.lower() == value.strip().lower()]
        if meant:
            return ValueProblem(f"{happens}, since its values are case-sensitive", f"write {meant[0]}")
        return ValueProblem(happens, f"write {listed(self.words)}")


class Level(NamedTuple):
    """How far apart a GPU and another device may be: a word in capitals, or one of NCCL's old numbers.

    NCCL compares by strcmp; 0 is LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS (``ncclGetLevel`` of
    ``src/graph/paths.cc``). ``words`` are from the guide; the code knows some more.
    """

    words: tuple[str, ...]

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        if value in (*self.words, "NVL", "NVB", "C2C", "P2C", "PXN") or re.fullmatch("[0-9]", value):
            return None
        capital = value.strip().upper()
        happens = "NCCL ignores it silently: levels are words in capital letters"
        return ValueProblem(happens, f"write {capital if capital in self.words else listed(self.words)}")


class Listed(NamedTuple):
    """Words with commas between; ``^`` before the first one excludes them all."""

    words: tuple[str, ...]
    otherwise: str
    program: str = "NCCL"

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        known = {word.lower() for word in self.words}
        unknown = [word for word in value.removeprefix("^").split(",") if word.lower() not in known]
        if not unknown:
            return None
        return ValueProblem(
            f"{self.program} {self.otherwise.format(repr(unknown[0]))}",
            f"write some of {', '.join(self.words)}, with commas and no blanks between",
        )


class ByFunction(NamedTuple):
    """Algorithms or protocols, since NCCL 2.24 also by function: ``Ring;allreduce:^Tree``.

    A wrong word makes the start fail (``parseList`` of ``src/graph/tuning.cc``).
    """

    words: tuple[str, ...]

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        known = {word.lower() for word in self.words}
        for words in parts(value):
            for word in words.removeprefix("^").split(","):
                if word.lower() not in known:
                    happens = (
                        f"NCCL does not know {word!r} and ends with an error when it starts (since 2.24)"
                    )
                    return ValueProblem(
                        happens, f"write some of {', '.join(self.words)}, with commas between"
                    )
        return None


def parts(value: str) -> list[str]:
    """Return the lists of a value such as ``Ring;allreduce:^Tree``, without the names of functions."""
    return [part.rpartition(":")[2] for part in value.split(";") if part]


class TextShape(NamedTuple):
    """A text of a certain shape; ``like`` shows one. Without a pattern it is any text, also an empty one."""

    pattern: str = ""
    like: str = ""
    otherwise: str = ""
    program: str = "NCCL"

    def wrong(self, value: str) -> ValueProblem | None:
        """Return what is wrong with a value, None for a good one."""
        if not self.pattern or re.fullmatch(self.pattern, value):
            return None
        return ValueProblem(f"{self.program} {self.otherwise}", f"write {self.like}")


def listed(words: Sequence[str]) -> str:
    """Write words as a choice: ``A, B or C``."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


TEXT: Final = TextShape()
BOOLEAN: Final = Integer(0, 1)
ANY_INTEGER: Final = Integer()
BYTES: Final = Integer(0)
POSITIVE: Final = Integer(1)
THREE: Final = Integer(0, 2)


# --- An entry of the tables: a variable, its allowed values and the source

GUIDE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

Use = Literal["configuration", "debugging", "diagnosis", "undocumented"]
"""What a variable is for. ``debugging``: only a work-around; ``diagnosis``: it makes a program print more."""


class Entry(NamedTuple):
    """One variable.

    ``default``: the documented one, "" where it is unknown or found at run time; ``since``: the version that
    introduced it, "" where unknown. ``gone``: since when it is deprecated or no longer read; ``successor``:
    what to set instead, "" for nothing. ``never``: why it must never be set by hand.
    """

    name: str
    kind: Kind = TEXT
    default: str = ""
    since: str = ""
    use: Use = "configuration"
    gone: str = ""
    successor: str = ""
    never: str = ""
    source: str = ""

    @property
    def where(self) -> str:
        """The source: the NCCL guide unless another is named."""
        return self.source or f"{GUIDE}#{self.name.lower().replace('_', '-')}"
