"""``hpcdist sites``: the machines that hpcdist knows."""

from __future__ import annotations

from collections.abc import Callable

import click

from hpcdist import resources, source
from hpcdist.cli import machine, show
from hpcdist.cli.options import json_option, site_path_option
from hpcdist.errors import Place


@click.group("sites")
def command() -> None:
    """List, show and detect sites."""


def _verb(name: str) -> Callable[[Callable[..., None]], click.Command]:
    return lambda function: command.command(name)(site_path_option(json_option(function)))


@_verb("list")
def list_sites(site_path: tuple[str, ...], json: bool) -> None:
    """List all sites."""
    files = resources.site_files(resources.site_folders(site_path))
    sites = machine.readable(files[name] for name in sorted(files))
    if json:
        keys = ("name", "description", "status", "scheduler", "launcher")
        show.as_json([{key: getattr(site, key) for key in keys} for site in sites])
    else:
        rows = ((site.name, site.scheduler, site.launcher, site.status, site.description) for site in sites)
        show.table(("site", "scheduler", "launcher", "status", "description"), rows)


@_verb("show")
@click.argument("name")
def show_site(name: str, site_path: tuple[str, ...], json: bool) -> None:
    """Print the file of a site, with where it lies."""
    folders = resources.site_folders(site_path)
    site = machine.named(name, folders, Place(name, 0, 0))
    if json:
        show.as_json(site)
    else:
        file = resources.site_file(name, folders)
        click.echo(f"# {file}\n{source.read_text(file)}", nl=False)


@_verb("detect")
def detect_site(site_path: tuple[str, ...], json: bool) -> None:
    """Tell which site this machine is, and what gave it away."""
    folders = resources.site_folders(site_path)
    found = machine.this(folders)
    clues = machine.detection_of(resources.site_files(folders).values()).clues
    if json:
        known = [clue._asdict() for clue in clues]
        show.as_json({"name": found.site.name, "origin": found.origin, "clues": known})
    else:
        click.echo(f"{found.site.name} ({found.origin})\n")
        rows = [(clue.site, clue.expected, clue.found, "yes" if clue.matches else "no") for clue in clues]
        show.table(("site", "is known by", "found here", "matches"), rows)


@_verb("path")
def path_of_sites(site_path: tuple[str, ...], json: bool) -> None:
    """Print the folders in which sites are looked for, the first that has a name wins."""
    folders = resources.site_folders(site_path)
    if json:
        show.as_json([{"folder": str(folder), "exists": folder.is_dir()} for folder in folders])
    else:
        show.table((), [(str(folder), "" if folder.is_dir() else "(not there)") for folder in folders])
