"""Polyaxon 0.0.3 to 0.6.1, all five generations, converted to the form of 0.6.

Nothing distinguishes them (``version`` is 1 in all of them), so every old key is read everywhere.
What moved: ``declarations`` (to 0.4.4), ``settings`` and ``run.image`` (to 0.1.0), the sections
``environment.tensorflow`` and its like (to 0.4.1), ``default_worker_resources`` (to 0.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import ConfigError, Key, Path, Problem, did_you_mean
from hpcdist.importers import Form, Imported
from hpcdist.importers.polyaxon import command as commands
from hpcdist.importers.polyaxon import contexts, services
from hpcdist.importers.polyaxon import environment as environments

# --- Searches of Polyaxon 0.x as one section, ``hptuning``, with the keys of its last versions

SEARCH_KEYS: Final = ("matrix", "concurrency")
"""Keys of ``hptuning`` that stood at the top level until 0.0.4."""

SETTINGS: Final[Mapping[str, str]] = {
    **{name: name for name in ("matrix", "concurrency", "grid_search", "random_search", "hyperband", "bo",
                               "early_stopping", "n_experiments")},
    "concurrent_experiments": "concurrency",
    "search_method": "search_method",
}  # fmt: skip
"""Those that stood in ``settings`` until 0.1, with their later names."""

_ALGORITHMS: Final = {"random": "random_search", "grid": "grid_search", "sequential": "grid_search"}
_WORDS: Final = ("optimization", "type", "kind")
"""Keys whose words Polyaxon takes in capitals, too."""


def normalise_search(data: Map, remarks: list[Problem]) -> None:
    """Move what earlier versions had elsewhere into ``hptuning``, under the names of later ones."""
    section = data.get("hptuning")
    moved: list[tuple[Path, Map, str]] = [((key,), data, key) for key in SEARCH_KEYS if key in data]
    settings = data.get("settings")
    if isinstance(settings, Map):
        moved += [(("settings", Key(key)), settings, key) for key in SETTINGS if key in settings]
    if not moved and not isinstance(section, Map):
        return
    new = section.copy() if isinstance(section, Map) else Map(place=data.place)
    for path, source, key in moved:
        _move(new, source, key, path, remarks)
    if _is_refused(new, moved[0][0] if moved else ("hptuning", "matrix"), remarks):
        data.drop("hptuning")
        return
    _name_algorithm(new)
    named = new.mapped(lambda key, value: _lowered(value) if key != "matrix" else value)
    if isinstance(hyperband := named.get("hyperband"), Map):
        hyperband.rename("max_iter", "max_iterations")
    place = data.value_places.get("hptuning") or moved[0][1].place_of(moved[0][2])
    data.put("hptuning", named, place, key_place=data.key_places.get("hptuning"))


def _move(new: Map, source: Map, key: str, path: Path, remarks: list[Problem]) -> None:
    name = SETTINGS[key]
    if name in new:
        message = f"`{'.'.join(map(str, path))}` and `hptuning.{name}` are the same"
        remarks.append(Problem(message, path, f"keep `hptuning.{name}`", place=source.place_of(key)))
    else:
        new.copy_from(source, key, name)
    source.drop(key)


def _is_refused(new: Map, path: Path, remarks: list[Problem]) -> bool:
    """Refuse a matrix of Polyaxon 1 and 2; one of earlier versions may have a param `kind`, with values."""
    matrix = new.get("matrix")
    is_newer = isinstance(matrix, Map) and isinstance(matrix.get("kind"), str)
    if is_newer:
        hint = "write the params as `matrix: {lr: {values: [1, 2]}}`, or `kind: operation` with a `component`"
        message = "a matrix with a `kind` is one of Polyaxon 1 and 2, and this file is none of theirs"
        remarks.append(Problem(message, path, hint, place=new.place_of("matrix")))
    return is_newer


def _name_algorithm(new: Map) -> None:
    """Write an algorithm that is named beside the number of its trials as a section, as later versions do."""
    if not {"search_method", "n_experiments"} & new.keys():
        return
    method, place = str(new.get("search_method", "grid")).lower(), new.place_of("search_method")
    section = Map(place=place or new.place_of("n_experiments"))
    if "n_experiments" in new:
        section.copy_from(new, "n_experiments")
    new.drop("search_method")
    new.drop("n_experiments")
    if (name := _ALGORITHMS.get(method, method)) not in new:
        new.put(name, section, section.place)


def _lowered(node: Any, key: object = None) -> Any:
    """Return a copy in which the words of some keys are in small letters: ``MAXIMIZE``, ``Int``."""
    if isinstance(node, Map):
        return node.mapped(lambda name, item: _lowered(item, name))
    if isinstance(node, list):
        return node.mapped(lambda _, item: _lowered(item)) if hasattr(node, "mapped") else node
    return node.lower() if isinstance(node, str) and key in _WORDS else node


# --- How often a program is started again, and how long it may take: retries, a policy and a time limit

_RETRIES: Final = ("max_retries", "maxRetries")
_POLICIES: Final = ("restart_policy", "restartPolicy")
_KEYS: Final = (*_RETRIES, *_POLICIES, "timeout", "ttl")
_USUAL: Final = 10
"""Restarts where the policy sets no bound, as of `environment.restart`."""


class _Terms(NamedTuple):
    """The section that has these keys, where it stands, and the file that gets them."""

    section: Map
    path: Path
    data: Map
    remarks: list[Problem]

    def take(self) -> None:
        """Move them to where they belong; the policy last, as it asks for a number."""
        for key, value in self.section.items():
            if key in _RETRIES:
                self._put("environment", "max_restarts", key, value)
            elif key == "timeout":
                is_number = isinstance(value, int) and not isinstance(value, bool)
                self._put("batch", "walltime", key, f"{value}s" if is_number else value)
            elif key == "ttl":
                self._say(key, "'ttl' has no effect: what a job leaves is kept", "", "warning")
            elif key not in _POLICIES:
                self._say(key, "unknown key", "write `max_retries` or `timeout`")
        for key in (key for key in _POLICIES if key in self.section):
            self._take_policy(key, self.section[key])

    def _take_policy(self, key: str, policy: object) -> None:
        environment = self.data.get("environment")
        number = environment.get("max_restarts") if isinstance(environment, Map) else None
        name = str(policy).replace("_", "").lower()
        if name not in {"never", "always", "onfailure"}:
            self._say(key, f"{policy!r} is no policy of restarts", "write never, on_failure or always")
        elif name == "never":
            if number:
                self._say(key, f"{policy!r}, and there are restarts", "keep one")
        elif number is None:
            self._put("environment", "max_restarts", key, _USUAL)
            message = f"{policy!r} sets no bound: after a failure it is started again, {_USUAL} times at most"
            self._say(
                key, message, "write `max_restarts`, or `restart` to go on after time limits", "warning"
            )

    def _put(self, name: str, key: str, own: str, value: object) -> None:
        target = self.data.get(name)
        target = target.copy() if isinstance(target, Map) else Map(place=self.section.place_of(own))
        if key in target:
            self._say(own, f"`{name}.{key}` is the same", "keep one")
            return
        target.put(key, value, self.section.place_of(own))
        place, key_place = self.data.value_places.get(name), self.data.key_places.get(name)
        self.data.put(name, target, place or target.place, key_place=key_place)

    def _say(
        self, key: str, message: str, hint: str, severity: Literal["error", "warning"] = "error"
    ) -> None:
        place = self.section.place_of(key)
        self.remarks.append(Problem(message, (*self.path, key), hint, severity, place))


def normalise_termination(data: Map, remarks: list[Problem]) -> None:
    """Make ``environment.max_restarts`` and ``batch.walltime`` of them."""
    section = data.get("termination")
    if isinstance(section, Map):
        data.drop("termination")
        _Terms(section, ("termination",), data, remarks).take()
    environment = data.get("environment")
    if isinstance(environment, Map) and any(key in environment for key in _KEYS):
        own, rest = Map(place=environment.place), environment.copy()
        for key in [key for key in _KEYS if key in environment]:
            own.copy_from(environment, key)
            rest.drop(key)
        data["environment"] = rest
        _Terms(own, ("environment",), data, remarks).take()


# --- Variables of Polyaxon
#
# Pairs ``[[NAME, value]]``, which some files write as keys, and the other way round.
#
# ``build.env_vars`` are pairs in Polyaxon 0.x (polyaxon-schemas 0.6.1, ``ops/build_job``).

_PAIR: Final = 2
_LISTED: Final = {"name", "value"}


def normalise_variables(data: Map, remarks: list[Problem]) -> None:
    """Make keys of the pairs in ``environment.env_vars``, and pairs of the keys in ``build.env_vars``."""
    environment, build = data.get("environment"), data.get("build")
    if isinstance(environment, Map) and isinstance(environment.get("env_vars"), Seq):
        data["environment"] = environment.copy()
        data["environment"]["env_vars"] = _keys(environment["env_vars"], remarks)
    if isinstance(build, Map) and isinstance(build.get("env_vars"), (Map, Seq)):
        data["build"] = build.copy()
        data["build"]["env_vars"] = _pairs(build["env_vars"])


def _keys(pairs: Seq, remarks: list[Problem]) -> Map:
    new = Map(place=pairs.place)
    for index, item in enumerate(pairs):
        place, pair = pairs.place_of(index), _as_pair(item)
        name = str(pair[0]) if len(pair) == _PAIR else ""
        if not name or name in new:
            message = f"{name} is set twice" if name else f"{item!r} is not a variable"
            path = ("environment", "env_vars", index)
            remarks.append(Problem(message, path, "write `NAME: value`", place=place))
            continue
        new.put(name, pair[1], pair.place_of(1) or place, key_place=place)
        if 1 in pair.texts:
            new.texts[name] = pair.texts[1]
    return new


def _as_pair(item: Any) -> Seq:
    """Return ``[NAME, value]``, also of ``{name: NAME, value: VALUE}``; an empty one of anything else."""
    if isinstance(item, Map) and item.keys() == _LISTED:
        pair = Seq(place=item.place)
        for key in ("name", "value"):
            pair.add(item[key], item.place_of(key), item.texts.get(key))
        return pair
    whole = (
        isinstance(item, Seq) and len(item) == _PAIR and not any(isinstance(x, (dict, list)) for x in item)
    )
    return item if whole else Seq()


def _pairs(variables: Map | Seq) -> Seq:
    if isinstance(variables, Seq):
        return variables.mapped(lambda _, item: _as_pair(item) or item)
    pairs = Seq(place=variables.place)
    for name in variables:
        pair = Seq([name], place=variables.place_of(name))
        pair.add(variables[name], variables.place_of(name), variables.texts.get(name))
        pairs.add(pair, variables.place_of(name))
    return pairs


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
_RUN: Final = ("experiment", "job", *services.KINDS)
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
_OF_BUILDS: Final = ("environment", "params", "inputs", "outputs")
_LIBRARIES: Final = frozenset(
    ("caffe", "caffe2", "catboost", "cntk", "fastai", "ignite", "keras", "lightgbm", "onnx", "python",
     "pytorch-ignite", "pytorch-lightning", "scikit", "scikit-learn", "sklearn", "theano", "xgboost")
)  # fmt: skip
"""Libraries named as a framework that need no launch of their own."""
_RUN_TO_BUILD: Final = {"image": "image", "build_steps": "build_steps", "steps": "build_steps",
                        "env_vars": "env_vars", "git": "git"}  # fmt: skip


KEYS: Final = frozenset({*SEARCH_KEYS, *_REFUSED, "settings", "declarations", "termination"})
"""Top-level keys that experiments had, or that are refused by name."""
OF_REPLICAS: Final = environments.OF_REPLICAS


class Polyaxon(Form):
    """The importer of files of Polyaxon 0.x, and of hpcdist's own, which are the same with ``batch``."""

    def settings_of(self, data: Map) -> frozenset[str]:
        """Return the keys of which some values are refused by ``kind``, which an experiment has no more."""
        return services.SETTINGS if data.get("kind") in services.KINDS else frozenset({"batch"})

    def recognises(self, data: Map) -> bool:
        """Decide by the sections: every such file has one of them."""
        foreign = "apiVersion" in data or "$schema" in data
        if foreign:
            return False
        sections = any(key in data for key in ("run", "model", "environment", "hptuning"))
        return sections or data.get("kind") in services.KINDS

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is of a version or kind that hpcdist does not run.
        """
        _check_version_and_kind(data)
        remarks: list[Problem] = []
        new = data.copy()
        if isinstance(settings := new.get("settings"), Map):
            _replace(new, "settings", settings.copy())
        services.normalise(new, remarks)
        normalise_search(new, remarks)
        _refuse_sections(new, remarks)
        _params(new, remarks)
        _settings(new, remarks)
        _project(new)
        _run(new, remarks)
        commands.normalise(new, remarks)
        _build(new, remarks)
        _logging(new, remarks)
        environments.as_list(new, "tags")
        normalise_variables(new, remarks)
        normalise_termination(new, remarks)
        environments.normalise(new, remarks)
        _framework(new, remarks)
        _tensorflow(new, remarks)
        _templates(new, remarks)
        return Imported(new, tuple(remarks))


IMPORTER: Final = Polyaxon()


def _check_version_and_kind(data: Map) -> None:
    problems = []
    version, kind = data.get("version", 1), data.get("kind")
    if version not in (1, "1", "1.0", None) or isinstance(version, bool):
        hint = _NEWER if str(version) == "1.1" else "write 1"
        problems.append(_at(data, "version", f"files of version {version} are not read", hint))
    if isinstance(kind, str) and kind in _KINDS:
        is_several = kind == "pipeline"
        message = (
            "a pipeline is several runs, not one" if is_several else f"files of kind {kind!r} are not run"
        )
        problems.append(_at(data, "kind", message, _KINDS[kind]))
    elif isinstance(kind, str) and kind not in (*_RUN, "group"):
        problems.append(_at(data, "kind", f"there is no kind {kind!r}", did_you_mean(kind, _RUN)))
    if problems:
        raise ConfigError(*problems)


def _at(data: Map, key: str, message: str, hint: str) -> Problem:
    return Problem(message, (key,), hint, place=data.place_of(key))


def _refuse_sections(data: Map, remarks: list[Problem]) -> None:
    if data.get("kind") == "group":
        data.drop("kind")
    for key, (message, hint) in _REFUSED.items():
        if key in data:
            remarks.append(_at(data, key, message, hint))
            data.drop(key)


def _params(data: Map, remarks: list[Problem]) -> None:
    if "params" in data and "declarations" in data:
        remarks.append(_at(data, "declarations", "`params` and `declarations` are the same", "keep `params`"))
        data.drop("declarations")
    data.rename("declarations", "params")


def _settings(data: Map, remarks: list[Problem]) -> None:
    """Take ``logging`` out of ``settings``; the rest of it was about searches and servers."""
    settings = data.get("settings")
    if not isinstance(settings, Map):
        return
    data.drop("settings")
    for key in settings:
        path, place = ("settings", Key(key)), settings.place_of(Key(key))
        if key == "logging" and "logging" not in data:
            data.copy_from(settings, key)
        else:
            hint = "pass it to the program in `run.cmd`" if key == "seed" else ""
            remarks.append(Problem(f"{key!r} has no effect", path, hint, "warning", place))


def _project(data: Map) -> None:
    """Convert ``project: {name: x}`` to text; use it as the name if there is none."""
    project = data.get("project")
    if isinstance(project, Map) and "name" in project:
        data.copy_from(project, "name", "project")
    if isinstance(data.get("project"), str) and "name" not in data:
        data.copy_from(data, "project", "name")
        data["name"] = str(data["name"]).rsplit("/", 1)[-1]


def _run(data: Map, remarks: list[Problem]) -> None:
    """Move the image keys of ``run`` (until 0.1.0) to ``build``."""
    run = data.get("run")
    moved = [key for key in _RUN_TO_BUILD if isinstance(run, Map) and key in run]
    if not isinstance(run, Map) or not moved:
        return
    run = run.copy()
    build: Any = data.get("build")
    build = build.copy() if isinstance(build, Map) else Map(place=run.place)
    for key in moved:
        name = _RUN_TO_BUILD[key]
        if name in build:
            message = f"`run.{key}` and `build.{name}` are the same"
            remarks.append(Problem(message, ("run", key), f"keep `build.{name}`", place=run.place_of(key)))
        else:
            build.copy_from(run, key, name)
        run.drop(key)
    _replace(data, "run", run)
    key_place = data.key_places.get("build") or run.place
    data.put("build", build, data.value_places.get("build") or run.place, key_place=key_place)


def _build(data: Map, remarks: list[Problem]) -> None:
    """Drop keys for the job that builds the image; list its steps, which some files name."""
    build = data.get("build")
    if not isinstance(build, Map):
        return
    build = build.copy()
    build.rename("steps", "build_steps")
    if isinstance(steps := build.get("build_steps"), Map):
        build["build_steps"] = Seq(place=steps.place)
        for name in steps:
            build["build_steps"].add(steps[name], steps.place_of(name), steps.texts.get(name))
    asked = [key for key in _OF_BUILDS if key in build]
    for key in asked:
        message, place = f"{key!r} is for building the image, and hpcdist builds none", build.place_of(key)
        remarks.append(Problem(message, ("build", key), "", "warning", place))
        build.drop(key)
    _replace(data, "build", build)


def _logging(data: Map, remarks: list[Problem]) -> None:
    logging = data.get("logging")
    if isinstance(logging, Map) and "path" in logging:
        place = logging.place_of("path")
        message, hint = "'path' has no effect", "the output of the job is kept in its run directory"
        remarks.append(Problem(message, ("logging", "path"), hint, "warning", place))
        logging = logging.copy()
        logging.drop("path")
        _replace(data, "logging", logging)


def _framework(data: Map, remarks: list[Problem]) -> None:
    """Drop a framework that is only a name; with replicas, Polyaxon requires a known one."""
    name = data.get("framework")
    if isinstance(name, str) and name.lower() in _LIBRARIES and not _has_replicas(data):
        message = f"{name!r} has no effect: the command is run as it is"
        remarks.append(Problem(message, ("framework",), "", "warning", data.place_of("framework")))
        data.drop("framework")


def _tensorflow(data: Map, remarks: list[Problem]) -> None:
    """Put the TensorFlow version of the image tag, if no section gives it."""
    if not _image_tells_tensorflow_1(data):
        return
    place = data["build"].place_of("image")
    data.put("tensorflow", Map({"version": "1"}, place=place), place)
    message = "an image of TensorFlow 1: the cluster calls its chief `master`"
    remarks.append(Problem(message, ("build", "image"), environments.TENSORFLOW_2, "warning", place))


def _image_tells_tensorflow_1(data: Map) -> bool:
    build = data.get("build")
    if data.get("framework") != "tensorflow" or "tensorflow" in data or not isinstance(build, Map):
        return False
    return _has_replicas(data) and bool(_TENSORFLOW_1.fullmatch(str(build.get("image"))))


def as_native(data: Map) -> Map:
    """Return an experiment from another form, changed so that reading it as native keeps its meaning."""
    new = commands.keep_lines(data)
    if _image_tells_tensorflow_1(new):
        place = new.place_of("framework")
        new.put("tensorflow", Map({"version": "2"}, place=place), place)
    return new


def _templates(data: Map, remarks: list[Problem]) -> None:
    """Refuse templates of other runs, and of what else only a server of Polyaxon fills in."""
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


def _replace(data: Map, key: str, value: Map | Seq) -> None:
    """Replace a section by a changed one."""
    data[key] = value
