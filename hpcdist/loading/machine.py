"""The choice of the machine: the site that the user names, else the one that is detected."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from hpcdist.base import resources
from hpcdist.base.errors import ConfigError, Place, Problem, located, preceded_by, unknown
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.loading.preferences import Preferences
from hpcdist.loading.sites import load_detect, load_site, read_all
from hpcdist.schedulers import INSTALLATIONS, schedulers
from hpcdist.schedulers.base import Installation
from hpcdist.site.detection import Detection, detect
from hpcdist.site.model import Site


class Machine(NamedTuple):
    """A site, how it was chosen, its file, and the warnings and notes of the choice."""

    site: Site
    origin: str
    file: Path
    problems: tuple[Problem, ...] = ()


class SiteSearch(NamedTuple):
    """All site files by name, the detection of this machine's site, and warnings about invalid files."""

    files: Mapping[str, Path]
    detection: Detection
    problems: tuple[Problem, ...]


Here = Callable[[Sequence[Path]], Machine]
"""Returns this machine's site, among the files of these folders."""


def here(environment: Mapping[str, str] = os.environ) -> Here:
    """Return a function that finds this machine's site, once for the same folders."""
    found: dict[tuple[Path, ...], Machine] = {}

    def find(folders: Sequence[Path]) -> Machine:
        key = (*folders,)
        if key not in found:
            found[key] = detected_site(search(folders, environment), environment)
        return found[key]

    return find


def choose(  # noqa: PLR0913, PLR0917 - where a site may be named, and how it is found
    option: str | None,
    folders: Sequence[Path],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
    environment: Mapping[str, str] = os.environ,
    find: Here | None = None,
) -> Machine:
    """Return the site that the user names (`explicit_site`), else this machine's (`detected_site`).

    ``find``: a function from `here` with this environment, used before.

    Raises:
        ConfigError: when there is no site of that name, its file is invalid, or several sites match.
    """
    named = explicit_site(option, folders, own, in_file, environment)
    return named or (find or here(environment))(folders)


def explicit_site(
    option: str | None,
    folders: Sequence[Path],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
    environment: Mapping[str, str] = os.environ,
) -> Machine | None:
    """Return the site of ``--site``, else of the file, ``$HPCDIST_SITE`` or the config; None if none is set.

    Raises:
        ConfigError: when there is no site of that name, its file is invalid, or the config has a relative
        path.
    """
    if option == "":
        where = Place("--site=", 0, 0)
        raise ConfigError(Problem("the value is empty", hint="name a site, or omit the option", place=where))
    places = (
        (option, Place(f"--site={option}", 0, 0)),
        in_file,
        (environment.get("HPCDIST_SITE"), Place("$HPCDIST_SITE", 0, 0)),
    )
    for name, place in places:
        if name and place:
            return named_site(name, folders, place)
    configured, place = _configured(own), own.place("site")
    return named_site(configured, folders, place) if configured and place else None


def _configured(own: Preferences) -> str | None:
    """Return the site of the config, which must not be a relative path."""
    site = own.config.site
    if site and resources.is_file_name(site) and not site.startswith(("/", "~")):
        message = f"{site!r} is relative to the current folder"
        raise ConfigError(own.document.locate(Problem(message, ("site",), "write an absolute path")))
    return site


def named_site(name: str, folders: Sequence[Path], place: Place) -> Machine:
    """Return the site of this name, which was read at this place.

    Raises:
        ConfigError: when there is no site of that name, or its file is invalid.
    """
    with located(lambda problem: problem if problem.place else problem._replace(place=place)):
        file = resources.site_file(name, folders)
        return Machine(load_site(file), origin(place), file)


def origin(place: Place) -> str:
    """Return a place as the text of an origin; an option without its value, which may be long."""
    return f"{place.file}:{place.line}" if place.line else place.file.partition("=")[0]


def search(folders: Sequence[Path], environment: Mapping[str, str] = os.environ) -> SiteSearch:
    """Compare this machine with the ``detect`` section of every site.

    Raises:
        ConfigError: when several sites match.
    """
    from socket import getfqdn  # slow to import, needed only here

    files = resources.site_files(folders)
    known, problems = read_all(files.values(), load_detect)
    with preceded_by(problems):
        return SiteSearch(files, detect(known, environment, getfqdn()), problems)


