"""MLRun: a function of kind ``mpijob`` or ``job``, alone or as the only mpijob of a project.

The fields are those of mlrun 1.10 (``mlrun/runtimes/pod.py``, ``mlrun/runtimes/mpijob/abstract.py``): its
mpijob runs one process on each of ``replicas`` pods, and passes params to the program in MLRUN_EXEC_CONFIG,
or to the function that is the handler. A ``local`` function is a job of one process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers import Imported, container
from hpcdist.importers.container import finish_with_command, ignore_set_keys, skip_empty
from hpcdist.importers.mlrun import command, project, search
from hpcdist.importers.mlrun.replicas import Variables, put_replicas
from hpcdist.importers.reading import Reading, one_of
from hpcdist.words import RUN_NAME, slug

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
_SERVER: Final = "it is for a server of MLRun"
_RIGHTS: Final = "the job runs as you, with your own rights"
_IGNORED: Final = {
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


class MLRun:
    """The importer of functions and projects; ``--set handler=NAME`` names the function to call."""

    settings: Final = frozenset({"handler"})

    def recognises(self, data: Map) -> bool:
        """Decide by the kind and its sections, or by the lists of a project."""
        if data.keys() & {"apiVersion", "$schema"}:
            return "mlrunVersion" in data
        if project.is_project(data) or _is_artifact(data):
            return True
        kind, spec = data.get("kind"), data.get("spec")
        if not isinstance(spec, Mapping) or "run" in data:
            return False
        if kind is None:
            return "metadata" in data and bool(spec.keys() & (_OF_FUNCTIONS | _OF_TASKS))
        return isinstance(kind, str) and kind in _KINDS

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the functions of a project, as `ContainsJobs.jobs`."""
        return one_of(project.functions(data), data) if project.is_project(data) else {}

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the file of a project's only function, or of a search, as `NamesFile.file_named_in`."""
        return project.named_file(data) if project.is_project(data) else search.file_named_in(data)

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the project with the function of that file, or the function with its lists."""
        if project.is_project(data):
            return project.with_file(data, other)
        named = search.file_named_in(data)
        return search.with_file(data, named[0], other) if named else data

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when there is nothing to run; the remarks are its problems.
        """
        read = Reading(data)
        skip_empty(read)
        if _is_artifact(data):
            read.get()
            read.refuse(why=_ARTIFACT, hint="give the file of the function, or of its project")
            return finish_with_command(read)
        base = project.chosen(read) if project.is_project(data) else ()
        if base is not None and project.is_program_entry(read, base):
            _program_entry(read, base)
        elif base is not None:
            _function(read, base)
        return finish_with_command(read)


IMPORTER: Final = MLRun()


def _function(read: Reading, base: Path) -> None:
    kind = read.get(*base, "kind")
    spec = (*base, "spec")
    if kind not in ("mpijob", "job", "local", ""):
        read.get(*spec)
        read.get()  # the file is refused as a whole: report no single keys
        _refuse_kind(read, base, kind)
        return
    ignore_set_keys(read, {"verbose": "log levels are the program's", "status": _SERVER}, *base)
    _metadata(read, (*base, "metadata"))
    ignore_set_keys(read, _IGNORED, *spec)
    ignore_set_keys(read, _BUILD, *spec, "build")
    _thresholds(read, (*spec, "state_thresholds"))
    if read.text(*spec, "description"):
        read.put("description", read.text(*spec, "description"), *spec, "description")
    if read.text(*spec, "image"):
        read.put("build.image", read.text(*spec, "image"), *spec, "image")
    params = command.params_of(read, spec)
    env = _variables(read, (*spec, "env"))
    env |= {name: (text, (*spec, "parameters")) for name, text in command.params_variable(params).items()}
    if kind == "mpijob":
        read.put("framework", "mpi", *base, "kind")
    put_replicas(read, spec, env, distributed=kind == "mpijob")
    folder = read.text(*spec, "pythonpath")
    if folder:
        env["PYTHONPATH"] = container.escape_templates(folder), (*spec, "pythonpath")
    _put_variables(read, env)
    command.put_command(read, spec, params)


def _is_artifact(data: Map) -> bool:
    """Decide by the keys of an artifact, which older versions have at the top."""
    spec = data.get("spec")
    keys = data.keys() | (spec.keys() if isinstance(spec, Mapping) else ())
    return {"db_key", "producer"} <= keys or {"target_path", "tree"} <= keys


def _refuse_kind(read: Reading, base: Path, kind: object) -> None:
    spec = (*base, "spec")
    if "mlrunVersion" in read.data:
        hint = "give the function itself: function.yaml, beside it"
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


def _program_entry(read: Reading, path: Path) -> None:
    """Read an entry of a project that only names its program: ``{url: train.py, kind: mpijob}``."""
    _metadata(read, path)
    if read.text(*path, "image"):
        read.put("build.image", read.text(*path, "image"), *path, "image")
    distributed = read.get(*path, "kind") == "mpijob"
    if distributed:
        read.put("framework", "mpi", *path, "kind")
    put_replicas(read, path, {}, distributed=distributed)
    command.put_program(read, path)


def _metadata(read: Reading, path: Path) -> None:
    name = read.text(*path, "name")
    if name:
        if not RUN_NAME.fullmatch(name):
            read.warn(*path, "name", why=f"the job is named {slug(name)!r}: {name!r} is not a valid job name")
        read.put("name", name if RUN_NAME.fullmatch(name) else slug(name), *path, "name")
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


def _variables(read: Reading, path: Path) -> Variables:
    """Take the variables; rename those of ``with_autotune``, which no shell can export."""
    found: Variables = {}
    index = {read.text(*path, at, "name"): at for at, _ in read.items(*path)}
    for name, value in container.variables(read, *path).items():
        new = f"HOROVOD_{name.upper().replace('-', '_')}" if _AUTOTUNE.fullmatch(name) else name
        if new != name:
            read.warn(
                *path,
                why=f"{name} becomes {new}: Horovod does not read the other name, and no shell exports it",
            )
        found[new] = container.escape_templates(value), (*path, index[name])
    return found


def _put_variables(read: Reading, env: Variables) -> None:
    found = Map()
    for name, (text, source) in env.items():
        found.put(name, text, read.place(*source))
        read.origins["environment", "env_vars", name] = source
    if found:
        read.put("environment.env_vars", found, *next(iter(env.values()))[1])


def _thresholds(read: Reading, path: Path) -> None:
    """Take the time limit; ignore the limits of waiting."""
    time = read.text(*path, "executing")
    if time and time != "-1":
        if not _THRESHOLD.fullmatch(time):
            read.refuse(
                *path, "executing", why=f"{time!r} is not a time limit", hint="write 90m, 1h30m or -1"
            )
        else:
            read.put("batch.walltime", time, *path, "executing")
    for key in read.keys(*path):
        if key != "executing":
            read.ignore(*path, key, why="the batch system decides how long a job waits")
