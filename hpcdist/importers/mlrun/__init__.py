"""MLRun: a function of kind ``mpijob`` or ``job``, alone or as the only mpijob of a project.

Fields: mlrun 1.10 (``mlrun/runtimes/pod.py``, ``mlrun/runtimes/mpijob/abstract.py``). Its
mpijob runs one process on each of ``replicas`` pods, and passes params to the program in MLRUN_EXEC_CONFIG,
or to the function that is the handler. A ``local`` function is a job of one process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.base.words import join, quote
from hpcdist.importers import Form, Imported, container
from hpcdist.importers.container import finish_with_command, ignore_set_keys, skip_empty
from hpcdist.importers.job import ForeignJob, Role, Sourced, put_name
from hpcdist.importers.launch_lines import (
    Line,
    RankCount,
    UnsupportedLaunch,
    parse_launch_line,
    ranks_of,
    report_line,
)
from hpcdist.importers.mlrun import command
from hpcdist.importers.reading import Reading, one_of, with_value

# --- Projects of MLRun: the only function of kind ``mpijob`` is run, else the only job

_SERVER: Final = "it is for a server of MLRun"
_IGNORED: Final = {
    **dict.fromkeys(("workflows", "workflow"),
                    "one function is run, not its workflow; chain jobs with `batch.dependency`"),
    "artifacts": "artifacts are not stored",
    "artifact_path": "what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
    "params": "they are the workflows'; write those of the function in its `spec.parameters`",
    **dict.fromkeys(("source", "origin_url", "subpath", "load_source_on_run", "workdir"),
                    "code is not fetched: the job runs the code in the submit directory"),
    **dict.fromkeys(
        ("desired_state", "goals", "owner", "conda", "custom_packagers", "default_function_node_selector",
         "default_image", "build", "notifications", "alert_template", "status", "mountdir", "secret_sources",
         "description", "disable_auto_mount", "requirements", "default_requirements", "user_project",
         "context", "branch", "tag", "repo", "pre_load_data"), _SERVER,
    ),
}  # fmt: skip
_ENTRY: Final = {"tag": _SERVER,
                 "with_repo": "code is not fetched: the job runs the code in the submit directory",
                 "requirements": "hpcdist builds no images", "hash": _SERVER}  # fmt: skip


_FILE: Final = re.compile(r"(?!\w+://).+\.ya?ml")
"""A file with a function, as an entry of a project names it."""


def is_project(data: Map) -> bool:
    """Decide by the kind with functions, or, in older projects, by functions with workflows."""
    spec = data.get("spec")
    inner = isinstance(spec, Mapping) and bool(spec.keys() & {"functions", "workflows"})
    if data.get("kind") == "project":
        return "run" not in data and (inner or "functions" in data or isinstance(spec, Mapping))
    return "kind" not in data and "functions" in data and "workflows" in data


class ProjectEntry(NamedTuple):
    """A function of a project: the function itself, a program, or the name of a file or of a hub."""

    path: Path
    """That of the function, or of the entry."""
    at: int
    name: str
    kind: object
    url: str
    is_program: bool
    """Whether the entry names a program, of kind mpijob or job, instead of a function."""

    @property
    def is_job(self) -> bool:
        """Whether a batch job can run it."""
        return self.kind in ("job", "mpijob", "local") or self.is_program


def _list_of(read: Reading) -> Path:
    return (*(("spec",) if isinstance(read.peek("spec"), Mapping) else ()), "functions")


def entries(data: Map) -> list[ProjectEntry]:
    """Return the functions of a project."""
    read = Reading(data)
    return [
        _entry(read, (*_list_of(read), at), at) for at, one in read.items(*_list_of(read)) if one is not None
    ]


def _entry(read: Reading, path: Path, at: int) -> ProjectEntry:
    spec = read.peek(*path, "spec")
    inside = isinstance(spec, Mapping) and "kind" in spec
    kind = read.peek(*path, *(["spec"] if inside else []), "kind")
    name = read.peek(*path, "name") or read.peek(*path, "spec", "metadata", "name") or f"number {at}"
    url = read.peek(*path, "url")
    where, is_program = (*path, "spec") if inside else path, is_program_entry(read, path)
    return ProjectEntry(where, at, str(name), kind, str(url or "no kind"), is_program)


def is_program_entry(read: Reading, path: Path) -> bool:
    """Return `ProjectEntry.is_program` of an entry of a project."""
    url, kind = read.peek(*path, "url"), read.peek(*path, "kind")
    named = isinstance(url, str) and url.endswith(".py") and "://" not in url
    return named and kind in (None, "", "job", "mpijob", "local") and read.peek(*path, "spec") is None


def chosen(read: Reading) -> Path | None:
    """Return the path of the function to run; None, with an error, if there is not exactly one."""
    read.get("kind")
    where = _list_of(read)
    for above in {(), where[:-1]}:
        ignore_set_keys(read, _IGNORED, *above)
    ignore_set_keys(read, {"labels": _SERVER, "annotations": _SERVER, "created": _SERVER}, "metadata")
    for path in (("metadata", "name"), ("name",)):
        if isinstance(read.get(*path), str) and read.peek(*path):
            read.put("project", read.peek(*path), *path)
    items = entries(read.data)
    found = [one for one in items if one.kind == "mpijob"] or [one for one in items if one.is_job]
    if len(found) != 1:
        _refuse(read, where, found, items)
        return None
    for one in items:
        if one is not found[0]:
            read.get(*where, one.at)
            read.warn(*where, one.at, why=f"the function {one.name} is not run: only {found[0].name} is")
    return _function_of(read, found[0], (*where, found[0].at))


def _refuse(read: Reading, where: Path, found: list[ProjectEntry], items: list[ProjectEntry]) -> None:
    files = [one for one in items if _FILE.fullmatch(one.url)]
    several = found or (files if len(files) > 1 else [])
    read.get(*where)
    if several:
        names = ", ".join(one.name for one in several)
        hint = f"choose one: `--name {quote(several[0].name)}`"
        read.refuse(*where, why=f"this project has several functions: {names}", hint=hint)
    else:
        others = ", ".join(f"{one.name} ({one.kind or one.url})" for one in items)
        hint = f"there are: {others}" if others else "write one, or give the file of a function"
        read.refuse(*where, why="no function in this file is a job", hint=hint)


def _function_of(read: Reading, entry: ProjectEntry, path: Path) -> Path | None:
    """Return the path of the function of an entry, or of an entry that names its program."""
    if entry.path != path:
        name, own = read.get(*path, "name"), read.peek(*path, "spec", "metadata", "name")
        if name and own and name != own:
            read.warn(*path, "name", why=f"the job is named {own!r}, as the function itself is")
    elif isinstance(read.peek(*path, "spec"), Mapping) or read.peek(*path, "metadata") is not None:
        return path
    ignore_set_keys(read, _ENTRY, *path)
    if entry.path != path or entry.is_program:
        return entry.path
    hint = "give that file, or write the function here, with `kind`, `metadata` and `spec`"
    read.get(*path)
    read.refuse(*path, why="the function is not in this file", hint=hint)
    return None


def named_file(data: Map) -> tuple[Path, str] | None:
    """Return the key and the file of the only function that is in a file; None if there is a job."""
    items = entries(data)
    files = [one for one in items if _FILE.fullmatch(one.url)]
    if len(files) != 1 or any(one.is_job for one in items):
        return None
    return (*files[0].path, "url"), files[0].url


def with_file(data: Map, other: Map) -> Map:
    """Return the project with the function of `named_file`; its entry may change image and handler."""
    found = named_file(data)
    if found is None:
        return data
    changed: Map = with_value(data, found[0][:-1], lambda item: _with_function(item, other))
    return changed


def _with_function(item: Map, function: Map) -> Map:
    spec = function.get("spec")
    spec = spec.copy() if isinstance(spec, Map) else Map(place=function.place)
    for key, name in (("image", "image"), ("handler", "default_handler")):
        if key in item:
            spec.copy_from(item, key, name)
    new, whole = Map(place=item.place), function.copy()
    whole.put("spec", spec, spec.place)
    if "name" in item:
        new.copy_from(item, "name")
    new.put("spec", whole, whole.place)
    return new


# --- Replicas of a function of MLRun, and the options of mpirun for them


def put_replicas(read: Reading, job: ForeignJob, spec: Path, *, distributed: bool) -> None:
    """Take the replicas, by default one, and the variables of ``mpi_args``."""
    where = (*spec, "resources")
    role = job.roles["master"] = Role(resources=container.amounts(read, *where), resources_source=where)
    if not distributed:
        ignore_set_keys(read, {"replicas": "a job is one process", "mpi_args": _SERVER}, *spec)
        return
    count = read.whole(*spec, "replicas", least=1)
    if read.peek(*spec, "replicas") is None:
        why = "there is no `replicas` here (exports leave it out): one process is planned"
        hint = "write `replicas: 4`, or give `--set environment.replicas.n_workers=3` for four"
        read.warn(*spec, why=why, hint=hint)
    found = _mpi_args(read, job, (*spec, "mpi_args"), RankCount(count or 1, 1))
    job.roles["worker"] = role._replace(count=found.replicas - 1, source=(*spec, "replicas"))
    if role.gpus not in (0, 1):
        job.slots = Sourced(1, where)


def _mpi_args(read: Reading, job: ForeignJob, path: Path, room: RankCount) -> RankCount:
    """Take the options of mpirun, which may be one word with a space."""
    words = container.words(read, *path)
    if not words:
        return room
    texts = [words] if isinstance(words, str) else [_options(word) for word in words]
    try:
        line = _line(" ".join(texts))
    except UnsupportedLaunch as reason:
        why = f"these options are of an mpirun {reason}"
        read.refuse(*path, why=why, hint="remove that, or set it by `batch.launcher`")
        return room
    if line.per_node not in (None, "1"):
        why = f"{line.per_node} processes per replica, but MLRun starts one"
        read.refuse(*path, why=why, hint="write more replicas")
        return room
    job.env |= {
        name: Sourced(container.escape_templates(value), path) for name, value in line.variables.items()
    }
    report_line(read, line, job.env, path)
    return ranks_of(read, line, room, path, "`replicas`")


def _options(word: str) -> str:
    """Return shell text; ``-x A=B`` in one word is an option with its value."""
    return word if re.match(r"-\S+ ", word) else join([word])


def _line(options: str) -> Line:
    line = parse_launch_line(f"mpirun {options} program", {})
    if line is None or line.command != "program":
        words = line.command.removesuffix(" program") if line else options
        raise UnsupportedLaunch(f"that starts {words!r}, which is not one of its options")
    if line.folder:
        raise UnsupportedLaunch(f"that works in {line.folder}")
    return line


# --- MLRun

_FUNCTION: Final = (
    "give the file of its function, with the parameters in `spec.parameters`, and lists of them in "
    "`spec.hyperparams`"
)
_OTHERS: Final = {
    **dict.fromkeys(("dask", "spark", "remote-spark", "databricks"),
                    "start its cluster from the command of a job of your own"),
    **dict.fromkeys(("nuclio", "remote", "serving", "application"),
                    "it serves requests, which a batch job does not"),
    "handler": "write `kind: job`, with the program in `spec.command`",
}  # fmt: skip
_KINDS: Final = frozenset({"mpijob", "job", "local", "", "run", "task", *_OTHERS})
_OF_FUNCTIONS: Final = frozenset(
    {"build", "default_handler", "entry_points", "mpi_args", "image_pull_policy", "disable_auto_mount"}
)
_OF_TASKS: Final = frozenset(
    {"hyperparams", "hyper_param_options", "param_file", "handler", "secret_sources", "output_path"}
)
"""Keys that only the ``spec`` of a function, or of a task, has."""
_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_NODES: Final = "choose nodes with `batch.partition` or `batch.constraint`"
_RIGHTS: Final = "the job runs as you, with your own rights"
_MLRUN_IGNORED: Final = {
    **dict.fromkeys(("volumes", "volume_mounts", "disable_auto_mount"), _MOUNTS),
    **dict.fromkeys(("node_name", "node_selector", "affinity", "tolerations", "preemption_mode",
                     "priority_class_name"), _NODES),
    **dict.fromkeys(("service_account", "security_context", "auth"), _RIGHTS),
    **dict.fromkeys(("image_pull_policy", "image_pull_secret"), "the site's container runtime gets images"),
    "entry_points": "it only lists the functions of the code",
    **dict.fromkeys(("clone_target_dir", "allow_empty_resources", "reset_on_run",
                     "track_models", "filename", "serving_spec", "graph", "output_path",
                     "secret_sources", "rundb", "mount_applied", "input_path", "data_stores",
                     "scrape_metrics"), _SERVER),
    **dict.fromkeys(("outputs", "returns"), "what the program records or writes is kept"),
    "notifications": "the batch system sends mail: `batch.mail`",
    "schedule": "the job is submitted once; submit it by cron",
    "retry": "the batch system requeues a job: `batch.requeue`",
    "clean_pod_policy": "there are no pods",
}  # fmt: skip
_METADATA: Final = dict.fromkeys(
    ("tag", "hash", "updated", "labels", "annotations", "uid", "credentials", "namespace"), _SERVER
)
_BUILD: Final = {
    **dict.fromkeys(
        ("base_image", "commands", "requirements", "secret", "registry", "with_mlrun", "auto_build", "extra",
         "extra_args", "builder_env", "image", "build_pod", "overwrite"),
        "hpcdist builds no images; install what the program needs, or build the image beforehand",
    ),
    **dict.fromkeys(("source", "load_source_on_run", "source_code_target_dir"),
                    "code is not fetched: the job runs the code in the submit directory"),
    "code_origin": "it only records the origin of the code",
}  # fmt: skip
_AUTOTUNE: Final = re.compile(r"autotune-[a-z-]+")
_ARTIFACT: Final = "this is an artifact of MLRun, which describes what a run has written: it runs nothing"
_THRESHOLD: Final = re.compile(r"(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?")


class MLRun(Form):
    """The importer of functions and projects; ``--set handler=NAME`` names the function to call."""

    settings = frozenset({"handler"})

    def recognises(self, data: Map) -> bool:
        """Decide by the kind and its sections, or by the lists of a project."""
        if data.keys() & {"apiVersion", "$schema"}:
            return "mlrunVersion" in data
        if is_project(data) or _is_artifact(data):
            return True
        kind, spec = data.get("kind"), data.get("spec")
        if not isinstance(spec, Mapping) or "run" in data:
            return False
        if kind is None:
            return "metadata" in data and bool(spec.keys() & (_OF_FUNCTIONS | _OF_TASKS))
        return isinstance(kind, str) and kind in _KINDS

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the functions of a project."""
        return (
            one_of({(*_list_of(Reading(data)), one.at): one.name for one in entries(data)}, data)
            if is_project(data)
            else {}
        )

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the file of a project's only function, or of a search."""
        return named_file(data) if is_project(data) else command.param_file_in(data)

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the project with the function of that file, or the function with its lists."""
        if is_project(data):
            return with_file(data, other)
        named = command.param_file_in(data)
        return with_value(data, named[0], lambda _: other) if named else data

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when there is nothing to run; the remarks are its problems.
        """
        read, job = Reading(data), ForeignJob()
        skip_empty(read)
        if _is_artifact(data):
            read.get()
            read.refuse(why=_ARTIFACT, hint="give the file of the function, or of its project")
            return finish_with_command(read)
        base = chosen(read) if is_project(data) else ()
        if base is not None and is_program_entry(read, base):
            _program_entry(read, job, base)
        elif base is not None:
            _function(read, job, base)
        job.write(read)
        return finish_with_command(read)


