"""``hpcdist doctor --env``: check the NCCL and MPI variables of this shell or of a file."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import product

import click

from hpcdist.base import resources, source
from hpcdist.cli import show
from hpcdist.cli.messages import print_problems
from hpcdist.loading import machine, preferences
from hpcdist.loading.sites import load_site
from hpcdist.plan.values import Origin, Variable
from hpcdist.planner import lint
from hpcdist.planner.lint.finding import LintContext, LintFinding, versions_of
from hpcdist.site.fabric import JobFacts, text_of, variable_names
from hpcdist.site.model import Site
from hpcdist.site.nodes import libraries_of

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EXPORT = re.compile(r"\s*(?:(?:export|declare\s+-x)\s+)?(?=[A-Za-z_]\w*=)")
_BETWEEN = (";", "&&", "export")
"""Words that may separate two assignments of a line."""

_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAME = rf"((?:{'|'.join(lint.PREFIXES)})\w+)"
_SET = re.compile(
    rf"^\s*(?:setenv\W+|set\s+-\w+\s+)?{_NAME}\s+[^\s=]|(?<![\w$]){_NAME}[\"']?\]?\s*(?::?=(?!=)|[:,]\s)\s*\S"
)
"""A variable of interest that a line sets, in the syntax of any shell or tool."""

_ECHO = re.compile(r"\s*(?:echo|printf)\b")


def print_env(site: Site | None, file: str | None, *, json: bool) -> bool:
    """Print the findings about the variables of a file or this shell; return whether there is a problem."""
    found = lint_variables(site, file)
    if json:
        show.as_json([item._asdict() | {"origin": str(item.origin)} for item in found])
    else:
        for item in lint.summarized(found):
            click.echo(f"{item.severity}: {item}")
        if not found:
            click.echo("ok: no problems found")
    return any(item.severity != "note" for item in found)


def lint_variables(site: Site | None, file: str | None = None) -> list[LintFinding]:
    """Return the findings about the variables of a file, or of this shell."""
    lines = () if file is None else tuple(_lines(file))
    variables = _of_shell() if file is None else (item for line in lines for item in assigned(*line))
    found = _without_site_notes(lint.findings(variables, lint_context(site)), site)
    return [*found, *(item for line in lines for item in unread(*line))]


def site_of_env(name: str | None, site_path: tuple[str, ...]) -> Site | None:
    """Return the site of ``--site``, ``$HPCDIST_SITE`` or the config, else the detected one, if any."""
    folders = resources.site_folders(site_path)
    if named := machine.explicit_site(name, folders, preferences.read(os.environ)):
        return named.site
    found = machine.search(folders)
    print_problems(found.problems)
    return load_site(found.files[found.detection.site]) if found.detection.site else None


def lint_context(site: Site | None) -> LintContext:
    """Return what variables are checked against that any job on a site, or on any machine, may have."""
    modules = os.environ.get("LOADEDMODULES", "").split(":")
    if site is None:
        return LintContext(versions=versions_of(modules))
    libraries = libraries_of(site.node_types.values())
    library = libraries[0] if len(libraries) == 1 else None
    jobs = [
        JobFacts(nodes, library, inside, framework=framework)
        for nodes, inside, framework in product((1, 2), (False, True), (None, *site.conditional_frameworks()))
    ]
    return LintContext(
        network=site.fabric.network,
        library=library,
        versions=versions_of((*map(text_of, site.modules), *modules)),
        site_values=lint.constant_site_values(site, jobs),
    )


def _without_site_notes(found: Iterable[LintFinding], site: Site | None) -> Iterator[LintFinding]:
    """Yield the findings without notes on variables that the site file itself sets."""
    own = variable_names(site.fabric) if site else []
    yield from (item for item in found if item.severity != "note" or item.name not in own)


def _of_shell() -> Iterator[Variable]:
    for name, value in os.environ.items():
        yield Variable(name=name, value=value, origin=Origin("place", "environment"))


def _lines(file: str) -> Iterator[tuple[str, Origin]]:
    """Yield the lines, each with its origin."""
    label = "<stdin>" if file == "-" else file
    for number, line in enumerate(source.read_text(file).splitlines(), 1):
        yield line, Origin("place", f"{label}:{number}")


def assigned(line: str, origin: Origin) -> Iterator[Variable]:
    """Yield the variables that a line of assignments sets; values that bash would expand are unknown."""
    begin = _EXPORT.match(line)
    if not begin:
        return
    for word in _words(line[begin.end() :]):
        match = _ASSIGNED.fullmatch(word)
        if match:
            expands = "'" not in line and ("$" in match[2] or "`" in match[2])
            yield Variable(name=match[1], value=match[2], origin=origin, shell=expands)
        elif word not in _BETWEEN:
            return


def _words(text: str) -> list[str]:
    """Split a line as bash does, with `;` and operators as words; empty if a quote ends on another line."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        return [*lexer]
    except ValueError:
        return []


def unread(line: str, origin: Origin) -> Iterator[LintFinding]:
    """Yield a finding for each variable of interest that a line sets in a way that `assigned` cannot read."""
    read = {item.name for item in assigned(line, origin)}
    text = "" if _ECHO.match(line) else _COMMENT.sub("", line)
    for name in dict.fromkeys(match[1] or match[2] for match in _SET.finditer(text)):
        if name not in read:
            happens = f"`{line.strip()}` is not a plain assignment, so the value was not checked"
            write = f"write `export {name}=VALUE` on a line of its own"
            yield LintFinding(name, None, origin, happens, write, "hpcdist doctor --help")
