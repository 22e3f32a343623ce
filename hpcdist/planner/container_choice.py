"""Enclosing: the container in which an experiment's tasks run, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from hpcdist.errors import PlanError, Problem, did_you_mean
from hpcdist.experiment import image as images
from hpcdist.experiment.launch.line import UserLaunch
from hpcdist.experiment.model import Experiment
from hpcdist.layers.containers import containers
from hpcdist.layers.protocols import Container, Launcher
from hpcdist.plan.model import Plan, Word
from hpcdist.site.model import Site
from hpcdist.words import in_double_quotes, quote

_PATH: Final = ("build", "image")
_OUTSIDE: Final = "give --no-container to run with the site's own modules"


class Enclosure(NamedTuple):
    """A runtime, the image as it wants to be told, and what is bound into it."""

    runtime: str
    image: str
    binds: tuple[Word, ...]


def enclosure_of(
    experiment: Experiment, site: Site, launcher: Launcher, launch: UserLaunch | None
) -> Enclosure | None:
    """Return the container of an experiment, None for one without an image, or by ``--no-container``.

    Raises:
        PlanError: where the site has no runtime, or it cannot run such an image or such a launch.
    """
    text = experiment.build.image if experiment.build else None
    if not text or experiment.batch.container is False:
        return None
    if site.container is None:
        message = f"site {site.name} has no container runtime to run {text} in"
        hint = f"{_OUTSIDE}, or name its runtime in a site file (`container: {{runtime: apptainer}}`)"
        raise PlanError(Problem(message, _PATH, hint))
    container = _container(site.container.runtime, site)
    if launch and launch.runs == "once":
        by = launch.program if experiment.backend != "mpi" else "the user (`backend: mpi`)"
        message = f"the command is a launch by {by}, which would run outside the container"
        hint = f"let the command be the program itself, and hpcdist starts it; or {_OUTSIDE}"
        raise PlanError(Problem(message, _PATH, hint))
    if container.launchers and launcher.name not in container.launchers:
        able = " or ".join(sorted(container.launchers))
        message = f"{container.name} starts its containers by {able}, not by {launcher.name}"
        raise PlanError(Problem(message, _PATH, f"write `batch: {{launcher: {able}}}`, or {_OUTSIDE}"))
    return Enclosure(container.name, container.image(images.read(text)), tuple(_binds(experiment, site)))


def enclosed(plan: Plan, site: Site) -> Plan:
    """Return the plan with what its container wants of the launcher, and of the shell beforehand."""
    if not (site.container and plan.container):
        return plan
    container = _container(plan.container, site)
    own = container.launcher_words(plan, site.container)
    lines = (Word.raw(line, f"site {site.name}: container.setup") for line in site.container.setup)
    setup = (*plan.setup, *lines, *_checks(plan, container))
    return msgspec.structs.replace(plan, launcher_args=(*plan.launcher_args, *own), setup=setup)


def words(plan: Plan, site: Site) -> Iterator[Word]:
    """Yield the words between the task wrapper and what runs inside."""
    if not (site.container and plan.container):
        return
    yield from _container(plan.container, site).words(plan, site.container)
    yield from _library_path(site, site.container.library_path)
    given = {variable.name for variable in plan.variables if not variable.origin.startswith("site ")}
    own = [(name, value) for name, value in site.container.env.items() if name not in given]
    if own:
        # env sets them inside, whatever the runtime and the image do with variables.
        yield Word(text="env", origin=f"site {site.name}: container.env")
    for name, value in own:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield Word(text=f"{name}={text}", origin=f"site {site.name}: container.env.{name}")


def _library_path(site: Site, folders: tuple[str, ...]) -> Iterator[Word]:
    """Yield a shell that puts these folders in front of the image's own; only the inside knows those."""
    if folders:
        line = 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"'
        origin = f"site {site.name}: container.library_path"
        for text in ("bash", "-c", line, "hpcdist"):
            yield Word(text=text, origin=origin)
        yield Word.raw(f'"{":".join(folders)}"', origin)


def _container(name: str, site: Site) -> Container:
    if name not in containers:
        message = f"site {site.name}: there is no container runtime {name!r}"
        raise PlanError(Problem(message, hint=did_you_mean(name, containers.names())))
    return containers.get(name)


def _binds(experiment: Experiment, site: Site) -> Iterator[Word]:
    """Yield ``SRC:DST`` for double quotes: where the job was submitted, its run, its data, the site's."""
    for name in ("PWD", "HPCDIST_RUN_DIR"):
        yield Word.raw(f"${name}:${name}", "what every task reads and writes")
    persistence = experiment.environment.persistence
    named = (*(persistence.data if persistence else ()), *experiment.environment.data_refs)
    for name in dict.fromkeys(named):
        if path := site.volumes.get(name):
            safe = in_double_quotes(path)
            yield Word.raw(f"{safe}:{safe}", f"site {site.name}: volumes.{name}")
    for bind in site.container.binds if site.container else ():
        yield Word.raw(bind if ":" in bind else f"{bind}:{bind}", f"site {site.name}: container.binds")


def _checks(plan: Plan, container: Container) -> Iterator[Word]:
    origin = f"container {container.name}"
    if container.program:
        program = quote(container.program)
        message = f"there is no {program} on $(uname -n); load its module in the site file, or {_OUTSIDE}"
        yield Word.raw(f'type {program} >/dev/null 2>&1 || fail "{message}"', origin)
    image = images.read(plan.image) if plan.image else None
    if image and image.form == "file":
        name = quote(image.text)
        yield Word.raw(f'[[ -e {name} ]] || fail there is no image {name} on "$(uname -n)"', origin)
    # Both separate the parts of a bind, in every runtime.
    line = '[[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"'
    yield Word.raw(line, origin)
