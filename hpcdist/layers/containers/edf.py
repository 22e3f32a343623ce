"""EDF: CSCS' Container Engine, ``srun --environment=FILE``, whose file (EDF) the job writes before its tasks.

The engine is made of pyxis and enroot: srun starts the tasks inside, and the image needs what it needs with
pyxis. The file has the image, mounts, the working directory, annotations, which choose the site's hooks, and
variables: one that the image sets keeps its value unless it is among these. The engine fetches an image
itself, into ``$SCRATCH/.edf_imagestore``. It mounts NVIDIA's driver where ``NVIDIA_VISIBLE_DEVICES`` is set.
Its own ``entrypoint`` starts the image's ENTRYPOINT once for the tasks of a node, as that of pyxis does.

An environment of the user's, a file or a name in ``EDF_PATH``, is what the job's file is based on
(``base_environment``): its image, annotations and variables are used, and its mounts beside the job's.
github.com/eth-cscs/cscs-docs, docs/software/container-engine: run.md, edf.md, resource-hook.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.experiment.sources import Image
from hpcdist.layers.containers.plain import RUN_FOLDER, args
from hpcdist.layers.containers.pyxis import PYXIS, Enroot, beginning_with_a_folder, names
from hpcdist.plan.model import Container, Environment, JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.conditions import ConditionalText, text_of
from hpcdist.site.settings import Runtime
from hpcdist.words import in_double_quotes, quote

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
            return beginning_with_a_folder(image.text)
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
        own = names(variables)
        driver = (
            [f"{_DRIVER}=all"] if runtime.gpus and job.gpus.library == "nccl" and _DRIVER not in own else []
        )
        yield Word.raw(_lines(container, annotations, driver, own), Origin("container", self.name))

    def launcher_words(
        self, job: JobSpec, container: Container, environment: Environment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return srun's option, and the site's."""
        del container, environment
        file = Word.raw('--environment="$environment"', job.origins["image"])
        return (file, *args(job, runtime))

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return nothing: all that srun starts is inside already."""
        del job, container, runtime
        return ()


def _lines(
    container: Container, annotations: Mapping[str, str], driver: Sequence[str], own: Sequence[str]
) -> str:
    """Return the lines that write the file; a run directory may be there or not."""
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