IMPORTER: Final = MLRun()


def _function(read: Reading, job: ForeignJob, base: Path) -> None:
    kind = read.get(*base, "kind")
    spec = (*base, "spec")
    if kind not in ("mpijob", "job", "local", ""):
        read.get(*spec)
        read.get()  # the file is refused as a whole: report no single keys
        _refuse_kind(read, base, kind)
        return
    ignore_set_keys(read, {"verbose": "log levels are the program's", "status": _SERVER}, *base)
    _metadata(read, (*base, "metadata"))
    ignore_set_keys(read, _MLRUN_IGNORED, *spec)
    ignore_set_keys(read, _BUILD, *spec, "build")
    _thresholds(read, job, (*spec, "state_thresholds"))
    if read.text(*spec, "description"):
        read.put("description", read.text(*spec, "description"), *spec, "description")
    _image(read, job, spec)
    params = command.params_of(read, spec)
    _variables(read, job, (*spec, "env"))
    for name, text in command.params_variable(params).items():
        job.env[name] = Sourced(text, (*spec, "parameters"))
    if kind == "mpijob":
        job.set("framework", "mpi", *base, "kind")
    put_replicas(read, job, spec, distributed=kind == "mpijob")
    if folder := read.text(*spec, "pythonpath"):
        job.env["PYTHONPATH"] = Sourced(container.escape_templates(folder), (*spec, "pythonpath"))
    command.put_command(read, job, spec, params)


