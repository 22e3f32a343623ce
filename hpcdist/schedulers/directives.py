"""What the directives of all batch systems have in common.

A site demands some and refuses others, and an experiment adds its own; what hpcdist writes itself is said by
a field of the experiment, never by a directive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hpcdist.errors import Problem
from hpcdist.plan import Directive, Plan
from hpcdist.site import Site

Pair = tuple[str, str | None]
"""A flag and its value, None for a bare flag."""

_PATH = ("batch", "directives")


class Language(NamedTuple):
    """How one scheduler's directives are written.

    ``read`` takes a text apart, into nothing where it is no directive; ``form`` says how to write one.
    ``fields``: what hpcdist writes itself, and the field to use instead; ``taken``: what nobody else may say,
    and why; ``free``: those of the fields that are open where hpcdist writes none. ``abbreviates``: the
    scheduler takes the beginning of a flag for the flag.
    """

    scheduler: str
    form: str
    read: Callable[[str], Sequence[Pair]]
    fields: Mapping[str, str]
    taken: Mapping[str, str]
    free: frozenset[str] = frozenset()
    abbreviates: bool = False

    def path(self, flag: str) -> tuple[str, ...]:
        """Return the field that says what this flag does."""
        return tuple(self.fields[flag].split(".")) if flag in self.fields else _PATH


def added(
    language: Language, plan: Plan, site: Site, own: Sequence[Directive], problems: list[Problem]
) -> Iterator[Directive]:
    """Yield what the site demands and what the experiment adds; note what is wrong with it."""
    values = {line.flag: line.value for line in own}
    for text in site.directives.mandatory:
        for line in _read(language, text, f"site {site.name}: directives.mandatory", problems):
            if line.flag not in values:
                yield line
            elif values[line.flag] != line.value:
                written = _written(line.flag, values[line.flag])
                message = f"site {site.name} demands {text}, but the plan says {written}"
                problems.append(Problem(message, language.path(line.flag)))
    for text in plan.extra_directives:
        for line in _read(language, text, plan.origins.get("extra_directives", "batch.directives"), problems):
            if problem := _claimed(language, line.flag, values):
                problems.append(problem)
            else:
                yield line


def forbidden(language: Language, lines: Sequence[Directive], site: Site) -> Iterator[Problem]:
    """Yield a problem for each flag that the site refuses."""
    for flag in sorted({line.flag for line in lines} & set(site.directives.forbidden)):
        origin = next(line.origin for line in lines if line.flag == flag)
        yield Problem(f"site {site.name} refuses {flag} ({origin})", language.path(flag))


def _read(language: Language, text: str, origin: str, problems: list[Problem]) -> Iterator[Directive]:
    pairs = language.read(text)
    if not pairs:
        problems.append(Problem(f"{text!r} is not a directive of {language.scheduler}", _PATH, language.form))
    for flag, value in pairs:
        yield Directive(flag=flag, value=value, origin=origin)


def _written(flag: str, value: str | None) -> str:
    if value is None:
        return flag
    return f"{flag}{'=' if ' ' in flag or flag.startswith('--') else ' '}{value}"


def _claimed(language: Language, flag: str, own: Mapping[str, str | None]) -> Problem | None:
    """Say what to use instead of a flag that hpcdist sets."""
    if flag in language.free and flag not in own:
        return None
    for known, field in language.fields.items():
        if flag == known or (flag not in language.fields and _is_short(language, flag, known)):
            return Problem(f"{flag} is set by hpcdist", _PATH, f"use `{field}`")
    for known, reason in language.taken.items():
        if flag == known or _is_short(language, flag, known):
            return Problem(f"{flag} is set by hpcdist", _PATH, reason)
    return None


def _is_short(language: Language, flag: str, known: str) -> bool:
    return language.abbreviates and known.startswith(flag)
