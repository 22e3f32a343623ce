"""Container runtimes on top of enroot, in which srun starts the tasks: Pyxis, and CSCS' Container Engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hpcdist.base.words import in_double_quotes, quote
from hpcdist.experiment.sources import Image, image_error, image_of
from hpcdist.layers.containers import RUN_FOLDER, PlainRuntime, site_args
from hpcdist.plan.model import Container, JobEnvironment, JobSpec, PreparedJob
from hpcdist.plan.values import Variable, Word
from hpcdist.site.fabric import ConditionalText, text_of
from hpcdist.site.settings import Runtime

# --- Enroot: its names for images, which the runtimes on top of it use


class Enroot(PlainRuntime):
    """A runtime whose images enroot fetches: from registries, and files in its own format."""

    name = "enroot"
    program = ""
    launchers = frozenset({"srun"})

    def image(self, image: Image) -> str:
        """Return the image as enroot names it: ``REGISTRY#NAME``; a file begins with ``.`` or ``/``.

        Raises:
            PlanError: for another format, or a digest, which enroot's names cannot have.
        """
        if image.form == "file" and image.text.endswith((".sqsh", ".squashfs")):
            return _with_folder(image.text)
        if image.form != "registry":
            hint = "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"
            raise image_error(image, self.name, hint)
        if "@" in image.text:
            raise image_error(image, self.name, "write its tag (NAME:TAG)")
        return image.text.replace("/", "#", 1) if image.host else image.text

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return nothing: all that srun starts is inside already."""
        del job, container, runtime
        return ()


def _with_folder(path: str) -> str:
    """Return a path that cannot be mistaken for an image's name."""
    return path if path.startswith((".", "/")) else f"./{path}"


# --- Pyxis: srun itself starts the tasks in the image, by enroot (github.com/NVIDIA/pyxis, wiki, "Usage")
#
# A task's shell runs inside, so the image needs bash and the usual small programs (sed, getent). Variables of
# the job are passed on, but one that the image sets keeps the image's value unless ``--container-env`` names
# it (pyxis 0.15). Enroot's hook makes the GPUs visible.
#
# ``--container-entrypoint`` starts the ENTRYPOINT once, around the container's first shell, and not around
# the tasks: one that trains instead of ``exec "$@"`` would end there ("container exited too soon").
# ``/etc/rc`` in the image starts it for a task; enroot writes it from WORKDIR, ENTRYPOINT and CMD
# (NVIDIA/enroot, doc/image-format.md and ``docker::configure``); in it ``/etc/rc.local`` comes first, in
# which pyxis runs its own command (pyxis_slurmstepd.c, ``enroot_create_start_config``).

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
        self, job: JobSpec, container: Container, environment: JobEnvironment, runtime: Runtime
    ) -> Iterator[Word]:
        """Yield srun's options."""
        if container.fetch:
            yield Word.raw('--container-image="$hpcdist_image"', job.origins["image"])
        else:
            yield Word(text=f"--container-image={container.image}", origin=job.origins["image"])
        mounts = ",".join(bind.text for bind in container.binds)
        mounts = mounts.replace(f",{RUN_FOLDER}", f"${{HPCDIST_RUN_DIR:+,{RUN_FOLDER}}}")
        yield Word.raw(f'--container-mounts="{mounts}"', self.origin)
        if container.workdir and not container.entrypoint:
            yield from self.own(f"--container-workdir={container.workdir}")
        else:
            yield Word.raw('--container-workdir="$PWD"', self.origin)
        yield from self.own(f"--container-env={','.join(_names(environment.variables))}")
        yield from self.own(*["--no-container-entrypoint"] * container.entrypoint)
        yield from site_args(job, runtime)

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return a shell that runs the image's ``/etc/rc``, in ``workdir`` where there is one."""
        changes = f"{_NO_LOCAL};{_IN_WORKDIR}" if container.workdir else _NO_LOCAL
        return (*self.own("sh", "-c", _RC, changes, container.workdir or "rc"),)


def _names(variables: Iterable[Variable]) -> list[str]:
    """Return the names of the variables of all tasks that override the image's."""
    return [item.name for item in variables if not item.name.startswith("POLYAXON_")]


PYXIS: Final = Pyxis()


