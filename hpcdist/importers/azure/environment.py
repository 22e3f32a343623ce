"""The environment, variables and time limit of an Azure ML job, and the keys that have no effect here."""

from __future__ import annotations

import re
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.azure.layout import GPUS_TO_SET, settings_sections
from hpcdist.importers.container import escape_templates, export_hint
from hpcdist.importers.job import ForeignJob, Sourced
from hpcdist.importers.reading import Reading

_ABSENT: Final = "is kept in Azure"
_PYTHON: Final = "install its packages beforehand, or give `--set build.image=IMAGE`"
_NOT_BUILT: Final = f"hpcdist builds no environment; {_PYTHON}"
_IMAGE: Final = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S+")
"""An image with the host of its registry; names of Azure environments have none."""
_SECRET: Final = re.compile(r"\$\{\{\s*secrets\.[\w-]+\s*\}\}")
_IGNORED: Final = {
    "intellectual_property": "hpcdist does not hide code or data",
    "identity": "the job runs as you, with your own rights",
    "services": "a batch job has no browser: start it from the command",
    "properties": "they are for Azure's own services",
    "queue_settings": "write `batch: {qos: ...}` for the queue of the site",
    "is_deterministic": "every submitted job runs",
    "schedule": "jobs are not repeated: use cron",
    "creation_context": "it describes the file in Azure",
    "datastores": _ABSENT,
    **dict.fromkeys(("settings", "defaults"), "a job runs alone, where the site determines"),
    "parent_job_name": "jobs have no parent: write `batch: {dependency: ...}` to run it after another",
}
_CONDA: Final = ("conda", "conda_file", "conda_dependencies_file", "build", "python", "name", "version",
                 "inference_config", "description", "tags", "$schema", "type")  # fmt: skip


def take_environment(read: Reading, job: ForeignJob) -> None:
    """Take the image; ignore the other keys of an environment, which hpcdist does not build."""
    value = read.peek("environment")
    if not isinstance(value, dict):
        _take_named(read, job, value)
        return
    read.section("environment")
    for path in (("environment", "image"), ("environment", "docker", "image")):
        image = read.peek(*path)
        if isinstance(image, str):
            _put_image(read, job, image, path)
        elif image is not None:
            read.refuse(*path, why=f"expected the name of an image, got {image!r}")
    if (read.text("environment", "os") or "linux").lower() != "linux":
        read.refuse("environment", "os", why="batch machines run Linux", hint="write `os: Linux`")
    for key in _CONDA:
        read.ignore("environment", key, why=_NOT_BUILT)
    for key in ("build", "arguments", "shared_volumes", "shm_size"):
        read.ignore("environment", "docker", key, why="hpcdist builds no image")


def _take_named(read: Reading, job: ForeignJob, value: object) -> None:
    """Take an environment that is a name: one kept in Azure, a file, or the image itself."""
    if isinstance(value, str) and _IMAGE.fullmatch(value):
        _put_image(read, job, value, ("environment",))
    elif isinstance(value, str) and value.startswith("file:"):
        read.ignore("environment", why=_NOT_BUILT)
    else:
        read.ignore("environment", why=f"it {_ABSENT}; {_PYTHON}")


def _put_image(read: Reading, job: ForeignJob, image: str, path: Path) -> None:
    if image.startswith("azureml:"):
        read.ignore(*path, why=f"it {_ABSENT}; {_PYTHON}")
    else:
        read.get(*path)
        job.image = Sourced(escape_templates(image), path)


def take_variables(read: Reading, job: ForeignJob) -> None:
    """Take variables, whose values are text."""
    sections: list[Path] = [("environment_variables",)]
    sections += [(name, "environment_variables") for name in settings_sections(read)]
    for path in sections:
        if not read.section(*path):
            continue
        for name in read.keys(*path):
            text = read.text(*path, name)
            if isinstance(read.peek(*path, name), (dict, list)):
                read.refuse(*path, name, why="a variable is text")
            elif text is not None and _SECRET.fullmatch(text):
                read.warn(*path, name, why=f"{name} comes from Azure", hint=export_hint(name))
            elif text is not None and "${{" in text:
                read.refuse(*path, name, why=f"{text!r} is not expanded here", hint="write it in the command")
            else:
                job.env[name] = Sourced(escape_templates(text or ""), (*path, name))


def take_rest(read: Reading, job: ForeignJob) -> None:
    """Take the compute target and the time limit, and ignore the keys that have no effect here."""
    for path in (("limits", "timeout"), *((name, "timeout_seconds") for name in settings_sections(read))):
        _walltime(read, job, path)
    has_resources = bool(job.roles["master"].resources)
    gpus = "the site determines where it runs" + (
        "" if has_resources else f"; for G GPUs on each node write {GPUS_TO_SET}"
    )
    if isinstance(read.peek("compute"), dict):
        read.section("compute")
        read.ignore("compute", "target", why=gpus)
    else:
        read.ignore("compute", why=gpus)
    for name in settings_sections(read):
        read.ignore(name, "target", why=gpus)
    _meta(read, has_resources=has_resources)
    if (read.text("successful_return_code") or "zero").lower() != "zero":
        why, hint = "a job has succeeded when its exit code is 0", "end the command with `|| true`"
        read.refuse("successful_return_code", why=why, hint=hint)
    if read.peek("distributed") is not None:
        hint = "write `distribution: {type: mpi, process_count_per_instance: N}`"
        read.refuse("distributed", why="this form, of the first previews, is not supported", hint=hint)
    read.ignore_all(_IGNORED)


def _meta(read: Reading, *, has_resources: bool) -> None:
    """Take ``requireGpu``, which requires that GPUs are requested; the rest is for Azure's designer."""
    if not read.section("meta"):
        return
    for key in read.keys("meta"):
        if key != "requireGpu":
            read.ignore("meta", key, why="it is for Azure's designer")
        elif read.get("meta", key) is True and not has_resources:
            why, hint = "the number of GPUs of each node is not given", f"write {GPUS_TO_SET} for G of them"
            read.warn("meta", key, why=why, hint=hint)


def _walltime(read: Reading, job: ForeignJob, path: Path) -> None:
    seconds = read.get(*path)
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 10**9:
        read.refuse(*path, why=f"expected a number of seconds, got {seconds!r}")
        return
    job.set("batch.walltime", f"{int(-(-seconds // 1))}s", *path)
