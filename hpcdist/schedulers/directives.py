"""What the directives of all batch systems have in common.

A site demands some and refuses others, and an experiment adds its own; what hpcdist writes itself is said by
a field of the experiment, never by a directive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hpcdist.errors import Path, Problem, did_you_mean
from hpcdist.plan import Directive, Plan
from hpcdist.site import Site

Pair = tuple[str, str | None]
"""A flag and its value, None for a bare flag."""

_PATH = ("batch", "directives")


class Language(NamedTuple):
    """How one scheduler's directives are written.

    ``read`` takes a text apart, into nothing where it is no directive; ``form`` says how to write one.
    ``fields``: what hpcdist writes itself, and the field to use instead; ``taken``: what nobody else may say,
    and why; ``free``: those of the fields that are open where hpcdist writes none. ``others``: all flags that
    it has beside these, None where that is not known; ``useless``: those that it does not take on this site,
    and why. ``abbreviates``: the scheduler takes the beginning of a flag for the flag. ``sentinel``: how a
    line of the script begins that it takes for a directive, wherever it stands; None where only the head
    of a script counts.
    """

    scheduler: str
    form: str
    read: Callable[[str], Sequence[Pair]]
    fields: Mapping[str, str]
    taken: Mapping[str, str]
    free: frozenset[str] = frozenset()
    abbreviates: bool = False
    others: frozenset[str] | None = None
    useless: Mapping[str, str] = {}
    sentinel: re.Pattern[str] | None = None

    def path(self, flag: str) -> tuple[str, ...]:
        """Return the field that says what this flag does."""
        return tuple(self.fields[flag].split(".")) if flag in self.fields else _PATH


def added(
    language: Language, plan: Plan, site: Site, own: Sequence[Directive], problems: list[Problem]
) -> Iterator[Directive]:
    """Yield what the site demands and what the experiment adds; note what is wrong with it."""
    values = {line.flag: line.value for line in own}
    always = ((text, f"site {site.name}: directives.mandatory") for text in site.directives.mandatory)
    for text, origin in (*always, *((word.text, word.origin) for word in plan.demanded)):
        for line in _read(language, text, origin, problems):
            if problem := _strange(language, line, site):
                problems.append(problem)
            elif line.flag not in values:
                yield line
            elif values[line.flag] != line.value:
                written = _written(line.flag, values[line.flag])
                message = f"site {site.name} demands {text}, but the plan says {written}"
                problems.append(Problem(message, language.path(line.flag)))
    for text in plan.extra_directives:
        for line in _read(language, text, plan.origins.get("directives", "batch.directives"), problems):
            if problem := _claimed(language, line.flag, values) or _strange(language, line, site):
                problems.append(problem)
            else:
                yield line


def forbidden(language: Language, lines: Sequence[Directive], site: Site) -> Iterator[Problem]:
    """Yield a problem for each flag that the site refuses."""
    for flag in sorted({line.flag for line in lines} & set(site.directives.forbidden)):
        origin = next(line.origin for line in lines if line.flag == flag)
        yield Problem(f"site {site.name} refuses {flag} ({origin})", language.path(flag))


def hidden(language: Language, plan: Plan) -> Iterator[Problem]:
    """Yield each text of the user or of the site in which the scheduler would find a directive."""
    texts: list[tuple[Path, str, str]] = [(("run", "cmd"), "the command", plan.command)]
    # The first line of a value stands behind the name of its variable.
    texts += [
        (("environment", "env_vars", item.name), item.name, item.value.partition("\n")[2])
        for item in plan.variables
    ]
    texts += [((), word.origin, word.text) for word in plan.setup]
    for path, name, text in texts:
        found = next((line for line in text.splitlines() if _is_directive(language, line)), None)
        if found is not None:
            message = f"{language.scheduler} would take a line of {name} for a directive: {found.strip()!r}"
            hint = "write it in `batch.directives`, or put another word in front of it on its line"
            yield Problem(message, path, hint)


def _is_directive(language: Language, line: str) -> bool:
    return language.sentinel is not None and language.sentinel.match(line) is not None


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


def _strange(language: Language, line: Directive, site: Site) -> Problem | None:
    """Say that the scheduler has no such flag, or none on this site; names of resources are the site's."""
    flag = line.flag.partition(" ")[0]
    theirs = line.origin.startswith("site ")
    path, origin = ((), f" ({line.origin})") if theirs else (_PATH, "")
    if flag in language.useless:
        return Problem(f"{flag} is of no use here{origin}", path, language.useless[flag])
    if language.others is None:
        return None
    flags = {known.partition(" ")[0] for known in (*language.fields, *language.taken, *language.others)}
    if flag in flags or flag in site.directives.known:
        return None
    near = did_you_mean(flag, flags)
    hint = near if near.startswith("did") else language.form
    hint += "; one that this site's own has belongs in `directives.known` of the site file"
    return Problem(f"{language.scheduler} has no flag {flag}{origin}", path, hint)


def _is_short(language: Language, flag: str, known: str) -> bool:
    return language.abbreviates and known.startswith(flag)
