"""Sections of Polyaxon 0.0.3 to 0.6.1, all five generations, rewritten to the form of 0.6.

Each function changes the sections of ``data`` that it names, and reports keys with another meaning here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hpcdist.base.errors import Key, Path, Place, Problem
from hpcdist.base.tree import Map, Seq


class Remarks(list[Problem]):
    """The problems of a file."""

    def refuse(self, section: Map, path: Path, message: str, hint: str) -> None:
        """Add an error about the last key of a path, which ``section`` has."""
        self.append(Problem(message, path, hint, "error", section.place_of(str(path[-1]))))

    def warn(self, section: Map, path: Path, message: str, hint: str = "") -> None:
        """Add a warning about such a key."""
        self.append(Problem(message, path, hint, "warning", section.place_of(str(path[-1]))))


def move_up(data: Map, section: Map, path: Path, remarks: Remarks) -> None:
    """Move the last key of a path from its section to the top, unless that has it."""
    key = str(path[-1])
    if key in section and key in data:
        message = f"`{'.'.join(map(str, path))}` and `{key}` are the same"
        remarks.refuse(section, path, message, f"keep `{key}`")
    elif key in section:
        data.copy_from(section, key)
    section.drop(key)


def as_list(section: Map, key: str) -> None:
    """Make a list of one value, which early releases of Polyaxon read too."""
    value = section.get(key)
    if isinstance(value, (str, Map)):
        items = Seq(place=section.place_of(key))
        items.add(value, section.value_places.get(key))
        section[key] = items


# --- Searches as one section, ``hptuning``, with the keys of the last versions

SEARCH_KEYS: Final = ("matrix", "concurrency")
"""Keys of ``hptuning`` that stood at the top level until 0.0.4."""
_SETTINGS: Final[Mapping[str, str]] = {
    **{name: name for name in ("matrix", "concurrency", "grid_search", "random_search", "hyperband", "bo",
                               "early_stopping", "n_experiments")},
    "concurrent_experiments": "concurrency",
    "search_method": "search_method",
}  # fmt: skip
"""Keys that stood in ``settings`` until 0.1, with their later names."""
_ALGORITHMS: Final = {"random": "random_search", "grid": "grid_search", "sequential": "grid_search"}
_LISTS_OF: Final = frozenset({"values", "range", "linspace", "logspace", "geomspace"})
"""Kinds of values that are a finite number."""
_WORDS: Final = ("optimization", "type", "kind")
"""Keys whose words Polyaxon accepts in capitals, too."""


def hptuning(data: Map, remarks: Remarks) -> None:
    """Move keys that earlier versions had elsewhere into ``hptuning``, under their later names."""
    section, settings = data.get("hptuning"), data.get("settings")
    moved: list[tuple[Path, Map, str]] = [((key,), data, key) for key in SEARCH_KEYS if key in data]
    if isinstance(settings, Map):
        moved += [(("settings", Key(key)), settings, key) for key in _SETTINGS if key in settings]
    if not moved and not isinstance(section, Map):
        return
    new = section.copy() if isinstance(section, Map) else Map(place=data.place)
    for path, source, key in moved:
        if (name := _SETTINGS[key]) in new:
            message = f"`{'.'.join(map(str, path))}` and `hptuning.{name}` are the same"
            remarks.append(Problem(message, path, f"keep `hptuning.{name}`", place=source.place_of(key)))
        else:
            new.copy_from(source, key, name)
        source.drop(key)
    matrix = new.get("matrix")
    if isinstance(matrix, Map) and isinstance(
        matrix.get("kind"), str
    ):  # earlier ones may have a param `kind`
        hint = "write the params as `matrix: {lr: {values: [1, 2]}}`, or `kind: operation` with a `component`"
        message = "a matrix with a `kind` is one of Polyaxon 1 and 2, and this is not a Polyaxon 1 or 2 file"
        path = moved[0][0] if moved else ("hptuning", "matrix")
        remarks.append(Problem(message, path, hint, place=new.place_of("matrix")))
        data.drop("hptuning")
        return
    _name_algorithm(new, next((path for path, _, key in moved if key == "search_method"), ()), remarks)
    _early_stopping(new, remarks)
    move_up(data, new, ("hptuning", "logging"), remarks)
    named = new.mapped(lambda key, value: _lowered(value) if key != "matrix" else value)
    if isinstance(hyperband := named.get("hyperband"), Map):
        hyperband.rename("max_iter", "max_iterations")
    place = data.value_places.get("hptuning") or moved[0][1].place_of(moved[0][2])
    data.put("hptuning", named, place, key_place=data.key_places.get("hptuning"))


def _name_algorithm(new: Map, path: Path, remarks: Remarks) -> None:
    """Convert an algorithm named together with its number of trials to a section, as in later versions."""
    if not {"search_method", "n_experiments"} & new.keys():
        return
    method, place = str(new.get("search_method", "grid")).lower(), new.place_of("search_method")
    name, section = _ALGORITHMS.get(method, method), Map(place=place or new.place_of("n_experiments"))
    spaces = new["matrix"].values() if isinstance(new.get("matrix"), Map) else ()
    if new.get("n_experiments") is not None:
        section.copy_from(new, "n_experiments")
    elif name == "random_search" and all(isinstance(one, Map) and one.keys() <= _LISTS_OF for one in spaces):
        name, message = "grid_search", "a random search without `n_experiments` has all trials of its matrix"
        hint = "write `random_search: {n_experiments: 20}` for some of them"
        remarks.append(Problem(message, path or ("hptuning", "search_method"), hint, "warning", place))
    new.drop("search_method")
    new.drop("n_experiments")
    if name not in new:
        new.put(name, section, section.place)


def _early_stopping(new: Map, remarks: Remarks) -> None:
    """Convert ``higher`` to ``optimization``; drop a policy in one word (to 0.1), which ends the search."""
    if not isinstance(stops := new.get("early_stopping"), Seq):
        return
    new["early_stopping"] = stops.mapped(lambda _, stop: stop.copy() if isinstance(stop, Map) else stop)
    for at, stop in enumerate(new["early_stopping"]):
        path: Path = ("hptuning", "early_stopping", at)
        if isinstance(stop, Map) and "optimization" in stop and "higher" in stop:
            message = "`higher` and `optimization` are the same"
            remarks.refuse(stop, (*path, "higher"), message, "keep `optimization`")
            stop.drop("higher")
        if isinstance(stop, Map) and isinstance(higher := stop.get("higher"), bool):
            stop.put("optimization", "maximize" if higher else "minimize", stop.place_of("higher"))
            stop.drop("higher")
        if isinstance(stop, Map) and isinstance(policy := stop.get("policy"), str):
            if policy.lower() == "experiment":
                message, hint = (
                    "it ends the search, and not the trial alone",
                    "write the condition in the program",
                )
                remarks.warn(stop, (*path, "policy"), message, hint)
            stop.drop("policy")


def _lowered(node: Any, key: object = None) -> Any:
    """Return a copy in which the words of some keys are in small letters: ``MAXIMIZE``, ``Int``."""
    if isinstance(node, Map):
        return node.mapped(lambda name, item: _lowered(item, name))
    if isinstance(node, Seq):
        return node.mapped(lambda _, item: _lowered(item))
    return node.lower() if isinstance(node, str) and key in _WORDS else node


# --- How often a program is restarted, and how long it may run: retries, a policy and a time limit

_RETRIES: Final = ("max_retries", "maxRetries")
_POLICIES: Final = ("restart_policy", "restartPolicy")
_USUAL: Final = 10
"""Restarts if the policy sets no limit, as with `environment.restart`."""


def termination(data: Map, remarks: Remarks) -> None:
    """Convert ``termination`` and similar keys to ``environment.max_restarts`` and ``batch.walltime``."""
    if isinstance(section := data.get("termination"), Map):
        data.drop("termination")
        _take_terms(section, ("termination",), data, remarks)
    environment = data.get("environment")
    keys = (*_RETRIES, *_POLICIES, "timeout", "ttl")
    if isinstance(environment, Map) and any(key in environment for key in keys):
        own, rest = Map(place=environment.place), environment.copy()
        for key in [key for key in keys if key in environment]:
            own.copy_from(environment, key)
            rest.drop(key)
        data["environment"] = rest
        _take_terms(own, ("environment",), data, remarks)


def _take_terms(section: Map, path: Path, data: Map, remarks: Remarks) -> None:
    """Move the keys to where they belong; the policy last, as it asks for a number."""
    for key, value in section.items():
        if key in _RETRIES:
            _move(section, (*path, key), ("environment", "max_restarts", value), data, remarks)
        elif key == "timeout":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            limit = f"{value}s" if is_number else value
            _move(section, (*path, key), ("batch", "walltime", limit), data, remarks)
        elif key == "ttl":
            remarks.warn(section, (*path, key), "'ttl' has no effect: what a job leaves is kept")
        elif key not in _POLICIES:
            remarks.refuse(section, (*path, key), "unknown key", "write `max_retries` or `timeout`")
    for key in (key for key in _POLICIES if key in section):
        _take_policy(section, (*path, key), data, remarks)


def _take_policy(section: Map, path: Path, data: Map, remarks: Remarks) -> None:
    environment, policy = data.get("environment"), section[str(path[-1])]
    number = environment.get("max_restarts") if isinstance(environment, Map) else None
    name = str(policy).replace("_", "").lower()
    if name not in {"never", "always", "onfailure"}:
        message = f"{policy!r} is no policy of restarts"
        remarks.refuse(section, path, message, "write never, on_failure or always")
    elif name == "never" and number:
        remarks.refuse(section, path, f"{policy!r}, and there are restarts", "keep one")
    elif name != "never" and number is None:
        _move(section, path, ("environment", "max_restarts", _USUAL), data, remarks)
        message = f"{policy!r} sets no bound: after a failure it is started again, {_USUAL} times at most"
        hint = "write `max_restarts`, or `restart` to continue after time limits"
        remarks.warn(section, path, message, hint)


def _move(section: Map, path: Path, to: tuple[str, str, object], data: Map, remarks: Remarks) -> None:
    name, key, value = to
    target, place = data.get(name), section.place_of(str(path[-1]))
    target = target.copy() if isinstance(target, Map) else Map(place=place)
    if key in target:
        remarks.refuse(section, path, f"`{name}.{key}` is the same", "keep one")
        return
    target.put(key, value, place)
    data.put(name, target, data.value_places.get(name) or target.place, key_place=data.key_places.get(name))


# --- Variables: pairs ``[[NAME, value]]``, which some files write as keys, and the other way round
#
# ``build.env_vars`` are pairs in Polyaxon 0.x (polyaxon-schemas 0.6.1, ``ops/build_job``).

_PAIR: Final = 2
_LISTED: Final = {"name", "value"}


def variables(data: Map, remarks: Remarks) -> None:
    """Convert the pairs of ``environment.env_vars`` to keys, and the keys of ``build.env_vars`` to pairs."""
    environment, build = data.get("environment"), data.get("build")
    if isinstance(environment, Map) and isinstance(environment.get("env_vars"), Seq):
        data["environment"] = environment.copy()
        data["environment"]["env_vars"] = _keys(environment["env_vars"], remarks)
    if isinstance(build, Map) and isinstance(build.get("env_vars"), (Map, Seq)):
        data["build"] = build.copy()
        data["build"]["env_vars"] = _pairs(build["env_vars"])


def _keys(pairs: Seq, remarks: Remarks) -> Map:
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
    """Return ``[NAME, value]``, also for ``{name: NAME, value: VALUE}``; an empty list for anything else."""
    if isinstance(item, Map) and item.keys() == _LISTED:
        pair = Seq(place=item.place)
        for key in ("name", "value"):
            pair.add(item[key], item.place_of(key), item.texts.get(key))
        return pair
    is_pair = isinstance(item, Seq) and len(item) == _PAIR
    return item if is_pair and not any(isinstance(x, (dict, list)) for x in item) else Seq()


def _pairs(found: Map | Seq) -> Seq:
    if isinstance(found, Seq):
        return found.mapped(lambda _, item: _as_pair(item) or item)
    pairs = Seq(place=found.place)
    for name in found:
        pair = Seq([name], place=found.place_of(name))
        pair.add(found[name], found.place_of(name), found.texts.get(name))
        pairs.add(pair, found.place_of(name))
    return pairs


# --- The environment

_FRAMEWORKS: Final = ("tensorflow", "pytorch", "mxnet", "horovod", "mpi")
OF_REPLICAS: Final = (
    "n_workers", "n_ps", "default_worker", "default_ps", "worker", "ps",
    "default_worker_resources", "default_ps_resources", "worker_resources", "ps_resources",
    "default_worker_node_selectors", "default_ps_node_selectors",
    "worker_node_selectors", "ps_node_selectors",
    "worker_configs", "ps_configs", "default_worker_config", "default_ps_config", "processes_per_replica",
)  # fmt: skip
_SESSION: Final = ("delay_workers_by_global_step", "run_config", "config", "worker_configs", "ps_configs",
                   "default_worker_config", "default_ps_config")  # fmt: skip
_UNUSED: Final = ("service_account", "image_pull_secrets", "max_restarts", "secret_refs", "config_map_refs",
                  "configmap_refs", "persistence", "data_refs", "artifact_refs", "outputs")  # fmt: skip
"""Keys that an entry of Polyaxon 0.5 and later may have, and that Polyaxon itself ignores there."""
_LISTS: Final = ("tolerations", "secret_refs", "config_map_refs", "configmap_refs", "data_refs",
                 "artifact_refs", "image_pull_secrets")  # fmt: skip
_RESOURCES: Final = ("cpu", "memory", "gpu", "tpu")
_BASE: Final[Path] = ("environment",)
TENSORFLOW_2: Final = "for TensorFlow 2 add `tensorflow: {version: 2}` at the top level"


def environment(data: Map, remarks: Remarks) -> None:
    """Rewrite ``data["environment"]``, and ``data["framework"]`` if a section named it."""
    section = data.get("environment")
    if not isinstance(section, Map):
        return
    section = section.copy()
    section.rename("node_selectors", "node_selector")
    section.rename("master_resources", "resources")
    if "config_map_refs" not in section:
        section.rename("configmap_refs", "config_map_refs")
    for key in _LISTS:
        as_list(section, key)
    move_up(data, section, (*_BASE, "backend"), remarks)
    _drop_session(section, _BASE, remarks)
    _framework_sections(data, section, remarks)
    _bare_counts(data, section, remarks)
    _plural_keys(section, _BASE, remarks)
    if isinstance(section.get("replicas"), Map):
        _replicas(section, remarks)
    data["environment"] = section


def _framework_sections(data: Map, section: Map, remarks: Remarks) -> None:
    """Convert ``environment.tensorflow`` and the like (to 0.4.1) to ``framework`` and ``replicas``."""
    named = [name for name in _FRAMEWORKS if name in section]
    for name in named[1:]:
        message = f"{named[0]!r} and {name!r}: an experiment has one framework"
        remarks.refuse(section, (*_BASE, name), message, "remove one of the sections")
    for name in named[:1]:
        path = (*_BASE, name)
        if data.get("framework") is None:
            data.put("framework", name, section.key_places.get(name))
        elif data["framework"] != name:
            message = f"the framework is {data['framework']!r}, but this section is for {name!r}"
            remarks.refuse(section, path, message, "write it as `replicas`")
        _assume_tensorflow_1(data, section.key_places.get(name), remarks)
        if section.get("replicas") is not None:
            remarks.refuse(section, path, f"`replicas` and `{name}` are the same", "keep `replicas`")
        elif section[name] is not None:
            section.copy_from(section, name, "replicas")
    for name in named:
        section.drop(name)


def _bare_counts(data: Map, section: Map, remarks: Remarks) -> None:
    """Convert ``environment.n_workers`` and the like (0.0.3, always TensorFlow) to ``replicas``.

    In files of 0.1.2 to 0.2.0, ``environment.worker`` is next to the section of the framework.
    """
    bare = [key for key in OF_REPLICAS if key in section and key != "processes_per_replica"]
    old = section.get("replicas")
    if not bare or not (old is None or isinstance(old, Map)):
        return
    replicas = old.copy() if isinstance(old, Map) else Map(place=section.place_of(bare[0]))
    for key in bare:
        if key in replicas:
            message = f"{key!r} is given here and in `replicas`"
            remarks.refuse(section, (*_BASE, key), message, "keep the one in `replicas`")
        else:
            replicas.copy_from(section, key)
        section.drop(key)
    if old is not None:
        section["replicas"] = replicas
        return
    section.put("replicas", replicas, replicas.place)
    if "framework" not in data:
        data.put("framework", "tensorflow", replicas.place)
        message, hint = "replicas without a framework: tensorflow is assumed", "write `framework:`"
        remarks.append(Problem(message, (*_BASE, bare[0]), hint, "warning", replicas.place))
    _assume_tensorflow_1(data, replicas.place, remarks)


def _assume_tensorflow_1(data: Map, place: Place | None, remarks: Remarks) -> None:
    """Put version 1: all such files are older than TensorFlow 2."""
    if data.get("framework") == "tensorflow" and "tensorflow" not in data:
        data.put("tensorflow", Map({"version": "1"}, place=place), place)
        message = "a section from the time of TensorFlow 1: the cluster calls its chief `master`"
        remarks.append(Problem(message, ("tensorflow",), TENSORFLOW_2, "warning", place))


def _replicas(section: Map, remarks: Remarks) -> None:
    replicas, path, key = section["replicas"].copy(), (*_BASE, "replicas"), "processes_per_replica"
    _drop_session(replicas, path, remarks)
    if key in replicas and key in section:
        remarks.refuse(section, (*_BASE, key), f"{key!r} is given here and in `replicas`", "keep one")
    elif key in replicas:
        section.copy_from(replicas, key)
    replicas.drop(key)
    for role in ("worker", "ps"):
        _old_names(replicas, role)
        default, entries = replicas.get(f"default_{role}"), replicas.get(role)
        if isinstance(default, Map):
            replicas[f"default_{role}"] = _entry(default, (*path, f"default_{role}"), remarks)
        if isinstance(entries, Seq):
            place = (*path, role)
            replicas[role] = entries.mapped(
                lambda at, item: _entry(item, (*place, at), remarks) if isinstance(item, Map) else item  # noqa: B023 used at once
            )
    section["replicas"] = replicas


def _entry(entry: Map, path: Path, remarks: Remarks) -> Map:
    new = entry.copy()
    _drop_session(new, path, remarks)
    _plural_keys(new, path, remarks)
    as_list(new, "tolerations")
    for key in (key for key in _UNUSED if key in new):
        message, hint = f"{key!r} of a replica has no effect, as in Polyaxon", "write it in `environment`"
        remarks.warn(new, (*path, key), message, hint)
        new.drop(key)
    return new


def _drop_session(section: Map, path: Path, remarks: Remarks) -> None:
    for key in (key for key in _SESSION if key in section):
        message = f"{key!r} was for Polyaxon's own graphs and has no effect"
        remarks.warn(section, (*path, key), message, "set it in the program")
        section.drop(key)


def _old_names(replicas: Map, role: str) -> None:
    """Convert ``default_worker_resources`` and ``default_worker_node_selectors`` to ``default_worker``.

    And ``worker_resources: [{index, cpu, memory, gpu}]`` to ``worker: [{index, resources}]``.
    """
    for end, key, inner in (("resources", "resources", _RESOURCES), ("node_selectors", "node_selector", ())):
        old, name = f"default_{role}_{end}", f"default_{role}"
        default = replicas.get(name)
        default = default.copy() if isinstance(default, Map) else Map(place=replicas.place_of(old))
        if old in replicas and key not in default:
            default.copy_from(replicas, old, key)
            replicas.put(name, default, replicas.key_places.get(name) or replicas.key_places.get(old))
            replicas.drop(old)
        old = f"{role}_{end}"
        if isinstance(replicas.get(old), Seq):
            items = replicas[old].mapped(lambda _, item: _nested(item, key, inner))  # noqa: B023 used at once
            replicas.put(role, _merged(replicas.get(role), items), replicas.key_places.get(old))
            replicas.drop(old)


def _nested(item: Any, key: str, inner: Iterable[str]) -> Any:
    """Move the keys of an old item, except its index, into a section."""
    if not isinstance(item, Map):
        return item
    new, section = Map(place=item.place), Map(place=item.place)
    names = tuple(inner) or tuple(name for name in item if name != "index")
    for name in item:
        (section if name in names else new).copy_from(item, name)
    new.put(key, section, item.place)
    return new


def _merged(own: Any, items: Seq) -> Seq:
    """Join items of the same index; leave others, which the model reports."""
    result = own.mapped(lambda _, item: item) if isinstance(own, Seq) else Seq(place=items.place)
    for position, item in enumerate(items):
        twin = next((at for at, one in enumerate(result) if _can_join(one, item)), None)
        if twin is None:
            result.add(item, items.place_of(position))
            continue
        result[twin] = joined_item = result[twin].copy()
        for name in item:
            if name != "index":
                joined_item.copy_from(item, name)
    return result


def _can_join(one: Any, other: Any) -> bool:
    both = isinstance(one, Map) and isinstance(other, Map)
    return both and one.get("index") == other.get("index") and one.keys() & other.keys() <= {"index"}


def _plural_keys(section: Map, path: Path, remarks: Remarks) -> None:
    """Read ``gpu: {request: 1}`` as ``requests``; Polyaxon to 0.4.1 ignored it without a message."""
    if not isinstance(resources := section.get("resources"), Map):
        return
    section["resources"] = new = resources.copy()
    for name in (name for name in _RESOURCES if isinstance(new.get(name), Map)):
        amount = new[name] = new[name].copy()
        for singular in ("request", "limit"):
            if singular in amount and f"{singular}s" not in amount:
                where = (*path, "resources", name, singular)
                message = f"{singular!r} is read as {singular + 's'!r}"
                remarks.warn(amount, where, message, f"write `{singular}s`")
                amount.rename(singular, f"{singular}s")
