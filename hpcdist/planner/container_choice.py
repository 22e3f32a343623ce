"""Container choice: the container in which tasks run, its checks and its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from hpcdist.base.errors import PlanError, Problem, did_you_mean
from hpcdist.base.words import in_double_quotes, join, quote, slug
from hpcdist.experiment.launch_line import UserLaunch
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.sources import image_of
from hpcdist.layers.containers import containers, site_variables
from hpcdist.layers.protocols import (
    ContainerRuntime,
    FetchesImages,
    Launcher,
    PreparesContainers,
    StartsEntrypoints,
)
from hpcdist.plan.model import Container, JobEnvironment, JobSpec, PreparedJob
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Origin, Variable, Where, Word
from hpcdist.planner.steps import uses_local_disk
from hpcdist.site.fabric import ConditionalText, JobFacts, applying
from hpcdist.site.model import Site

_PATH: Final = ("build", "image")
_LOADS: Final = re.compile(r"module load [^;&|$`\"'\\\n]+")
_GIVEN: Final = "--set run.cmd='python train.py'"
_OUTSIDE: Final = "give --no-container to run with the site's own modules"


def in_its_partition(site: Site, placement: Placement) -> tuple[Site, str]:
    """Return the site with the container runtime of the job's partition, and its key.

    Raises:
        PlanError: where its partitions have different runtimes.
    """
    found = [site.container_in(group.site_partition) for group in placement.groups]
    if any(runtime != found[0][0] for runtime, _ in found):
        names = " and ".join(dict.fromkeys(str(group.site_partition) for group in placement.groups))
        message = f"the nodes of this job are in {names}, with different container runtimes"
        raise PlanError(Problem(message, _PATH, f"choose a partition (`batch.partition`), or {_OUTSIDE}"))
    runtime, key = found[0]
    return replace(site, container=runtime), key


def container_of(
    experiment: Experiment, site: Site, launch: UserLaunch | None, key: str = "container"
) -> Container | None:
    """Return the container of an experiment, None for one without an image, or by ``--no-container``.

    Raises:
        PlanError: where the site has no runtime, or it cannot run such an image or such a launch.
    """
    text, run = experiment.build.image if experiment.build else None, experiment.run
    if not text or experiment.batch.container is False:
        if run.starts_entrypoint:
            raise _no_entrypoint("without its container there is no entrypoint")
        return None
    if site.container is None:
        message = f"site {site.name} has no container runtime to run {text} in"
        there = "name its runtime in a site file (`container: {runtime: apptainer}`)"
        if run.starts_entrypoint:
            hint = f"the program is in the image: {there}, or give `--no-container {_GIVEN}`"
            raise PlanError(Problem(message, _PATH, hint))
        raise PlanError(Problem(message, _PATH, f"{_OUTSIDE}, or {there}"))
    runtime = _runtime(site.container.runtime, site)
    if launch and launch.runs == "once":
        by = launch.program if experiment.backend != "mpi" else "the user (`backend: mpi`)"
        message = f"the command is a launch by {by}, which would run outside the container"
        hint = f"let the command be the program itself, and hpcdist starts it; or {_OUTSIDE}"
        raise PlanError(Problem(message, _PATH, hint))
    container = Container(
        runtime=runtime.name,
        image=runtime.image(image_of(text)),
        entrypoint=run.starts_entrypoint,
        workdir=run.workdir,
        key=key,
    )
    if container.entrypoint:
        _check_entrypoint(container, runtime, site)
    own = experiment.build.fetch_once if experiment.build else None
    once = site.container.fetch_once if own is None else own
    return replace(
        container, fetch=runtime.fetch(container) if once and isinstance(runtime, FetchesImages) else ()
    )


def _check_entrypoint(container: Container, runtime: ContainerRuntime, site: Site) -> None:
    """Check that the runtime can start the entrypoint of the image.

    Raises:
        PlanError: where it cannot, or not with the site's words in front of the program.
    """
    if not isinstance(runtime, StartsEntrypoints):
        raise _no_entrypoint(f"{runtime.name} does not start the entrypoint of an image")
    own = site.container
    for key, what in (
        ("library_path", "which a shell inside sets before the program"),
        ("prefix", "which starts the program inside"),
    ):
        if getattr(own, key, ()) and not runtime.entrypoint(container):
            itself = f"{runtime.name} itself starts the image's entrypoint"
            raise _no_entrypoint(f"site {site.name} has container.{key}, {what}, and {itself}")


def _no_entrypoint(message: str) -> PlanError:
    return PlanError(Problem(message, ("run", "entrypoint"), f"write the program as `run.cmd` (`{_GIVEN}`)"))


def with_binds(
    container: Container | None, experiment: Experiment, site: Site, job: JobFacts, where: Where
) -> Container | None:
    """Return the container with what is mounted into it."""
    if container is None:
        return None
    return replace(container, binds=tuple(_binds(experiment, site, job, where, container.key)))


def lines(site: Site, key: str, texts: Iterable[str | ConditionalText], job: JobFacts) -> Iterator[Word]:
    """Yield the texts of a key of the site file that such a job has, for bash."""
    for text, notes in applying(texts, job):
        origin = Origin("site", site.name, key, notes=notes)
        yield Word.raw(or_fail(text, origin) if _LOADS.fullmatch(text) else text, origin)


def or_fail(line: str, origin: Origin) -> str:
    """Return a line that ends the script with a sentence where it fails."""
    failure = in_double_quotes(f"'{line}' failed ({origin}) on ")
    return f'{line} || fail "{failure}$(uname -n)"'


def must_start_containers(
    experiment: Experiment, container: Container | None, launcher: Launcher, site: Site
) -> None:
    """Check that the launcher can start tasks in the container.

    Raises:
        PlanError: where the runtime needs another launcher, or sets an option of the experiment itself.
    """
    runtime = _runtime(container.runtime, site) if container else None
    for index, text in enumerate(experiment.batch.launcher_args if runtime else ()):
        if hint := runtime.single_options.get(text.partition("=")[0]) if runtime else None:
            message = f"{text} is set by hpcdist, and {runtime and runtime.name} takes it once"
            raise PlanError(Problem(message, ("batch", "launcher", "args", index), hint))
    if runtime and runtime.launchers and launcher.name not in runtime.launchers:
        able = " or ".join(sorted(runtime.launchers))
        message = f"{runtime.name} starts its containers by {able}, not by {launcher.name}"
        raise PlanError(Problem(message, _PATH, f"write `batch: {{launcher: {able}}}`, or {_OUTSIDE}"))


def setup(job: JobSpec, site: Site, variables: Sequence[Variable]) -> Iterator[Word]:
    """Yield the lines that make the job's shell ready for its container, and check that it can run."""
    if job.container and site.container:
        runtime = _runtime(job.container.runtime, site)
        yield from lines(site, f"{job.container.key}.setup", site.container.setup, job.facts)
        yield from _checks(job.container, runtime)
        if isinstance(runtime, PreparesContainers):
            yield from runtime.prepare(job, job.container, variables, site.container)


