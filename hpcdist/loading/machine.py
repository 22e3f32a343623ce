"""The choice of the machine: the site that the user names, else the one that this machine is found to be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from hpcdist.errors import ConfigError, Place, Problem, located, preceded_by, unknown
from hpcdist.host import resources
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Launcher
from hpcdist.loading.preferences import Preferences
from hpcdist.loading.sites import load_detect, load_site, readable
from hpcdist.schedulers import installations, schedulers
from hpcdist.schedulers.installations import Installation
from hpcdist.site.detection import Detection, detect
from hpcdist.site.model import Site


class Machine(NamedTuple):
    """A site, why it is this one, its file, and what one should know of the choice: warnings and notes."""

    site: Site
    origin: str
    file: Path
    problems: tuple[Problem, ...] = ()


class Search(NamedTuple):
    """All site files by name, which of them this machine is known to be, and warnings of broken files."""

    files: Mapping[str, Path]
    detection: Detection
    problems: tuple[Problem, ...]


def choose(
    option: str | None,
    folders: Sequence[Path],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
    environment: Mapping[str, str] = os.environ,
) -> Machine:
    """Return the site that is named, as `explicit_site` finds it, else this machine's.

    Raises:
        ConfigError: when there is none of that name, its file is broken, or this machine could be several.
    """
    named = explicit_site(option, folders, own, in_file, environment)
    return named or detected_site(search(folders, environment), environment)


def explicit_site(
    option: str | None,
    folders: Sequence[Path],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
    environment: Mapping[str, str] = os.environ,
) -> Machine | None:
    """Return the site of ``--site``, else the file, ``$HPCDIST_SITE`` or the config, None for none.

    Raises:
        ConfigError: when there is none of that name, its file is broken, or the config does not say which.
    """
    if option == "":
        where = Place("--site=", 0, 0)
        raise ConfigError(
            Problem("the value is empty", hint="name a site, or leave the option out", place=where)
        )
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
    """Return the site of the config, where it is the same in every folder."""
    site = own.config.site
    if site and resources.is_file_name(site) and not site.startswith(("/", "~")):
        message = f"{site!r} would be another file in every folder"
        raise ConfigError(own.document.locate(Problem(message, ("site",), "write its whole path")))
    return site


def named_site(name: str, folders: Sequence[Path], place: Place) -> Machine:
    """Return the site that is named at this place.

    Raises:
        ConfigError: when there is none of that name, or its file is broken.
    """
    with located(lambda problem: problem if problem.place else problem._replace(place=place)):
        file = resources.site_file(name, folders)
        return Machine(load_site(file), origin(place), file)


def origin(place: Place) -> str:
    """Write a place as an origin; an option without its value, which may be long."""
    return f"{place.file}:{place.line}" if place.line else place.file.partition("=")[0]


def search(folders: Sequence[Path], environment: Mapping[str, str] = os.environ) -> Search:
    """Compare this machine with every site that says how its machine is known.

    Raises:
        ConfigError: where it could be several sites.
    """
    from socket import getfqdn  # with the network's libraries, for this only

    files = resources.site_files(folders)
    known, problems = readable(files.values(), load_detect)
    with preceded_by(problems):
        return Search(files, detect(known, environment, getfqdn()), problems)


def detected_site(found: Search, environment: Mapping[str, str] = os.environ) -> Machine:
    """Return this machine's site: known by clues, else that of a batch system that is set up, else ``local``.

    Raises:
        ConfigError: where the site's file is broken, or there is none of that name.
    """
    if name := found.detection.site:
        return _site_of(name, f"detected: {found.detection.matches[name]}", found)
    if (name := batch_system(environment, found.files)) and (known := _installation(name)):
        return _site_of(name, f"this is no known site, but there is {known.command}", found)
    notes = tuple(Problem(text, severity="note") for text in _useless_commands(environment))
    why = "this is no known site, and no batch system is set up here"
    return _site_of("local", why, found._replace(problems=(*found.problems, *notes)))


def _site_of(name: str, why: str, found: Search) -> Machine:
    if name not in found.files:
        raise ConfigError(unknown("site", name, found.files))
    with preceded_by(found.problems):
        return Machine(load_site(found.files[name]), why, found.files[name], found.problems)


def batch_system(
    environment: Mapping[str, str] = os.environ, sites: Mapping[str, Path] | None = None
) -> str | None:
    """Return the scheduler, one with a site of its name, whose batch system is set up here; None for none.

    Plug-ins are looked for where no built-in one is set up, and only where a site is not a shipped one: it
    takes 20 ms, and no shipped site is a plug-in's.
    """
    candidates = (name for name in _schedulers(sites) if sites is None or name in sites)
    return next((name for name in candidates if _is_set_up(name, environment)), None)


def _schedulers(sites: Mapping[str, Path] | None) -> Iterator[str]:
    yield from installations.BUILT_IN
    shipped = resources.shipped("site_configs")
    if sites is None or any(file.parent != shipped for file in sites.values()):
        yield from (name for name in schedulers.names() if name not in installations.BUILT_IN)


def _installation(name: str) -> Installation | None:
    """Return how one knows a batch system; a built-in scheduler is not imported for it."""
    return installations.BUILT_IN.get(name) or schedulers.get(name).installation


def _is_set_up(name: str, environment: Mapping[str, str]) -> bool:
    known = _installation(name)
    return known is not None and is_set_up(known, environment)


def is_set_up(known: Installation, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a batch system is set up here: by a variable or a file, else as it answers itself."""
    command = shutil.which(known.command, path=environment.get("PATH"))
    if command is None:
        return False
    prefix = Path(command).resolve().parents[1]
    if environment.get(known.variable) or any((prefix / file).exists() for file in known.files):
        return True
    if known.question is None:
        return False
    from hpcdist.host.shell import Shell  # a process only where no file tells

    return known.is_confirmed_by(Shell(environment).run(known.question))


def _useless_commands(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each command of a built-in batch system that is there, though none is set up."""
    systems = sorted(installations.BUILT_IN.values(), key=lambda system: system.command)
    for command, members in groupby(systems, key=lambda system: system.command):
        if shutil.which(command, path=environment.get("PATH")):
            titles = " or ".join(system.title for system in members)
            yield f"there is {command}, but no {titles} is set up for it, so the site is local"


def with_working_launcher(
    machine: Machine, framework: str | None, environment: Mapping[str, str] = os.environ
) -> Machine:
    """Return the machine; where it has neither a batch system nor its launcher, with one that is there."""

    def is_there(launcher: Launcher) -> bool:
        return shutil.which(launcher.program, path=environment.get("PATH")) is not None

    if schedulers.get(machine.site.scheduler).is_batch_system:
        return machine
    own = launchers.get(machine.site.launcher)
    others = [launchers.get(name) for name in own.substitutes]
    if not others or is_there(own):
        return machine
    fitting = (item for item in others if is_there(item) and (not item.wires or framework in item.wires))
    name = next(fitting, others[-1]).name
    note = Problem(f"there is no {own.program} on PATH, so the launcher is {name}", severity="note")
    site = msgspec.structs.replace(machine.site, launcher=name)
    return machine._replace(site=site, problems=(*machine.problems, note))
