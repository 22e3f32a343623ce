"""Which site this machine is: known by a variable or by its full host name, never by half of one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.site.model import Detect


class Clue(NamedTuple):
    """One thing that a site says of its machine, what was found of it here, and whether that is it."""

    site: str
    expected: str
    found: str
    matches: bool


class Known(NamedTuple):
    """A site's name, and how its machine is known."""

    name: str
    detect: Detect


class Detection(NamedTuple):
    """The name of this machine's site, None where none matches, and every clue that was looked at."""

    site: str | None
    clues: tuple[Clue, ...]

    @property
    def matches(self) -> dict[str, str]:
        """The names of the sites that match, each with the reasons."""
        return _matches(self.clues)


def detect(sites: Iterable[Known], environment: Mapping[str, str], fqdn: str) -> Detection:
    """Look for the site whose variable is set, or whose host name this is.

    Raises:
        ConfigError: where several match; it says by what.
    """
    clues = tuple(clue for site in sites for clue in _clues(site, environment, fqdn.rstrip(".")))
    matches = _matches(clues)
    if len(matches) > 1:
        reasons = "; ".join(f"{name} by {reason}" for name, reason in matches.items())
        hint = "say which by --site, or set `batch.site`"
        raise ConfigError(Problem(f"this machine could be several sites: {reasons}", hint=hint))
    return Detection(next(iter(matches), None), clues)


def _clues(site: Known, environment: Mapping[str, str], fqdn: str) -> Iterator[Clue]:
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