def launcher_words(job: JobSpec, site: Site, environment: JobEnvironment) -> tuple[Word, ...]:
    """Return the launcher options that the container runtime needs."""
    if not (job.container and site.container):
        return ()
    runtime = _runtime(job.container.runtime, site)
    return tuple(runtime.launcher_words(job, job.container, environment, site.container))


def starter(job: JobSpec) -> StartsEntrypoints | None:
    """Return the runtime that starts the image's entrypoint, None where the program is a command."""
    runtime: object = containers.get(job.container.runtime) if job.container else None
    starts = job.container is not None and job.container.entrypoint
    return runtime if starts and isinstance(runtime, StartsEntrypoints) else None


def words(job: PreparedJob, site: Site) -> Iterator[Word]:
    """Yield the words between each task's shell and the program in the container."""
    if not (site.container and job.container):
        return
    runtime = _runtime(job.container.runtime, site)
    yield from runtime.words(job, job.container, site.container)
    starts = starter(job)
    inside = starts.entrypoint(job.container) if starts else ()
    if inside or not starts:
        for text in site.container.prefix:
            yield Word(text=text, origin=Origin("site", site.name, f"{job.container.key}.prefix"))
        key = Origin("site", site.name, f"{job.container.key}.library_path")
        yield from _library_path(site.container.library_path, key)
        own = tuple(site_variables(job, site.container))
        if own:
            # env sets them inside, whatever the runtime and the image do with variables.
            yield Word(text="env", origin=Origin("site", site.name, f"{job.container.key}.env"))
        yield from own
    yield from inside


