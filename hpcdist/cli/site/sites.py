"""``hpcdist sites``: list, show, detect, check and create site files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

import click

from hpcdist.base import resources, source
from hpcdist.base.errors import Place
from hpcdist.cli import completion, show
from hpcdist.cli.messages import collect, print_problems
from hpcdist.cli.options import json_option, runs_dir_option, site_path_option
from hpcdist.loading import machine
from hpcdist.loading.sites import load_site, read_all
from hpcdist.site import provenance
from hpcdist.site.model import Site, Source
from hpcdist.site.published import Published


@click.group("sites")
def command() -> None:
    """List, show, detect, check and create site files."""


def _verb(name: str) -> Callable[[Callable[..., None]], click.Command]:
    return lambda function: command.command(name)(site_path_option(json_option(function)))


@_verb("list")
@click.option(
    "--old", metavar="MONTHS", type=click.IntRange(0, 1200),
    help="List only the pages behind each site that were last read, or are themselves from, "
    "more than so many months ago.",
)  # fmt: skip
def list_sites(site_path: tuple[str, ...], json: bool, old: int | None) -> None:
    """List all sites."""
    files = resources.site_files(resources.site_folders(site_path))
    sites, problems = read_all((files[name] for name in sorted(files)), load_site)
    print_problems(problems)
    if old is not None:
        _list_old(sites, old, json=json)
    elif json:
        keys = ("name", "description", "status", "scheduler", "launcher")
        show.as_json([{key: getattr(site, key) for key in keys} for site in sites])
    else:
        rows = ((site.name, site.scheduler, site.launcher, site.status, site.description) for site in sites)
        show.table(("site", "scheduler", "launcher", "status", "description"), rows)


def _list_old(sites: Iterable[Site], months: int, *, json: bool) -> None:
    from hpcdist.cli.jobs import runs

    today = datetime.fromtimestamp(runs.services().now(), tz=timezone.utc).date()
    day = provenance.months_before(today, months)
    found = [_page(site, page) for site in sites for page in provenance.read_before(site, day)]
    if json:
        show.as_json(found)
    elif found:
        show.table(
            ("site", "from", "read", "page"), ([item or "-" for item in row.values()] for row in found)
        )
    else:
        click.echo(f"no page was read before {day}")


def _page(site: Site, page: Source | Published) -> dict[str, str | None]:
    day = provenance.as_of(page)
    return {"site": site.name, "from": str(day) if day else None, "read": page.read, "where": page.where}


@_verb("show")
@click.argument("name", shell_complete=completion.sites)
def show_site(name: str, site_path: tuple[str, ...], json: bool) -> None:
    """Print a site file and its path."""
    folders = resources.site_folders(site_path)
    found = machine.named_site(name, folders, Place(name, 0, 0))
    if json:
        show.as_json(found.site)
    else:
        click.echo(f"# {found.file}\n{source.read_text(found.file)}", nl=False)


@_verb("detect")
def detect_site(site_path: tuple[str, ...], json: bool) -> None:
    """Show which site this machine is, and how it was detected."""
    search = machine.search(resources.site_folders(site_path))
    found = machine.detected_site(search)
    print_problems(found.problems)
    clues = search.detection.clues
    if json:
        known = [clue._asdict() for clue in clues]
        show.as_json({"name": found.site.name, "origin": found.origin, "clues": known})
    else:
        click.echo(f"{found.site.name} ({found.origin})\n")
        rows = [(clue.site, clue.expected, clue.found, "yes" if clue.matches else "no") for clue in clues]
        show.table(("site", "expected", "found", "matches"), rows)


@_verb("check")
@click.argument("file", metavar="FILE", shell_complete=completion.sites)
@click.option(
    "--measured",
    is_flag=True,
    help="First write the bandwidths that your last `doctor --job` measured there into it.",
)
@runs_dir_option
def check_site(file: str, site_path: tuple[str, ...], measured: bool, runs_dir: Path, json: bool) -> None:
    """Check a site, given by name or as a file, for problems.

    The exit code is 0 if it can be used, and 2 otherwise.
    """
    from hpcdist.cli.site import sites_check

    if measured:
        file = sites_check.write(file, site_path, runs_dir)
    if json:
        with collect(show.problems_as_json):
            sites_check.check(file, site_path)
    else:
        click.echo(f"ok: {sites_check.check(file, site_path)}")


@command.command("init")
@click.argument("name")
@click.option("--scheduler", metavar="NAME", help="Batch system to query; default: detected.")
@click.option(
    "-o", "--output", metavar="FILE",
    help="File to write; default: in the first directory of `sites path`; -: print it.",
)  # fmt: skip
@site_path_option
def init_site(name: str, scheduler: str | None, output: str | None, site_path: tuple[str, ...]) -> None:
    """Write a site file from the batch system's answers.

    Nodes, partitions and GPUs are queried; nothing is changed or submitted.
    """
    from hpcdist.cli.jobs import runs
    from hpcdist.cli.site import sites_init

    services = runs.services()
    sites_init.init(name, scheduler, output, site_path, sites_init.LoginNode(services.runner, services.now))


@_verb("path")
def path_of_sites(site_path: tuple[str, ...], json: bool) -> None:
    """Print the directories that are searched for site files.

    The first directory that has a site of the name is used.
    """
    folders = resources.site_folders(site_path)
    if json:
        show.as_json([{"folder": str(folder), "exists": folder.is_dir()} for folder in folders])
    else:
        show.table((), [(str(folder), "" if folder.is_dir() else "(does not exist)") for folder in folders])
