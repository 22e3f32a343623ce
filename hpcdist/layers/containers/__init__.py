"""Container runtimes, which run tasks in an image.

per_task    each task's shell starts a container: Apptainer, Shifter, Podman-HPC
enroot    srun starts tasks inside: Pyxis, and CSCS' Container Engine
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hpcdist.base.registry import Registry
from hpcdist.layers.protocols import ContainerRuntime, Layer
from hpcdist.plan.model import Container, JobEnvironment, JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.fabric import applying
from hpcdist.site.settings import Runtime

containers: Registry[ContainerRuntime] = Registry(
    "container",
    {
        "apptainer": "hpcdist.layers.containers.per_task:APPTAINER",
        "singularity": "hpcdist.layers.containers.per_task:SINGULARITY",
        "pyxis": "hpcdist.layers.containers.enroot:PYXIS",
        "shifter": "hpcdist.layers.containers.per_task:SHIFTER",
        "edf": "hpcdist.layers.containers.enroot:EDF",
        "podman-hpc": "hpcdist.layers.containers.per_task:PODMAN_HPC",
    },
)


class PlainRuntime(Layer):
    """A runtime without options for the launcher."""

    kind = "container"
    launchers: frozenset[str] = frozenset()
    single_options: Mapping[str, str] = {}

    def launcher_words(
        self, job: JobSpec, container: Container, environment: JobEnvironment, runtime: Runtime
    ) -> Iterable[Word]:
        """Return nothing: the launcher does not start it."""
        del job, container, environment, runtime
        return ()


# --- The words that a site file gives its container runtime, and the programs inside


def site_args(job: JobSpec, runtime: Runtime) -> Iterator[Word]:
    """Yield ``args``, and ``gpu_args`` where the job has GPUs."""
    for key, texts in (("args", runtime.args), ("gpu_args", runtime.gpu_args if job.gpus.library else ())):
        for text, notes in applying(texts, job.facts):
            yield Word(
                text=text, origin=Origin("site", job.identity.site, f"{_section(job)}.{key}", notes=notes)
            )


def site_variables(job: PreparedJob, runtime: Runtime) -> Iterator[Word]:
    """Yield ``NAME=VALUE`` of ``env``, except those that the experiment or its framework sets."""
    given = {variable.name for variable in job.environment.variables if variable.origin.kind != "site"}
    for name, value in runtime.env.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name not in given:
            yield Word(
                text=f"{name}={text}", origin=Origin("site", job.identity.site, f"{_section(job)}.env.{name}")
            )


RUN_FOLDER: Final = "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"
"""The mount of the run directory, which a script submitted by hand may not have."""


def mount_option(option: str, bind: Word) -> Word:
    """Return the option that mounts a folder; there may be no run directory."""
    text = f'{option}"{bind.text}"'
    return Word.raw(f"${{HPCDIST_RUN_DIR:+{text}}}" if bind.text == RUN_FOLDER else text, bind.origin)


def entrypoint_options(job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
    """Yield ``--env=NAME=VALUE`` for them where the runtime itself starts the image's entrypoint."""
    for word in site_variables(job, runtime) if container.entrypoint else ():
        yield Word(text=f"--env={word.text}", origin=word.origin)


def _section(job: JobSpec) -> str:
    return job.container.key if job.container else "container"
