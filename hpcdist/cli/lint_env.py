"""``hpcdist lint-env``: what is odd about the variables of this shell, or of a file."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator

import click

from hpcdist import lint, preferences, resources, source
from hpcdist.cli import completion, machine, show
from hpcdist.cli.options import json_option, site_option, site_path_option
from hpcdist.fabric import Surroundings, names
from hpcdist.lint import Around, Finding, versions_of
from hpcdist.plan import Variable
from hpcdist.site import Site, libraries_of

FOUND = 3
"""The exit code where something is odd; notes alone are 0."""

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EXPORT = re.compile(r"\s*(?:export\s+)?(?=[A-Za-z_]\w*=)")


@click.command("lint-env")
@click.argument("file", metavar="[FILE]", required=False, shell_complete=completion.files)
@site_option
@site_path_option
@json_option
def command(file: str | None, site: str | None, site_path: tuple[str, ...], json: bool) -> None:
    """Tell what NCCL and MPI do with this shell's variables.

    With FILE (- for stdin) its lines NAME=VALUE and export NAME=VALUE are judged instead. The exit code is 0
    where all is well and 3 where something is odd; a note changes nothing.
    """
    chosen = _site(site, site_path)
    found = judged(chosen, file)
    if json:
        show.as_json([item._asdict() for item in found])
    else:
        for item in lint.summed(found):
            click.echo(f"{item.severity}: {item}")
        if not found:
            click.echo("ok: nothing is odd")
    if any(item.severity != "note" for item in found):
        raise click.exceptions.Exit(FOUND)


def judged(site: Site | None, file: str | None = None) -> list[Finding]:
    """Return what is odd about the variables of a file, or of this shell."""
    return [*_of_no_centre(lint.findings(_variables(file), _around(site)), site)]


def _site(name: str | None, site_path: tuple[str, ...]) -> Site | None:
    """Return the site of ``--site``, ``$HPCDIST_SITE`` or the config, else this machine's if known."""
    folders = resources.site_folders(site_path)
    if said := machine.said(name, folders, preferences.read(os.environ)):
        return said.site
    files = resources.site_files(folders)
    found = machine.detection_of(files.values()).site
    return machine.load_site(files[found]) if found else None


def _around(site: Site | None) -> Around:
    modules = os.environ.get("LOADEDMODULES", "").split(":")
    if site is None:
        return Around(versions=versions_of(modules))
    libraries = libraries_of(site.node_types.values())
    library = libraries[0] if len(libraries) == 1 else None
    jobs = [Surroundings(nodes, library, inside) for nodes in (1, 2) for inside in (False, True)]
    return Around(
        network=site.fabric.network,
        library=library,
        versions=versions_of((*site.modules, *modules)),
        given=lint.always_given(site, jobs),
    )


def _of_no_centre(found: Iterable[Finding], site: Site | None) -> Iterator[Finding]:
    """Yield the findings without notes on what the centre itself advises."""
    own = names(site.fabric) if site else []
    yield from (item for item in found if item.severity != "note" or item.name not in own)


def _variables(file: str | None) -> Iterator[Variable]:
    if file is None:
        for name, value in os.environ.items():
            yield Variable(name=name, value=value, origin="environment")
        return
    label = "<stdin>" if file == "-" else file
    for number, line in enumerate(source.read_text(file).splitlines(), 1):
        yield from assigned(line, f"{label}:{number}")


def assigned(line: str, origin: str) -> Iterator[Variable]:
    """Yield the variables that a line sets; other lines set none, and what bash expands stays unknown."""
    begin = _EXPORT.match(line)
    if not begin:
        return
    try:
        words = shlex.split(line[begin.end() :], comments=True)
    except ValueError:  # a quote that ends on another line
        return
    for word in words:
        match = _ASSIGNED.fullmatch(word)
        if not match:
            return
        expands = "'" not in line and ("$" in match[2] or "`" in match[2])
        make = Variable.raw if expands else _plain
        yield make(match[1], match[2], origin)


def _plain(name: str, value: str, origin: str) -> Variable:
    return Variable(name=name, value=value, origin=origin)
