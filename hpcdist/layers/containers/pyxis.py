"""Pyxis: srun itself starts the tasks in the image, by enroot (github.com/NVIDIA/pyxis, wiki, "Usage").

A task's shell runs inside, so the image needs bash and the usual small programs (sed, getent). Variables of
the job are passed on, but one that the image sets keeps the image's value unless ``--container-env`` names it
(pyxis 0.15). Enroot's hook makes the GPUs visible.

``--container-entrypoint`` starts the ENTRYPOINT once, around the container's first shell, and not around the
tasks: one that trains instead of ``exec "$@"`` would end there ("container exited too soon"). What starts it
for a task is ``/etc/rc`` in the image, which enroot writes of WORKDIR, ENTRYPOINT and CMD (NVIDIA/enroot,
doc/image-format.md and ``docker::configure``); in it ``/etc/rc.local`` comes first, in which pyxis runs its
own command (pyxis_slurmstepd.c, ``enroot_create_start_config``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hpcdist.experiment.sources import Image, image_error, image_of
from hpcdist.layers.containers.plain import RUN_FOLDER, args
from hpcdist.plan.model import Container, Environment, JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.settings import Runtime

# --- Enroot: the names that it has for images, for the runtimes on top of it


class Enroot:
    """A runtime whose images enroot fetches: those of registries, and files in its own format."""

    name = "enroot"
    program = ""
    launchers: frozenset[str] = frozenset({"srun"})

    def image(self, image: Image) -> str:
        """Return the image as enroot names it: ``REGISTRY#NAME``; a file begins with ``.`` or ``/``.

        Raises:
            PlanError: for another format, or a digest, which enroot's names have no place for.
        """
        if image.form == "file" and image.text.endswith((".sqsh", ".squashfs")):
            return beginning_with_a_folder(image.text)
        if image.form != "registry":
            hint = "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"
            raise image_error(image, self.name, hint)
        if "@" in image.text:
            raise image_error(image, self.name, "write its tag (NAME:TAG)")
        return image.text.replace("/", "#", 1) if image.host else image.text


def beginning_with_a_folder(path: str) -> str:
    """Return a path that no name of an image can be taken for."""
    return path if path.startswith((".", "/")) else f"./{path}"


# --- Pyxis

_ORIGIN: Final = Origin("container", "pyxis")


_NO_LOCAL: Final = "s:/etc/rc[.]local:/dev/null:"
_IN_WORKDIR: Final = 's:^cd .*:cd "$0" || exit 1:'
_RC: Final = 'rc=$(sed "$0" /etc/rc) && exec sh -c "$rc" "$@"'


class Pyxis(Enroot):
    """``srun --container-image``; images of registries, and files in enroot's own format."""

    name = "pyxis"
    # "--container-image specified multiple times" ends srun (pyxis, args.c).
    single_options: Mapping[str, str] = {
        "--container-image": "write `build: {image: ...}`",
        "--container-mounts": "write `build: {binds: [...]}`",
        "--container-workdir": "write `run: {workdir: ...}`",
        "--container-env": "remove it: variables of `environment.env_vars` win over the image's",
        "--no-container-entrypoint": "write `run: {entrypoint: image}`, or a `cmd`",
        "--container-entrypoint": "write `run: {entrypoint: image}`, or a `cmd`",
    }
    in_workdir = True

    def fetch(self, container: Container) -> tuple[str, ...]:
        """Return ``enroot import`` for a registry's image: each node would fetch it (enroot-import(1))."""
        is_file = image_of(container.image).form == "file"
        return () if is_file else ("sqsh", "enroot", "import", "--output", f"docker://{container.image}")

    def launcher_words(
        self, job: JobSpec, container: Container, environment: Environment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return srun's options."""
        return tuple(_words(job, container, environment, runtime))

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return nothing: all that srun starts is inside already."""
        del job, container, runtime
        return ()

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return a shell that runs the image's ``/etc/rc``, in ``workdir`` where there is one."""
        changes = f"{_NO_LOCAL};{_IN_WORKDIR}" if container.workdir else _NO_LOCAL
        texts = ("sh", "-c", _RC, changes, container.workdir or "rc")
        return tuple(Word(text=text, origin=_ORIGIN) for text in texts)


def names(variables: Iterable[Variable]) -> list[str]:
    """Return the names of the variables of all tasks that win over the image's."""
    return [item.name for item in variables if not item.name.startswith("POLYAXON_")]


def _words(job: JobSpec, container: Container, environment: Environment, runtime: Runtime) -> Iterator[Word]:
    if container.fetch:
        yield Word.raw('--container-image="$hpcdist_image"', job.origins["image"])
    else:
        yield Word(text=f"--container-image={container.image}", origin=job.origins["image"])
    mounts = ",".join(bind.text for bind in container.binds)
    mounts = mounts.replace(f",{RUN_FOLDER}", f"${{HPCDIST_RUN_DIR:+,{RUN_FOLDER}}}")
    yield Word.raw(f'--container-mounts="{mounts}"', _ORIGIN)
    if container.workdir and not container.entrypoint:
        yield Word(text=f"--container-workdir={container.workdir}", origin=_ORIGIN)
    else:
        yield Word.raw('--container-workdir="$PWD"', _ORIGIN)
    yield Word(text=f"--container-env={','.join(names(environment.variables))}", origin=_ORIGIN)
    if container.entrypoint:
        yield Word(text="--no-container-entrypoint", origin=_ORIGIN)
    yield from args(job, runtime)


PYXIS: Final = Pyxis()
