"""Polyaxon 0.0.3 to 0.6.1, all five generations, converted to the form of 0.6.

Nothing distinguishes them (``version`` is 1 in all of them), so every old key is read everywhere.
What moved: ``declarations`` (to 0.4.4), ``settings`` and ``run.image`` (to 0.1.0), the sections
``environment.tensorflow`` and its like (to 0.4.1), ``default_worker_resources`` (to 0.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base.errors import ConfigError, Key, Problem, did_you_mean
from hpcdist.base.tree import Map, Seq, texts_in
from hpcdist.importers import Form, Imported
from hpcdist.importers.polyaxon import command, contexts, normalise
from hpcdist.importers.polyaxon.normalise import Remarks

# --- Notebooks and TensorBoards: jobs of one task that serve a browser elsewhere

SERVED: Final = ("notebook", "tensorboard")
_BACKENDS: Final = ("lab", "notebook", "server")
_SERVER_PROGRAM: Final = 'python3 "$HPCDIST_RUN_DIR/runtime/python/hpcdist_service.py"'
_NOT_SERVED: Final = ("run", "framework", "hptuning")
_SERVED_SETTINGS: Final = frozenset({*_NOT_SERVED, "environment", "batch", "backend", "params"})
"""The keys, with values, that a serving job cannot have."""

_SERVED_PARAMS: Final = {"notebook": ("folder", "bind"), "tensorboard": ("logdir",)}


def is_served(command: str) -> bool:
    """Return whether a job with this command serves a browser."""
    return command.startswith(_SERVER_PROGRAM)


def _serve(data: Map, remarks: Remarks) -> None:
    """Convert it to an ordinary job with the command ``templates/python/hpcdist_service.py``."""
    kind = data.get("kind")
    if kind not in SERVED:
        return
    _check_service(data, kind, remarks)
    if isinstance(params := data.get("params"), Map):
        _check_service_params(params, kind, remarks)
    place = data.place_of("kind")
    words = [_SERVER_PROGRAM, kind, *([str(data.get("backend") or "lab")] if kind == "notebook" else [])]
    data.drop("backend")
    data.put("kind", "job", place)
    data.put("run", Map({"cmd": " ".join(words)}, place=place), place)


def _check_service(data: Map, kind: str, remarks: Remarks) -> None:
    for key in (key for key in _NOT_SERVED if key in data):
        remarks.refuse(data, (key,), f"a {kind} has a command of its own and one task", "remove it")
    environment, batch, backend = data.get("environment"), data.get("batch"), data.get("backend")
    if isinstance(environment, Map) and environment.get("replicas"):
        remarks.refuse(environment, ("environment", "replicas"), f"a {kind} has one task", "remove them")
    if isinstance(batch, Map) and batch.get("array") is not None:
        remarks.refuse(batch, ("batch", "array"), f"a {kind} is one server, with one address", "remove it")
    if kind == "tensorboard" and backend is not None:
        remarks.refuse(data, ("backend",), "a tensorboard has no backend", "remove it")
    if kind == "notebook" and backend not in (None, *_BACKENDS):
        hint = f"write {', '.join(_BACKENDS[:-1])} or {_BACKENDS[-1]}"
        remarks.refuse(data, ("backend",), f"there is no backend {backend!r} of notebooks", hint)


def _check_service_params(params: Map, kind: str, remarks: Remarks) -> None:
    known = _SERVED_PARAMS[kind]
    for name in params:
        path = ("params", name)
        if name not in known:
            message, hint = f"a {kind} has no param {name!r}", f"it has {' and '.join(known)}"
            remarks.warn(params, path, message, hint)
        elif name != "bind" and (not isinstance(params[name], str) or "{{" in params[name]):
            message = f"{name} is the path of a folder, used as it is written"
            remarks.refuse(params, path, message, "write a path")
    if kind == "notebook" and params.get("bind") not in (None, "loopback", "node"):
        message = "a notebook listens on the loopback of its node, or on all addresses of it"
        remarks.refuse(params, ("params", "bind"), message, "write loopback or node")


# --- Polyaxon 0.0.3 to 0.6.1, all five generations, converted to the form of 0.6

_NEWER: Final = "write 1; files of Polyaxon 1 and 2 have `run.kind` instead of `run.cmd`"
PIPELINES: Final = "`submit`, `check`, `plan` and `render` take one, and in Python `hpcdist.load_pipeline`"
_REWRITE: Final = "it is a file of Polyaxon 1 or 2, whose form is polyaxon_v1"
_KINDS: Final = {
    "component": _REWRITE,
    "operation": _REWRITE,
    "build": "hpcdist builds no images: build it beforehand, and name it in `build.image`",
    "pipeline": PIPELINES,
    "plugin": "write `kind: notebook`, `tensorboard`, or for a `run.cmd` `experiment`",
}
_RUN: Final = ("experiment", "job", *SERVED)
_GRAPH: Final = "start the program that trains from `run.cmd`"
_STEPS: Final = "write one experiment for each step, and chain them with `batch.dependency`"
_REFUSED: Final = {
    **dict.fromkeys(("model", "train", "eval"), ("Polyaxon's own graphs ended with Polyaxon 0.4", _GRAPH)),
    **dict.fromkeys(("ops", "templates"), ("a pipeline is many jobs", _STEPS)),
    "schedule": ("jobs are not repeated", "use cron"),
    "execute_at": ("the batch system decides when a job starts", "write it in `batch.directives`"),
    "timeout": ("the time of a batch job is its walltime", "write `batch: {walltime: HH:MM:SS}`"),
}
_TENSORFLOW_1: Final = re.compile(r"(?:.*/)?tensorflow[^:/]*:v?1(?:\.\d+)*(?:-.*)?")
_OF_BUILDS: Final = ("install", "environment", "params", "inputs", "outputs")
_LIBRARIES: Final = frozenset(
    ("caffe", "caffe2", "catboost", "cntk", "fastai", "ignite", "keras", "lightgbm", "onnx", "python",
     "pytorch-ignite", "pytorch-lightning", "scikit", "scikit-learn", "sklearn", "theano", "xgboost")
)  # fmt: skip
"""Libraries named as a framework that need no special launch."""
_RUN_TO_BUILD: Final = {"image": "image", "build_steps": "build_steps", "steps": "build_steps",
                        "env_vars": "env_vars", "git": "git"}  # fmt: skip


KEYS: Final = frozenset({*normalise.SEARCH_KEYS, *_REFUSED, "settings", "declarations", "termination"})
"""Top-level keys that experiments had, or that are refused by name."""
OF_REPLICAS: Final = normalise.OF_REPLICAS


class Polyaxon(Form):
    """The importer of files of Polyaxon 0.x, and of hpcdist's own, which are the same with ``batch``."""

    def settings_of(self, data: Map) -> frozenset[str]:
        """Return the keys with values that ``kind`` refuses, which an experiment does not have."""
        return _SERVED_SETTINGS if data.get("kind") in SERVED else frozenset({"batch"})

    def recognises(self, data: Map) -> bool:
        """Decide by the sections: every such file has one of them."""
        foreign = "apiVersion" in data or "$schema" in data
        if foreign:
            return False
        sections = any(key in data for key in ("run", "model", "environment", "hptuning"))
        return sections or data.get("kind") in SERVED

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is of a version or kind that hpcdist does not run.
        """
        _check_version_and_kind(data)
        remarks = Remarks()
        new = data.copy()
        if isinstance(settings := new.get("settings"), Map):
            new["settings"] = settings.copy()
        _serve(new, remarks)
        normalise.hptuning(new, remarks)
        _refuse_sections(new, remarks)
        _names(new, remarks)
        _settings(new, remarks)
        _run(new, remarks)
        command.operators(new)
        command.lines(new, remarks)
        _build(new, remarks)
        normalise.as_list(new, "tags")
        normalise.variables(new, remarks)
        normalise.termination(new, remarks)
        normalise.environment(new, remarks)
        _framework(new, remarks)
        _templates(new, remarks)
        return Imported(new, tuple(remarks))


IMPORTER: Final = Polyaxon()


def _check_version_and_kind(data: Map) -> None:
    problems = Remarks()
    version, kind = data.get("version", 1), data.get("kind")
    if version not in (1, "1", "1.0", None) or isinstance(version, bool):
        hint = _NEWER if str(version) == "1.1" else "write 1"
        problems.refuse(data, ("version",), f"files of version {version} are not read", hint)
    if kind == "pipeline":
        problems.refuse(data, ("kind",), "a pipeline is several runs, not one", _KINDS[kind])
    elif isinstance(kind, str) and kind in _KINDS:
        problems.refuse(data, ("kind",), f"files of kind {kind!r} are not run", _KINDS[kind])
    elif isinstance(kind, str) and kind not in (*_RUN, "group"):
        problems.refuse(data, ("kind",), f"there is no kind {kind!r}", did_you_mean(kind, _RUN))
    if problems:
        raise ConfigError(*problems)


def _refuse_sections(data: Map, remarks: Remarks) -> None:
    if data.get("kind") == "group":
        data.drop("kind")
    for key in (key for key in _REFUSED if key in data):
        remarks.refuse(data, (key,), *_REFUSED[key])
        data.drop(key)


def _names(data: Map, remarks: Remarks) -> None:
    """Move ``declarations`` to ``params``; take the name of the project, also for the job."""
    if "params" in data and "declarations" in data:
        remarks.refuse(data, ("declarations",), "`params` and `declarations` are the same", "keep `params`")
        data.drop("declarations")
    data.rename("declarations", "params")
    project = data.get("project")
    if isinstance(project, Map) and "name" in project:
        data.copy_from(project, "name", "project")
    if isinstance(data.get("project"), str) and "name" not in data:
        data.copy_from(data, "project", "name")
        data["name"] = str(data["name"]).rsplit("/", 1)[-1]


def _settings(data: Map, remarks: Remarks) -> None:
    """Take ``logging`` out of ``settings``; the rest of it was about searches and servers."""
    settings = data.get("settings")
    if isinstance(settings, Map):
        data.drop("settings")
        for key in settings:
            if key == "logging" and "logging" not in data:
                data.copy_from(settings, key)
            else:
                hint = "pass it to the program in `run.cmd`" if key == "seed" else ""
                place = settings.place_of(Key(key))
                path = ("settings", Key(key))
                remarks.append(Problem(f"{key!r} has no effect", path, hint, "warning", place))
    logging = data.get("logging")
    if isinstance(logging, Map) and "path" in logging:
        hint = "the output of the job is kept in its run directory"
        remarks.warn(logging, ("logging", "path"), "'path' has no effect", hint)
        data["logging"] = logging = logging.copy()
        logging.drop("path")


def _run(data: Map, remarks: Remarks) -> None:
    """Move the image keys of ``run`` (until 0.1.0) to ``build``."""
    run, build = data.get("run"), data.get("build")
    moved = [key for key in _RUN_TO_BUILD if isinstance(run, Map) and key in run]
    if not isinstance(run, Map) or not moved:
        return
    data["run"] = run = run.copy()
    new = build.copy() if isinstance(build, Map) else Map(place=run.place)
    for key in moved:
        name = _RUN_TO_BUILD[key]
        if name in new:
            message = f"`run.{key}` and `build.{name}` are the same"
            remarks.refuse(run, ("run", key), message, f"keep `build.{name}`")
        else:
            new.copy_from(run, key, name)
        run.drop(key)
    key_place = data.key_places.get("build") or run.place
    data.put("build", new, data.value_places.get("build") or run.place, key_place=key_place)


def _build(data: Map, remarks: Remarks) -> None:
    """Drop keys for the job that builds the image; list its steps, which some files name."""
    if not isinstance(data.get("build"), Map):
        return
    data["build"] = build = data["build"].copy()
    build.rename("steps", "build_steps")
    if isinstance(steps := build.get("build_steps"), Map):
        build["build_steps"] = Seq(place=steps.place)
        for name in steps:
            build["build_steps"].add(steps[name], steps.place_of(name), steps.texts.get(name))
    for key in (key for key in _OF_BUILDS if key in build):
        remarks.warn(build, ("build", key), f"{key!r} is for building the image, and hpcdist builds none")
        build.drop(key)


def _framework(data: Map, remarks: Remarks) -> None:
    """Drop a framework that is only a name; with replicas, Polyaxon requires a known one.

    Put the TensorFlow version of the image tag, if no section gives it.
    """
    name = data.get("framework")
    if isinstance(name, str) and name.lower() in _LIBRARIES and not _has_replicas(data):
        remarks.warn(data, ("framework",), f"{name!r} has no effect: the command is run as it is")
        data.drop("framework")
    if _image_tells_tensorflow_1(data):
        place = data["build"].place_of("image")
        data.put("tensorflow", Map({"version": "1"}, place=place), place)
        message = "an image of TensorFlow 1: the cluster calls its chief `master`"
        path = ("build", "image")
        remarks.append(Problem(message, path, normalise.TENSORFLOW_2, "warning", place))


def _image_tells_tensorflow_1(data: Map) -> bool:
    build = data.get("build")
    if data.get("framework") != "tensorflow" or "tensorflow" in data or not isinstance(build, Map):
        return False
    return _has_replicas(data) and bool(_TENSORFLOW_1.fullmatch(str(build.get("image"))))


def as_native(data: Map) -> Map:
    """Return an experiment from another form, changed so that reading it as native keeps its meaning."""
    new = command.keep_lines(data)
    if _image_tells_tensorflow_1(new):
        place = new.place_of("framework")
        new.put("tensorflow", Map({"version": "2"}, place=place), place)
    return new


def _templates(data: Map, remarks: Remarks) -> None:
    """Refuse templates of other runs, and others that only a server of Polyaxon fills in."""
    own = {*_entries(data.get("params")), *(str(item.get("name")) for item in _sections(data.get("inputs")))}
    own |= {*_entries(_entries(data.get("hptuning")).get("matrix"))}
    for key in data:
        for path, text in texts_in(data[key], (key,)):
            if path[-1] == "description":
                continue
            found = contexts.unknown_names(text, own, in_param=key in ("params", "inputs"))
            remarks += [Problem(unknown.why, path, unknown.hint) for unknown in found]


def _entries(section: object) -> Mapping[str, Any]:
    return section if isinstance(section, Mapping) else {}


def _sections(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _has_replicas(data: Map) -> bool:
    environment = data.get("environment")
    return isinstance(environment, Map) and bool(environment.get("replicas"))