def detected_site(found: SiteSearch, environment: Mapping[str, str] = os.environ) -> Machine:
    """Return this machine's site: detected, else the site of the batch system here, else ``local``.

    Raises:
        ConfigError: when the site's file is invalid, or there is no site of that name.
    """
    if name := found.detection.site:
        return _site_of(name, f"detected: {found.detection.matches[name]}", found)
    if (name := batch_system(environment, found.files)) and (known := _installation(name)):
        return _site_of(name, f"this is no known site, but there is {known.command}", found)
    notes = tuple(Problem(text, severity="note") for text in _useless_commands(environment))
    why = "this is no known site, and no batch system is set up here"
    return _site_of("local", why, found._replace(problems=(*found.problems, *notes)))


def _site_of(name: str, why: str, found: SiteSearch) -> Machine:
    if name not in found.files:
        raise ConfigError(unknown("site", name, found.files))
    with preceded_by(found.problems):
        return Machine(load_site(found.files[name]), why, found.files[name], found.problems)


def batch_system(
    environment: Mapping[str, str] = os.environ, sites: Mapping[str, Path] | None = None
) -> str | None:
    """Return the scheduler, with a site of its name, whose batch system is set up here; else None.

    Plug-ins are looked for where no built-in one is set up, and only where a site is not a shipped one: it
    takes 20 ms, and no shipped site is a plug-in's.
    """
    candidates = (name for name in _schedulers(sites) if sites is None or name in sites)
    return next((name for name in candidates if _is_set_up(name, environment)), None)


def _schedulers(sites: Mapping[str, Path] | None) -> Iterator[str]:
    yield from INSTALLATIONS
    shipped = resources.shipped("site_configs")
    if sites is None or any(file.parent != shipped for file in sites.values()):
        yield from (name for name in schedulers.names() if name not in INSTALLATIONS)


def _installation(name: str) -> Installation | None:
    """Return how a batch system is detected, without importing a built-in scheduler."""
    return INSTALLATIONS.get(name) or schedulers.get(name).installation


def _is_set_up(name: str, environment: Mapping[str, str]) -> bool:
    known = _installation(name)
    return known is not None and is_set_up(known, environment)


def is_set_up(known: Installation, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a batch system is set up here: by a variable or a file, else by a command's answer."""
    command = shutil.which(known.command, path=environment.get("PATH"))
    if command is None:
        return False
    prefix = Path(command).resolve().parents[1]
    if environment.get(known.variable) or any((prefix / file).exists() for file in known.files):
        return True
    if known.question is None:
        return False
    from hpcdist.base.shell import Shell  # starts a process, only if no file is found

    return known.is_confirmed_by(Shell(environment).run(known.question))


def _useless_commands(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each installed command of a built-in batch system that is not set up."""
    systems = sorted(INSTALLATIONS.values(), key=lambda system: system.command)
    for command, members in groupby(systems, key=lambda system: system.command):
        if shutil.which(command, path=environment.get("PATH")):
            titles = " or ".join(system.title for system in members)
            yield f"there is {command}, but no {titles} is set up for it, so the site is local"


def with_working_launcher(
    machine: Machine, framework: str | None, environment: Mapping[str, str] = os.environ
) -> Machine:
    """Return the machine; without a batch system, and if its launcher is missing, with an installed one."""

    def is_there(launcher: Launcher) -> bool:
        return shutil.which(launcher.program, path=environment.get("PATH")) is not None

    if schedulers.get(machine.site.scheduler).is_batch_system:
        return machine
    own = launchers.get(machine.site.launcher)
    others = [launchers.get(name) for name in own.substitutes]
    if not others or is_there(own):
        return machine
    fitting = (
        item for item in others if is_there(item) and (not item.frameworks or framework in item.frameworks)
    )
    name = next(fitting, others[-1]).name
    note = Problem(f"there is no {own.program} on PATH, so the launcher is {name}", severity="note")
    site = msgspec.structs.replace(machine.site, launcher=name)
    return machine._replace(site=site, problems=(*machine.problems, note))
