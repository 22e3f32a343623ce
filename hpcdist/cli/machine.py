"""Which machine to work for: named by the user, detected, or guessed from what is on PATH."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hpcdist.cli.tell import located, note, tell
from hpcdist.documents import source
from hpcdist.documents.fields import Model
from hpcdist.errors import ConfigError, Key, Place, Problem, unknown
from hpcdist.errors import Path as Keys
from hpcdist.host import resources
from hpcdist.host.command import Command
from hpcdist.layers.containers import containers
from hpcdist.layers.launchers import launchers
from hpcdist.loading import load
from hpcdist.loading.preferences import Preferences
from hpcdist.planner.launcher_choice import GONE
from hpcdist.registry import Registry
from hpcdist.schedulers import schedulers
from hpcdist.site.detection import Detection, Known, detect
from hpcdist.site.model import Detect, LauncherOptions, Site
from hpcdist.site.problems import problems_of

_SLURM_CONF: Final = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
_NO_SLURM_CONF: Final = ("configuration source", "Unable to process configuration", "No such file")
"""What scontrol says where it finds no configuration; 22.05 says the first."""


_UNSPOKEN: Final = {
    "torque": "Torque is not spoken: of the PBS family only PBS Professional and OpenPBS (pbs) are",
}
"""Schedulers that one may look for in vain."""

_DETECT: Final = re.compile(r"^detect:.*(?:\n(?:[ \t#].*)?)*", re.MULTILINE)
"""The section ``detect`` of a site file: up to the next key."""

T = TypeVar("T")


class _Set(NamedTuple):
    """How a batch system is known to be set up here: its command, and a variable or a file beside it."""

    site: str
    command: str
    variable: str
    file: str


_OTHERS: Final = (
    _Set("pbs", "qsub", "PBS_CONF_FILE", "/etc/pbs.conf"),
    _Set("sge", "qsub", "SGE_ROOT", "/etc/profile.d/sge.sh"),
    _Set("lsf", "bsub", "LSF_ENVDIR", "/etc/lsf.conf"),
    _Set("flux", "flux", "FLUX_URI", "/run/flux/local"),
)
"""Batch systems beside Slurm, each with a site file for one of which nothing is known."""


class Machine(NamedTuple):
    """A site, why it is this one, and its file."""

    site: Site
    origin: str
    file: Path


def origin(place: Place) -> str:
    """Write a place as an origin; an option without its value, which may be long."""
    return f"{place.file}:{place.line}" if place.line else place.file.partition("=")[0]


def said(
    option: str | None,
    folders: Sequence[Path],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
) -> Machine | None:
    """Return the site of ``--site``, else the file, ``$HPCDIST_SITE`` or the config, None for none.

    Raises:
        ConfigError: when there is none of that name, its file is broken, or the config does not say which.
    """
    if option == "":
        where = Place("--site=", 0, 0)
        raise ConfigError(Problem("this is empty", hint="name a site, or leave the option out", place=where))
    places = (
        (option, Place(f"--site={option}", 0, 0)),
        in_file,
        (os.environ.get("HPCDIST_SITE"), Place("$HPCDIST_SITE", 0, 0)),
    )
    for name, place in places:
        if name and place:
            return named(name, folders, place)
    configured, place = _configured(own), own.place("site")
    return named(configured, folders, place) if configured and place else None


def _configured(own: Preferences) -> str | None:
    """Return the site of the config, where it is the same in every folder."""
    site = own.config.site
    if site and resources.is_file_name(site) and not site.startswith(("/", "~")):
        message = f"{site!r} would be another file in every folder"
        raise ConfigError(own.document.locate(Problem(message, ("site",), "write its whole path")))
    return site


def named(name: str, folders: Sequence[Path], place: Place) -> Machine:
    """Return the site that is named at this place.

    Raises:
        ConfigError: when there is none of that name, or its file is broken.
    """
    with located(lambda problem: problem if problem.place else problem._replace(place=place)):
        file = resources.site_file(name, folders)
        return Machine(load_site(file), origin(place), file)


def load_site(file: Path) -> Site:
    """Read a site file.

    Raises:
        ConfigError: with every problem of it.
    """
    document = source.load(file)
    site = load.load_model(Site, document)
    problems = [document.locate(problem) for problem in problems_in(site)]
    if problems:
        raise ConfigError(*problems)
    return site


def problems_in(site: Site) -> Iterator[Problem]:
    """Yield all that is wrong with a site whose values are of the right types."""
    yield from problems_of(site)
    yield from _unknown(site)


def _unknown(site: Site) -> Iterator[Problem]:
    """Yield the schedulers, launchers, their options, and runtimes of containers that there are none of."""
    yield from _missing(schedulers, site.scheduler, ("scheduler",), _UNSPOKEN)
    yield from _missing(launchers, site.launcher, ("launcher",), GONE)
    if site.container:
        yield from _missing(containers, site.container.runtime, ("container", "runtime"), {})
    for name, options in site.launchers.items():
        yield from _missing(launchers, name, ("launchers", Key(name)), GONE)
        if name in launchers:
            yield from _unread(name, options)


def _unread(name: str, options: LauncherOptions) -> Iterator[Problem]:
    reads = launchers.get(name).reads
    for key in options.__struct_fields__:
        if key not in reads and getattr(options, key) != getattr(LauncherOptions(), key):
            hint = f"it reads {', '.join(sorted(reads)) or 'none'}"
            yield Problem(f"launcher {name} has no {key!r}", ("launchers", name, Key(key)), hint)


def _missing(known: Registry[Any], name: str, path: Keys, why: Mapping[str, str]) -> Iterator[Problem]:
    if name in why and name not in known:
        yield Problem(why[name], path, f"write one of {', '.join(known.names())}")
    elif name not in known:
        yield unknown(known.kind, name, known.names(), path)


def readable(files: Iterable[Path], read: Callable[[Path], T]) -> list[T]:
    """Return what is read of those files; a broken one is told as a warning and left out."""
    found = []
    for file in files:
        try:
            found.append(read(file))
        except ConfigError as error:
            tell(problem._replace(severity="warning") for problem in error.problems)
    return found


class _Recognition(Model, frozen=True):
    detect: Detect = Detect()


def known(file: Path) -> Known:
    """Read how a site's machine is known, and no more of its file: every command does so for every site.

    Raises:
        ConfigError: when that section is broken.
    """
    text = source.read_text(file)
    section = _DETECT.search(text)
    if not section:
        return Known(file.stem, Detect())
    there = "\n" * text.count("\n", 0, section.start()) + section[0]
    return Known(file.stem, load.load_model(_Recognition, source.parse(there, str(file))).detect)


def this(folders: Iterable[Path], environment: Mapping[str, str] = os.environ) -> Machine:
    """Return the site of this machine: detected, else any batch system that is set up, else ``local``.

    Raises:
        ConfigError: where it could be several sites.
    """
    files = resources.site_files(folders)
    detection = detection_of(files.values(), environment)
    if detection.site:
        file = files[detection.site]
        return Machine(load_site(file), f"detected: {detection.matches[detection.site]}", file)
    if system := batch_system(environment):
        command = next((other.command for other in _OTHERS if other.site == system), "sbatch")
        why = f"this is no known site, but there is {command}"
        return Machine(load_site(files[system]), why, files[system])
    sbatch = shutil.which("sbatch", path=environment.get("PATH"))
    if sbatch:
        note("there is sbatch, but no Slurm is set up for it, so the site is local")
    why = "no Slurm is set up here" if sbatch else "there is no sbatch"
    return Machine(load_site(files["local"]), f"this is no known site, and {why}", files["local"])


def batch_system(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the scheduler that is set up here, None where there is none."""
    sbatch = shutil.which("sbatch", path=environment.get("PATH"))
    if sbatch and has_slurm(Path(sbatch), environment):
        return "slurm"
    return next((other.site for other in _OTHERS if _is_set_up(other, environment)), None)


