"""Detects which site this machine is, by a variable or by its full host name, never by a part of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.site.model import Detect


class Clue(NamedTuple):
    """One condition of a site's ``detect``, the value found on this machine, and whether it matches."""

    site: str
    expected: str
    found: str
    matches: bool


class Candidate(NamedTuple):
    """A site's name, and its ``detect`` section."""

    name: str
    detect: Detect


class Detection(NamedTuple):
    """The name of this machine's site, None if none matches, and every clue that was checked."""

    site: str | None
    clues: tuple[Clue, ...]

    @property
    def matches(self) -> dict[str, str]:
        """The names of the sites that match, each with the reasons."""
        return _matches(self.clues)


def detect(sites: Iterable[Candidate], environment: Mapping[str, str], fqdn: str) -> Detection:
    """Find the site whose variable is set, or whose host name matches.

    Raises:
        ConfigError: if several match, with their clues.
    """
    clues = tuple(clue for site in sites for clue in _clues(site, environment, fqdn.rstrip(".")))
    matches = _matches(clues)
    if len(matches) > 1:
        reasons = "; ".join(f"{name} by {reason}" for name, reason in matches.items())
        hint = "choose one with --site, or set `batch.site`"
        raise ConfigError(Problem(f"this machine could be several sites: {reasons}", hint=hint))
    return Detection(next(iter(matches), None), clues)


def _clues(site: Candidate, environment: Mapping[str, str], fqdn: str) -> Iterator[Clue]:
    for name, pattern in site.detect.env.items():
        value = environment.get(name)
        found = f"{name} is not set" if value is None else f"{name}={value}"
        yield Clue(site.name, f"{name}={pattern}", found, _fits(pattern, value))
    for pattern in site.detect.fqdn:
        yield Clue(site.name, f"host name {pattern}", f"host name {fqdn}", _fits(pattern, fqdn.lower()))


def _fits(pattern: str, value: str | None) -> bool:
    return value is not None and re.fullmatch(pattern, value) is not None


def _matches(clues: Iterable[Clue]) -> dict[str, str]:
    found: dict[str, str] = {}
    for clue in clues:
        if clue.matches:
            found[clue.site] = f"{found[clue.site]} and {clue.found}" if clue.site in found else clue.found
    return found
