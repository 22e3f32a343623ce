"""Problems as CI systems read them: workflow commands of GitHub, and SARIF 2.1.0.

Sources: docs.github.com, "Workflow commands for GitHub Actions"; docs.oasis-open.org/sarif/sarif/v2.1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from hpcdist import __version__
from hpcdist.base.errors import Problem, dotted
from hpcdist.cli import show

_ESCAPES: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES: Final = _ESCAPES | {":": "%3A", ",": "%2C"}
_LEVELS: Final = {"note": "notice"}


def as_github(problems: Iterable[Problem]) -> None:
    """Print each problem as a command that annotates its line in a pull request."""
    for problem in problems:
        place = problem.place
        fields = {"file": place.file, "line": place.line, "col": place.column} if place and place.line else {}
        named = {"title": dotted(problem.path)} if problem.path else {}
        properties = ",".join(
            f"{key}={_escaped(value, _IN_PROPERTIES)}" for key, value in {**fields, **named}.items()
        )
        level = _LEVELS.get(problem.severity, problem.severity)
        click.echo(f"::{level} {properties}".rstrip() + f"::{_escaped(_text(problem), _ESCAPES)}")


def as_sarif(problems: Sequence[Problem]) -> None:
    """Print the problems as one log, with the rules of job scripts that they name, and their sources."""
    from hpcdist.importers.job_scripts.rules import RULES

    names = dict.fromkeys(map(_rule, problems))
    rules = [
        {"id": name} | ({"help": {"text": RULES[name].source}} if name in RULES else {}) for name in names
    ]
    driver = {"name": "hpcdist", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [*map(_result, problems)]}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    show.as_json({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _rule(problem: Problem) -> str:
    return dotted(problem.path) or problem.severity


def _result(problem: Problem) -> dict[str, Any]:
    found = {"ruleId": _rule(problem), "level": problem.severity, "message": {"text": _text(problem)}}
    if not problem.place or not problem.place.line:
        return found
    region = {"startLine": problem.place.line, "startColumn": problem.place.column}
    physical = {"artifactLocation": {"uri": problem.place.file}, "region": region}
    return {**found, "locations": [{"physicalLocation": physical}]}


def _text(problem: Problem) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message


def _escaped(value: object, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in str(value))


FORMATS: Final[Mapping[str, Callable[[list[Problem]], None]]] = {"github": as_github, "sarif": as_sarif}