def _image(read: Reading, job: ForeignJob, path: Path) -> None:
    image = read.text(*path, "image") or ""
    if image.startswith("."):
        why = f"{image} is not used: it is in the registry of MLRun's server"
        read.warn(*path, "image", why=why, hint="give `--set build.image=REGISTRY/NAME`")
    elif image:
        job.image = Sourced(image, (*path, "image"))


def _is_artifact(data: Map) -> bool:
    """Decide by the keys of an artifact, which older versions have at the top."""
    spec = data.get("spec")
    keys = data.keys() | (spec.keys() if isinstance(spec, Mapping) else ())
    return {"db_key", "producer"} <= keys or {"target_path", "tree"} <= keys


def _refuse_kind(read: Reading, base: Path, kind: object) -> None:
    spec = (*base, "spec")
    if "mlrunVersion" in read.data:
        hint = "give the function itself: function.yaml, next to it"
        read.refuse("mlrunVersion", why="this is an entry of MLRun's list of functions", hint=hint)
    elif kind is None:
        task = bool(_OF_TASKS & set(read.keys(*spec)))
        what = "a task" if task else "a function"
        hint = _FUNCTION if task else "write `kind: mpijob`, or `kind: job` for one process"
        read.refuse(*base, "kind", why=f"it looks like {what} of MLRun, without its `kind`", hint=hint)
    elif kind in ("run", "task"):
        read.refuse(
            *base,
            "kind",
            why=f"a {kind} of MLRun names its function, and does not contain it",
            hint=_FUNCTION,
        )
    else:
        hint = _OTHERS.get(str(kind), "write `kind: mpijob`")
        read.refuse(*base, "kind", why=f"functions of kind {kind!r} are not run", hint=hint)