def _library_path(folders: tuple[str, ...], origin: Origin) -> Iterator[Word]:
    """Yield a shell that prepends these folders to the image's own LD_LIBRARY_PATH, known only inside."""
    if folders:
        line = 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"'
        for text in ("bash", "-c", line, "hpcdist"):
            yield Word(text=text, origin=origin)
        yield Word.raw(f'"{":".join(folders)}"', origin)


def _runtime(name: str, site: Site) -> ContainerRuntime:
    if name not in containers:
        message = f"site {site.name}: there is no container runtime {name!r}"
        raise PlanError(Problem(message, hint=did_you_mean(name, containers.names())))
    return containers.get(name)


def _binds(experiment: Experiment, site: Site, job: JobFacts, where: Where, key: str) -> Iterator[Word]:
    """Yield ``SRC:DST``, for double quotes: submit and run directory, data, the site's binds, own ones."""
    for name in ("PWD", "HPCDIST_RUN_DIR"):
        yield Word.raw(f"${name}:${name}", Origin("default", "what every task reads and writes"))
    if uses_local_disk(experiment):
        yield Word.raw("$HPCDIST_STAGE:$HPCDIST_STAGE", Origin("site", site.name, "node_local"))
    persistence = experiment.environment.persistence
    named = (*(persistence.data if persistence else ()), *experiment.environment.data_refs)
    for name in dict.fromkeys(named):
        if path := site.volumes.get(name):
            safe = in_double_quotes(path)
            yield Word.raw(f"{safe}:{safe}", Origin("site", site.name, f"volumes.{name}"))
    for bind in lines(site, f"{key}.binds", site.container.binds if site.container else (), job):
        yield replace(bind, text=_with_target(bind.text))
    for index, own in enumerate(experiment.build.binds if experiment.build else ()):
        source = own if own.startswith(("/", "$")) else f"$PWD/{own}"
        yield Word.raw(_with_target(source), where(("build", "binds", index)))


def _with_target(bind: str) -> str:
    return bind if ":" in bind else f"{bind}:{bind}"


def _fetched(container: Container) -> str:
    """Return the lines that make a file of the image, once for all tasks."""
    suffix, program, *words, image = container.fetch
    own = slug(image.rpartition("/")[2])
    failure = f"{program} cannot fetch {in_double_quotes(image)} on $(uname -n)"
    return (
        f"hpcdist_image=${{HPCDIST_RUN_DIR:-$PWD}}/{own}.{suffix}\n"
        f'[[ -s $hpcdist_image ]] || {{ {join((program, *words))} "$hpcdist_image.$$" {quote(image)} && '
        f'mv "$hpcdist_image.$$" "$hpcdist_image"; }} ||\n  fail "{failure}"'
    )


def _checks(container: Container, runtime: ContainerRuntime) -> Iterator[Word]:
    origin = Origin("container", runtime.name)
    if runtime.program:
        program = quote(runtime.program)
        message = f"there is no {program} on $(uname -n); load its module in the site file, or {_OUTSIDE}"
        yield Word.raw(f'type {program} >/dev/null 2>&1 || fail "{message}"', origin)
    image = image_of(container.image)
    if image.form == "file":
        name = quote(image.text)
        yield Word.raw(f'[[ -e {name} ]] || fail there is no image {name} on "$(uname -n)"', origin)
    if container.fetch:
        yield Word.raw(_fetched(container), origin)
    if runtime.name != "shifter":  # both separate the parts of a bind
        line = '[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"'
        yield Word.raw(line, origin)
