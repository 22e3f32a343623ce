"""Which machine to work for: named by the user, detected, or guessed from what is on PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from hpcdist import load, resources, source
from hpcdist.cli.tell import located, note, tell
from hpcdist.detect import Detection, detect
from hpcdist.errors import ConfigError, Place
from hpcdist.site import Site, problems_of


@dataclass(frozen=True, slots=True)
class Machine:
    """A site, and why it is this one."""

    site: Site
    origin: str


def named(name: str, folders: Iterable[Path], place: Place) -> Site:
    """Return the site that is named at this place.

    Raises:
        ConfigError: when there is none of that name, or its file is broken.
    """
    with located(lambda problem: problem if problem.place else replace(problem, place=place)):
        return load_site(resources.site_file(name, folders))


def load_site(file: Path) -> Site:
    """Read a site file.

    Raises:
        ConfigError: with every problem of it.
    """
    document = source.load(file)
    site = load.load_model(Site, document)
    problems = [document.locate(problem) for problem in problems_of(site)]
    if problems:
        raise ConfigError(*problems)
    return site


def readable(files: Iterable[Path], mentioning: str = "") -> list[Site]:
    """Return the sites of those files that mention a word; a broken one is told as a warning and left out."""
    sites = []
    for file in files:
        try:
            if mentioning in source.read_text(file):
                sites.append(load_site(file))
        except ConfigError as error:
            tell(replace(problem, severity="warning") for problem in error.problems)
    return sites


def this(folders: Iterable[Path], environment: Mapping[str, str] = os.environ) -> Machine:
    """Return the site of this machine: detected, else any Slurm where there is sbatch, else ``local``.

    Raises:
        ConfigError: where it could be several sites.
    """
    files = resources.site_files(folders)
    detection = detection_of(files.values(), environment)
    if detection.site:
        return Machine(detection.site, f"detected: {detection.matches[detection.site.name]}")
    if shutil.which("sbatch"):
        return Machine(load_site(files["slurm"]), "this is no known site, but there is sbatch")
    return Machine(load_site(files["local"]), "this is no known site, and there is no sbatch")


def detection_of(files: Iterable[Path], environment: Mapping[str, str] = os.environ) -> Detection:
    """Compare this machine with every site that says how its machine is known; the others are not read."""
    from socket import getfqdn  # with the network's libraries, for this only

    return detect(readable(files, mentioning="detect:"), environment, getfqdn())


def with_working_launcher(site: Site, framework: str | None) -> Site:
    """Return the site; without a batch system and without mpirun, with a launcher that this machine has."""
    if site.scheduler != "local" or site.launcher != "mpirun" or shutil.which("mpirun"):
        return site
    launcher = "horovodrun" if framework == "horovod" and shutil.which("horovodrun") else "processes"
    note(f"there is no mpirun on PATH, so the launcher is {launcher}")
    return msgspec.structs.replace(site, launcher=launcher)
