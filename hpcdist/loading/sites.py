"""Reads site files: the whole ``Site`` with all of its problems, or only its ``detect`` section."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Key, Problem, unknown
from hpcdist.base.errors import Path as Keys
from hpcdist.base.fields import Model
from hpcdist.base.registry import Registry
from hpcdist.layers.containers import containers
from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.launchers import launchers
from hpcdist.loading.load import load_model
from hpcdist.planner.launcher_choice import REMOVED_LAUNCHERS
from hpcdist.schedulers import UNSUPPORTED, schedulers
from hpcdist.site.detection import Candidate
from hpcdist.site.fabric import NO_FRAMEWORK
from hpcdist.site.model import Detect, LauncherOptions, Site
from hpcdist.site.problems import problems_of

_DETECT: Final = re.compile(r"^detect:.*(?:\n(?:[ \t#].*)?)*", re.MULTILINE)
"""The section ``detect`` of a site file: up to the next key."""

T = TypeVar("T")


class _DetectOnly(Model, frozen=True):
    detect: Detect = Detect()


def load_site(file: Path) -> Site:
    """Read a site file.

    Raises:
        ConfigError: with all of its problems.
    """
    return _site(source.read_text(file), source.name(file))


@functools.lru_cache(maxsize=8)
def _site(text: str, file: str) -> Site:
    """Return the site of a text: the operations of a pipeline name the same one again and again."""
    document = source.parse(text, file)
    site = load_model(Site, document)
    problems = [document.locate(problem) for problem in problems_in(site)]
    if problems:
        raise ConfigError(*problems)
    return site


def load_detect(file: Path) -> Candidate:
    """Read only the section ``detect`` of a site file: every command does this for every site.

    Raises:
        ConfigError: when that section is invalid.
    """
    text = source.read_text(file)
    section = _DETECT.search(text)
    if not section:
        return Candidate(file.stem, Detect())
    padded = "\n" * text.count("\n", 0, section.start()) + section[0]
    return Candidate(file.stem, load_model(_DetectOnly, source.parse(padded, str(file))).detect)


def read_all(files: Iterable[Path], read: Callable[[Path], T]) -> tuple[list[T], tuple[Problem, ...]]:
    """Return the values read from these files, and warnings about invalid files, which are skipped."""
    found: list[T] = []
    problems: list[Problem] = []
    for file in files:
        try:
            found.append(read(file))
        except ConfigError as error:
            problems += (problem._replace(severity="warning") for problem in error.problems)
    return found, tuple(problems)


def problems_in(site: Site) -> Iterator[Problem]:
    """Yield all problems of a site whose values have the right types."""
    yield from problems_of(site)
    yield from _unknown_names(site)
    yield from _unused_keys(site)


def _unknown_names(site: Site) -> Iterator[Problem]:
    """Yield unknown schedulers, launchers, launcher options, container runtimes and frameworks."""
    yield from _missing(schedulers, site.scheduler, ("scheduler",), UNSUPPORTED)
    yield from _missing(launchers, site.launcher, ("launcher",), REMOVED_LAUNCHERS)
    for path, section in site.containers():
        yield from _missing(containers, section.runtime, (*path, "runtime"), {})
    for path, condition in site.conditions():
        for key in ("frameworks", "not_frameworks"):
            for index, name in enumerate(getattr(condition, key)):
                if name != NO_FRAMEWORK:
                    yield from _missing(frameworks, name, (*path, key, index), {})
    for name, options in site.launchers.items():
        yield from _missing(launchers, name, ("launchers", Key(name)), REMOVED_LAUNCHERS)
        if name in launchers:
            yield from _unknown_options(name, options)


def _unused_keys(site: Site) -> Iterator[Problem]:
    """Yield the keys that the site's scheduler would leave without effect."""
    if site.scheduler in schedulers and not schedulers.get(site.scheduler).rounds_cpus:
        for name, node in site.node_types.items():
            if node.cpus_per_gpu is not None:
                path = ("node_types", name, "cpus_per_gpu")
                yield Problem(f"scheduler {site.scheduler} does not use it", path, "remove it")


def _unknown_options(name: str, options: LauncherOptions) -> Iterator[Problem]:
    reads = launchers.get(name).site_options
    for key in options.__struct_fields__:
        if key not in reads and getattr(options, key) != getattr(LauncherOptions(), key):
            hint = f"it reads {', '.join(sorted(reads)) or 'none'}"
            yield Problem(f"launcher {name} has no {key!r}", ("launchers", name, Key(key)), hint)


def _missing(known: Registry[Any], name: str, path: Keys, why: Mapping[str, str]) -> Iterator[Problem]:
    if name in why and name not in known:
        yield Problem(why[name], path, f"write one of {', '.join(known.names())}")
    elif name not in known:
        yield unknown(known.kind, name, known.names(), path)