def _program_entry(read: Reading, job: ForeignJob, path: Path) -> None:
    """Read an entry of a project that only names its program: ``{url: train.py, kind: mpijob}``."""
    _metadata(read, path)
    _image(read, job, path)
    distributed = read.get(*path, "kind") == "mpijob"
    if distributed:
        job.set("framework", "mpi", *path, "kind")
    put_replicas(read, job, path, distributed=distributed)
    command.put_program(read, job, path)


def _metadata(read: Reading, path: Path) -> None:
    if name := read.text(*path, "name"):
        put_name(read, name, *path, "name")
    if read.text(*path, "project"):
        _check_project(read, (*path, "project"))
        read.move("project", *path, "project")
    if read.get(*path, "categories"):
        read.move("tags", *path, "categories")
    ignore_set_keys(read, _METADATA, *path)


def _check_project(read: Reading, path: Path) -> None:
    """Warn if a file and its function name different projects."""
    other = read.native.get("project")
    if other not in (None, read.peek(*path)):
        read.warn(*path, why=f"this project is used, not {other!r}, which is given outside the function")


def _variables(read: Reading, job: ForeignJob, path: Path) -> None:
    """Take the variables; rename variables of ``with_autotune``, which shells cannot export."""
    index = {read.text(*path, at, "name"): at for at, _ in read.items(*path)}
    for name, value in container.variables(read, *path).items():
        new = f"HOROVOD_{name.upper().replace('-', '_')}" if _AUTOTUNE.fullmatch(name) else name
        if new != name:
            why = f"{name} becomes {new}: Horovod does not read the other name, and no shell exports it"
            read.warn(*path, why=why)
        job.env[new] = Sourced(container.escape_templates(value), (*path, index[name]))


def _thresholds(read: Reading, job: ForeignJob, path: Path) -> None:
    """Take the time limit; ignore the limits of waiting."""
    time = read.text(*path, "executing")
    if time and time != "-1":
        if not _THRESHOLD.fullmatch(time):
            read.refuse(
                *path, "executing", why=f"{time!r} is not a time limit", hint="write 90m, 1h30m or -1"
            )
        else:
            job.set("batch.walltime", time, *path, "executing")
    for key in read.keys(*path):
        if key != "executing":
            read.ignore(*path, key, why="the batch system decides how long a job waits")
