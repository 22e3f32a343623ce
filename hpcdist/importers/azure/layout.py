"""The size of an Azure ML job: instances, processes per instance, and the resources of an instance.

An instance becomes a replica: the first is the master, the others are the workers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.base.errors import Path, did_you_mean, dotted
from hpcdist.importers.container import escape_templates, export_hint
from hpcdist.importers.job import CloudMachine, ForeignJob, Role, Sourced, on_machine
from hpcdist.importers.reading import Reading

# --- Sizes of Azure's virtual machines: their GPUs and the type of these, or the CPUs and memory of others
#
# Source: the pages of the series below https://learn.microsoft.com/azure/virtual-machines/sizes/overview,
# "Accelerators" and "Basics". Pages of retired sizes list half as many GPUs if they count a card with two as
# one (NC, NV); for sizes with a part of a GPU, the one that programs see is counted.

_PREFIX: Final = re.compile(r"^(standard|singularity|basic)[._]", re.IGNORECASE)
_GPUS: Final = (
    (r"NC(\d+)r?s?", 6, "K80"),
    (r"NC(\d+)r?s?_v2", 6, "P100"),
    (r"NC(\d+)r?s?_v3", 6, "V100"),
    (r"NC(\d+)as_T4_v3", 16, "T4"),
    (r"NC(\d+)ads_A100_v4", 24, "A100-80G"),
    (r"NCC?(\d+)adi?s_H100_v5", 40, "H100"),
    (r"NC(\d+)l?ds_xl_RTXPRO6000BSE_v6", 128, "RTXPRO6000"),
    (r"ND(\d+)r?s", 6, "P40"),
    (r"ND(40)(?:r?s)?_v2", 5, "V100-32G"),
    (r"ND(96)am\w*_v4", 12, "A100-80G"),
    (r"ND(96)\w*_v4", 12, "A100"),
    (r"ND(96)\w*_(H100|H200|MI300X)_v5", 12, r"\2"),
    (r"ND(128)\w*_(GB[23]00)_v6", 32, r"\2"),
    (r"NV(\d+)s?(?:_v2)?", 6, "M60"),
    (r"NV(\d+)s_v3", 12, "M60"),
    (r"NV(\d+)as_v4", 32, "MI25"),
    (r"NV(\d+)adm?s_A10_v5", 36, "A10"),
    (r"NV(\d+)adm?s_V710_v5", 1000, "V710"),
    (r"NG(\d+)adm?s_V620_v1", 1000, "V620"),
)
"""The CPUs in a name, how many of them come with a GPU, and its type."""
_CPUS: Final = (
    (r"D(\d+)[a-km-z]*_v[3-7]", 4.0),
    (r"E([24]|8|16|20|32|48)[a-z]*_v[3-7]", 8.0),
    (r"F(\d+)s?(?:_v2)?", 2.0),
    (r"FX(\d+)mds", 21.0),
    (r"A(\d)_v2", 2.0),
    (r"A(\d)m_v2", 8.0),
)
"""The CPUs in a name, and the GiB of memory for each."""
_NUMBERED: Final = re.compile(r"DS?(\d+)(?:_v2)?", re.IGNORECASE)
_SIZE_OF_NUMBER: Final = {
    **{1 + at: (2**at, 3.5 * 2**at) for at in range(5)},
    **{10 + at: (2**at, 7.0 * 2**at) for at in range(1, 5)},
    15: (20, 140.0),
}
"""The CPUs and GiB of D and DS of the first two generations, whose names have a number instead."""
_WITHOUT_GPUS: Final = re.compile(r"(A|B|D|DS|DC|E|EC|F|FX|G|GS|H|HB|HC|HX|L|LS|M)\d.*", re.IGNORECASE)


def machine(size: str) -> CloudMachine | None:
    """Return the machine of a size (``Standard_ND96asr_v4``), one without GPUs or CPUs if it only lacks GPUs.

    None for an unknown size.
    """
    name = _PREFIX.sub("", size)
    for pattern, each, kind in _GPUS:
        if found := re.fullmatch(pattern, name, re.IGNORECASE):
            return CloudMachine(max(1, int(found[1]) // each), found.expand(kind).upper())
    for pattern, gib in _CPUS:
        if found := re.fullmatch(pattern, name, re.IGNORECASE):
            return CloudMachine(cpus=int(found[1]), gib=int(found[1]) * gib)
    found = _NUMBERED.fullmatch(name)
    if found and (of_number := _SIZE_OF_NUMBER.get(int(found[1]))):
        return CloudMachine(cpus=of_number[0], gib=of_number[1])
    return CloudMachine() if _WITHOUT_GPUS.fullmatch(name) else None


# --- ``distribution: {type: ray}`` of Azure ML: its keys become keys of ``framework: ray``
#
# Source: ``RayDistribution`` of azure-ai-ml 1.20 (``entities/_job/distribution.py``).

_IGNORED: Final = {
    "port": "the job has ports of its own",
    "address": "hpcdist starts the head on the first node",
}
_DASHBOARD: Final = 8265


def put_ray(read: Reading, job: ForeignJob, section: str) -> None:
    """Set the framework and its options."""
    job.set("framework", "ray", section, "type")
    read.ignore_all(_IGNORED, section)
    shown, port = read.get(section, "include_dashboard"), read.get(section, "dashboard_port")
    if shown is not False and (shown or port is not None):
        name = "dashboard_port" if port is not None else "include_dashboard"
        job.set("ray.dashboard_port", _DASHBOARD if port is None else port, section, name)
    head, workers = (_words(read, section, f"{name}_node_additional_args") for name in ("head", "worker"))
    if workers and workers != head:
        why = "options of `ray start` can be given for the head, or for all nodes"
        hint = "write the same in head_node_additional_args, or remove it"
        read.refuse(section, "worker_node_additional_args", why=why, hint=hint)
    elif head:
        key = "ray.args" if workers else "ray.head_args"
        job.set(key, head, section, "head_node_additional_args")


def _words(read: Reading, section: str, name: str) -> list[str]:
    """Return options, each with its value as one word."""
    try:
        words = shlex.split(read.text(section, name) or "")
    except ValueError:
        read.refuse(section, name, why="a quote is not closed")
        return []
    joined: list[str] = []
    for word in words:
        if joined and not word.startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


# --- The size of an Azure ML job

_KINDS: Final = {
    "mpi": "mpi", "pytorch": "pytorch", "torch.distributed": "pytorch", "tensorflow": "tensorflow",
    "ray": "ray",
}  # fmt: skip
_SETTINGS: Final = ("runsettings", "run_settings")
SETTINGS: Final = frozenset(
    {*_SETTINGS, "resources", "distribution", "launcher", "compute", "limits", "environment_variables",
     "code", "command", "display_name", "experiment_name", "jobs", "trial", "search_space",
     "sampling_algorithm"}
)  # fmt: skip
"""Keys that ``--set`` changes in an Azure file, as ``az ml job create --set`` does."""
_SECTIONS: Final[tuple[Path, ...]] = (
    ("resources",), ("compute",), *((name,) for name in _SETTINGS),
    *((name, "resource_layout") for name in _SETTINGS),
)  # fmt: skip
_COUNT: Final = ("instance_count", "node_count")
_TYPE: Final = ("instance_type", "instance_types")
_EACH: Final = ("process_count_per_instance", "process_count_per_node")
_TORCHRUN: Final = re.compile(
    r"(?<![\w.-])(torchrun|torch\.distributed\.(?:launch|run)|accelerate\s+launch)(?![\w-])"
)
_RESOURCES_IGNORED: Final = {
    "properties": "it is for Azure's own scheduler",
    "locations": "the site is one place",
    "shm_size": "shared memory is that of the node",
    "docker_args": "containers are started by the site's runtime",
    "max_instance_count": "the job keeps the nodes that it is given",
}
_CUDA: Final = re.compile(r"cuda|gpu", re.IGNORECASE)
GPUS_TO_SET: Final = (
    "`--set environment.resources.gpu.requests=G "
    "--set environment.replicas.default_worker.resources.gpu.requests=G`"
)


class Layout:
    """The instances of a file, taken into ``job`` by ``put``."""

    def __init__(self, read: Reading, job: ForeignJob, *, legacy: bool, command: str) -> None:
        self._read, self._job, self._legacy, self._command = read, job, legacy, command
        self._section = "launcher" if legacy and read.peek("launcher") is not None else "distribution"
        self._kind = self._read_kind()
        self._instances = self._count(*_COUNT)
        self._machine = self._read_machine()

    def put(self) -> None:
        """Set the framework, the replicas, their processes and their resources."""
        read = self._read
        {"mpi": self._mpi, "pytorch": self._pytorch, "tensorflow": self._tensorflow, "ray": self._ray}.get(
            self._kind, self._no_distribution
        )()
        if read.section("resources"):
            read.ignore_all(_RESOURCES_IGNORED, "resources")
        is_component = self._legacy or "component" in str(read.peek("$schema")).lower()
        if self._kind and is_component and self._instances is None:
            self._warn_of_count()
        elif (self._kind or _CUDA.search(str(read.peek("environment")))) and not self._names_machine():
            gpus = GPUS_TO_SET if self._kind else "`--set environment.resources.gpu.requests=G`"
            why = "no GPUs are requested: the file does not say which machine a node is"
            key = self._section if self._kind else "command"
            read.warn(key, why=why, hint=f"for G GPUs on each node write {gpus}")

    # --- read from the file

    def _read_kind(self) -> str:
        read, section = self._read, self._section
        if not read.section(section):
            return ""
        text = read.text(section, "type")
        if text is None:
            read.refuse(section, why="the kind of distribution is missing", hint="write `type: mpi`")
            return ""
        kind = _KINDS.get(text.lower(), "")
        if not kind:
            why = f"unknown distribution {text!r}"
            read.refuse(section, "type", why=why, hint=did_you_mean(text.lower(), _KINDS))
        return kind

    def _count(self, *names: str) -> int | None:
        """Take a count from any section of run settings; the same value may be given twice."""
        found: int | None = None
        for path in self._paths(*names):
            value = self._read.whole(*path, least=1)
            if found is not None and value not in (None, found):
                self._read.refuse(*path, why=f"{dotted(path)} is {value} here and {found} elsewhere")
            found = found or value
        return found

    def _paths(self, *names: str) -> Iterator[Path]:
        for section in (*_SECTIONS, (self._section,)):
            for name in names:
                if self._read.peek(*section, name) is not None:
                    yield (*section, name)

    def _path(self, *names: str) -> Path:
        """Return the first of these keys that is there, else the section."""
        return next(self._paths(*names), (self._section,))

    def _names_machine(self) -> bool:
        """Tell whether a key says where the job runs, for which there is a remark if its size is unknown."""
        paths: list[Path] = [("compute",), ("meta", "requireGpu"), *((name, "target") for name in _SETTINGS)]
        return any(self._read.peek(*path) is not None for path in (*self._paths(*_TYPE), *paths))

    def _read_machine(self) -> CloudMachine | None:
        """Return the machine of an instance, None if the file does not set it."""
        found = None
        for path in self._paths(*_TYPE):
            size = self._read.text(*path) or ""
            found = machine(size)
            if found is None:
                hint = f"write {GPUS_TO_SET} for G of them"
                self._read.warn(*path, why=f"the number of GPUs of {size!r} is unknown", hint=hint)
            elif not any(found):
                why = f"{size} has no GPUs, and its CPUs and memory are not requested"
                hint = "write `--set environment.resources.cpu.requests=N`, and `memory` for `cpu`"
                self._read.warn(*path, why=why, hint=hint)
        return found

    # --- taken into the job

    def _put_replicas(self, framework: str, workers: int, source: Path = (), servers: int = 0) -> None:
        job, instance = self._job, on_machine(self._read, self._machine, *self._path(*_TYPE))
        if framework:
            job.set("framework", framework, self._section, "type")
        job.roles["master"] = instance
        if self._kind:
            where = source or self._path(*_COUNT)
            job.roles["worker"] = instance._replace(count=workers or None, source=where)
        if servers:
            server = Role() if instance.gpus else instance
            where = (self._section, "parameter_server_count")
            job.roles["ps"] = server._replace(count=servers, source=where)
        if self._instances and workers + servers:
            nodes = min(self._instances, 1 + workers + servers)
            job.nodes = Sourced(nodes, self._path(*_COUNT))

    def _put_processes(self) -> int | None:
        """Take the processes of an instance, unless the command starts them; return their number."""
        read, path = self._read, (self._section, "process_count")
        each = self._count(*_EACH)
        if read.peek(*path) is not None:
            total, instances = read.whole(*path, least=1), self._instances or 1
            if total is not None and total % instances:
                why = f"{total!r} processes cannot be divided evenly among {instances} instances"
                read.refuse(*path, why=why, hint="write `process_count_per_instance`")
            elif total is not None:
                each = total // instances
        found = _TORCHRUN.search(self._command)
        source = next(self._paths(*_EACH, "process_count"), (self._section, "type"))
        if not found:
            self._job.slots = Sourced(each or 1, source)
        elif each and each > 1:
            why = (
                f"{found[0]} starts the processes of an instance itself, and Azure would run it {each} times"
            )
            read.refuse(*source, why=why, hint="write 1 here, and the number in the command")
        return each

    def _mpi(self) -> None:
        self._put_replicas("mpi", (self._instances or 1) - 1)
        each = self._put_processes()
        if each != 1 and (each or self._legacy):  # programs take the GPU of their local rank
            self._job.set("batch.gpu_visibility", "node", self._section, "type")

    def _pytorch(self) -> None:
        self._put_replicas("pytorch", (self._instances or 1) - 1)
        self._put_processes()
        if not _TORCHRUN.search(self._command):
            self._job.set("pytorch.launch", "env", self._section, "type")

    def _ray(self) -> None:
        self._put_replicas("", (self._instances or 1) - 1)
        put_ray(self._read, self._job, self._section)

    def _tensorflow(self) -> None:
        read = self._read
        for path in self._paths(*_EACH):
            read.refuse(*path, why="a task of TensorFlow is one process", hint="write `worker_count`")
        instances = self._instances or 1
        workers = read.whole(self._section, "worker_count", least=1) or instances
        servers = read.whole(self._section, "parameter_server_count") or 0
        share = f"{workers} workers and {servers} parameter servers"
        if workers + servers > instances and self._machine:
            why = f"{share} share {instances} instances"
            read.warn(*self._path(*_TYPE), why=why, hint=f"write {GPUS_TO_SET} for G GPUs of each worker")
            self._machine = None
        elif workers + servers < instances:
            why = f"{share} leave some of {instances} instances idle"
            read.warn(*self._path(*_COUNT), why=why, hint="hpcdist asks for a node for each of them")
        key = (self._section, "worker_count")
        source = key if read.peek(*key) is not None else ()
        self._put_replicas("tensorflow", workers - 1, source, servers)
        if servers:
            self._job.set("tensorflow.chief", False, self._section)  # noqa: FBT003 - a value of the file

    def _no_distribution(self) -> None:
        self._count(*_EACH)
        if (self._instances or 1) > 1 and self._read.peek(self._section) is None:
            why = f"the file does not say what {self._instances} instances do"
            hint = "write `distribution: {type: mpi}` (or pytorch, tensorflow)"
            self._read.refuse(*self._path(*_COUNT), why=why, hint=hint)
        self._put_replicas("", 0)

    def _warn_of_count(self) -> None:
        """Warn that run settings are missing, which are never in the file of a component."""
        keys = ("resources.instance_count", "distribution.process_count_per_instance")
        if self._legacy:
            keys = ("runsettings.node_count", "runsettings.process_count_per_node")
        hint = f"for N nodes with P processes each write `--set {keys[0]}=N --set {keys[1]}=P`"
        if self._machine is None:
            hint += f", and for G GPUs each {GPUS_TO_SET}"
        why = "the number of nodes is not given: one node with one process is assumed"
        self._read.warn(self._section, why=why, hint=hint)


def settings_sections(read: Reading) -> Iterator[str]:
    """Yield the names of the sections of run settings that are there."""
    return (name for name in _SETTINGS if isinstance(read.peek(name), Mapping))


# --- The environment, variables and time limit of an Azure ML job, and the keys that have no effect here

_ABSENT: Final = "is kept in Azure"
_PYTHON: Final = "install its packages beforehand, or give `--set build.image=IMAGE`"
_NOT_BUILT: Final = f"hpcdist builds no environment; {_PYTHON}"
_IMAGE: Final = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S+")
"""An image with the host of its registry; names of Azure environments have none."""
_SECRET: Final = re.compile(r"\$\{\{\s*secrets\.[\w-]+\s*\}\}")
_ENVIRONMENT_IGNORED: Final = {
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
    read.ignore_all(_ENVIRONMENT_IGNORED)


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