# --- EDF: CSCS' Container Engine, ``srun --environment=FILE``; the job writes that file before its tasks
#
# The engine consists of pyxis and enroot: srun starts the tasks inside, and the image needs the same as with
# pyxis. The file has the image, mounts, the working directory, annotations, which choose the site's hooks,
# and variables: one that the image sets keeps its value unless it is among these. The engine fetches an image
# itself, into ``$SCRATCH/.edf_imagestore``. It mounts NVIDIA's driver where ``NVIDIA_VISIBLE_DEVICES`` is
# set. Its own ``entrypoint`` starts the image's ENTRYPOINT once for the tasks of a node, as in pyxis.
#
# An environment of the user's, a file or a name in ``EDF_PATH``, is what the job's file is based on
# (``base_environment``): its image, annotations and variables are used, its mounts are added to the job's.
# github.com/eth-cscs/cscs-docs, docs/software/container-engine: run.md, edf.md, resource-hook.md.

_DRIVER: Final = "NVIDIA_VISIBLE_DEVICES"


class Edf(Enroot):
    """``srun --environment``; images of registries, files in enroot's own format, and environments."""

    name = "edf"
    single_options: Mapping[str, str] = {
        **PYXIS.single_options,
        "--environment": "write `build: {image: FILE.toml}`, or the environment's name",
    }

    def image(self, image: Image) -> str:
        """Return the image as enroot names it, or the file of an environment.

        Raises:
            PlanError: for another format, or a digest.
        """
        if image.is_environment:
            return _with_folder(image.text)
        return super().image(image)

    def prepare(
        self, job: JobSpec, container: Container, variables: Sequence[Variable], runtime: Runtime
    ) -> Iterator[Word]:
        """Yield the lines that write the job's file."""
        annotations = {
            name: text_of(item)
            for name, item in runtime.annotations.items()
            if not isinstance(item, ConditionalText) or job.facts.satisfies(item)
        }
        own = _names(variables)
        driver = (
            [f"{_DRIVER}=all"] if runtime.gpus and job.gpus.library == "nccl" and _DRIVER not in own else []
        )
        yield Word.raw(_lines(container, annotations, driver, own), self.origin)

    def launcher_words(
        self, job: JobSpec, container: Container, environment: JobEnvironment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return srun's option, and the site's."""
        del container, environment
        file = Word.raw('--environment="$environment"', job.origins["image"])
        return (file, *site_args(job, runtime))


def _lines(
    container: Container, annotations: Mapping[str, str], driver: Sequence[str], own: Sequence[str]
) -> str:
    """Return the lines that write the file, with or without a run directory."""
    image, find, key = container.image, "", "image"
    own_settings = [
        *(["[annotations]"] if annotations else []),
        *(f'{name} = "{in_double_quotes(text)}"' for name, text in annotations.items()),
        "[env]",
        *('{0} = "{2}"'.format(*item.partition("=")) for item in driver),
    ]
    if image.endswith(".toml"):
        key, own_settings = "base_environment", ["[env]"]
    elif "/" not in image:
        found = f"[[ ! -e $folder/{quote(image)}.toml ]] || key=base_environment"
        find, key = f"key=image\nfor folder in ${{EDF_PATH//:/ }} ~/.edf; do {found}; done\n", "$key"
        own_settings = ["END", "  [[ $key != image ]] || cat <<END", *own_settings]
    place = in_double_quotes(image)
    mounts = ", ".join(f'"{bind.text}"' for bind in container.binds if bind.text != RUN_FOLDER)
    return "\n".join(
        (
            f"{find}environment=${{HPCDIST_RUN_DIR:-$PWD}}/environment.$SLURM_JOB_ID.toml",
            f'run=${{HPCDIST_RUN_DIR:+", \\"{RUN_FOLDER}\\""}}',
            "{",
            "  cat <<END",
            f'{key} = "{f"$PWD/{place}" if image.startswith(".") else place}"',
            f'workdir = "{in_double_quotes(container.workdir) if container.workdir else "$PWD"}"',
            f"mounts = [{mounts}$run]",
            *own_settings,
            "END",
            *(["  [[ $key == image ]] || echo '[env]'"] if key == "$key" else []),
            f"  for name in {' '.join(own)}; do",
            # In a string of TOML the engine expands ${...}.
            r"""    value=${!name//\\/\\\\} value=${value//\"/\\\"}""",
            r"    value=${value//$'\n'/\\n} value=${value//\$\{/\$\$\{}",
            '    [[ ! -v $name ]] || echo "$name = \\"$value\\""',
            "  done",
            '} >"$environment" || fail "cannot write $environment; is the disk full?"',
        )
    )


EDF: Final = Edf()