def _is_set_up(system: _Set, environment: Mapping[str, str]) -> bool:
    there = environment.get(system.variable) or Path(system.file).exists()
    return bool(there and shutil.which(system.command, path=environment.get("PATH")))


def has_slurm(
    sbatch: Path, environment: Mapping[str, str], configurations: Iterable[str] = _SLURM_CONF
) -> bool:
    """Tell whether a Slurm is set up for this sbatch: by a configuration file, else as scontrol says."""
    files = (*map(Path, configurations), sbatch.resolve().parents[1] / "etc" / "slurm.conf")
    if environment.get("SLURM_CONF") or any(file.exists() for file in files):
        return True
    from hpcdist.host.shell import Shell  # a process only where no file tells

    # Without a file it asks the DNS for its configuration: for 10 s, where no name server answers.
    asked = Command(("scontrol", "ping"), environment=(("RES_OPTIONS", "timeout:1 attempts:1"),), timeout=15)
    said = Shell(environment).run(asked)
    return said.missing or not any(text in said.stderr for text in _NO_SLURM_CONF)


def detection_of(files: Iterable[Path], environment: Mapping[str, str] = os.environ) -> Detection:
    """Compare this machine with every site that says how its machine is known; the others are not read."""
    from socket import getfqdn  # with the network's libraries, for this only

    return detect(readable(files, known), environment, getfqdn())


def with_working_launcher(site: Site, framework: str | None) -> Site:
    """Return the site; without a batch system and without mpirun, with a launcher that this machine has."""
    if site.scheduler != "local" or site.launcher != "mpirun" or shutil.which("mpirun"):
        return site
    launcher = "horovodrun" if framework == "horovod" and shutil.which("horovodrun") else "processes"
    note(f"there is no mpirun on PATH, so the launcher is {launcher}")
    return msgspec.structs.replace(site, launcher=launcher)
