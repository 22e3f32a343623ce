"""The ``environment`` of Polyaxon 0.0.3 to 0.6.1, converted to the form of 0.6."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path, Place, Problem

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


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Rewrite ``data["environment"]``, and ``data["framework"]`` where a section named it."""
    environment = data.get("environment")
    if not isinstance(environment, Map):
        return
    environment = environment.copy()
    environment.rename("node_selectors", "node_selector")
    environment.rename("master_resources", "resources")
    if "config_map_refs" not in environment:
        environment.rename("configmap_refs", "config_map_refs")
    for key in _LISTS:
        as_list(environment, key)
    _drop_session(environment, _BASE, remarks)
    _framework_sections(data, environment, remarks)
    _bare_counts(data, environment, remarks)
    _plural_keys(environment, _BASE, remarks)
    if isinstance(environment.get("replicas"), Map):
        _replicas(environment, remarks)
    data["environment"] = environment


def as_list(section: Map, key: str) -> None:
    """Make a list of one value, which early releases of Polyaxon read too."""
    value = section.get(key)
    if isinstance(value, (str, Map)):
        items = Seq(place=section.place_of(key))
        items.add(value, section.value_places.get(key))
        section[key] = items


def _framework_sections(data: Map, environment: Map, remarks: list[Problem]) -> None:
    """Make ``framework`` and ``replicas`` of ``environment.tensorflow`` and its like (to 0.4.1)."""
    named = [name for name in _FRAMEWORKS if name in environment]
    for name in named[1:]:
        message = f"{named[0]!r} and {name!r}: an experiment has one framework"
        remarks.append(_problem(environment, name, message, "remove one of the sections"))
    if named:
        _framework_name(data, environment, named[0], remarks)
        _assume_tensorflow_1(data, environment.key_places.get(named[0]), remarks)
        _framework_replicas(environment, named[0], remarks)
    for name in named:
        environment.drop(name)


def _framework_name(data: Map, environment: Map, name: str, remarks: list[Problem]) -> None:
    if data.get("framework") is None:
        data.put("framework", name, environment.key_places.get(name))
    elif data["framework"] != name:
        message = f"the framework is {data['framework']!r}, but this section is for {name!r}"
        remarks.append(_problem(environment, name, message, "write it as `replicas`"))


def _framework_replicas(environment: Map, name: str, remarks: list[Problem]) -> None:
    if environment.get("replicas") is not None:
        message = f"`replicas` and `{name}` are the same"
        remarks.append(_problem(environment, name, message, "keep `replicas`"))
    elif environment[name] is not None:
        environment.copy_from(environment, name, "replicas")


def _bare_counts(data: Map, environment: Map, remarks: list[Problem]) -> None:
    """Make ``replicas`` of ``environment.n_workers`` and its like (0.0.3, whose framework was TensorFlow).

    In files of 0.1.2 to 0.2.0, ``environment.worker`` is beside the section of the framework.
    """
    bare = [key for key in OF_REPLICAS if key in environment and key != "processes_per_replica"]
    if isinstance(replicas := environment.get("replicas"), Map):
        _into_replicas(environment, replicas, bare, remarks)
    if not bare or replicas is not None:
        return
    replicas = Map(place=environment.place_of(bare[0]))
    for key in bare:
        replicas.copy_from(environment, key)
        environment.drop(key)
    environment.put("replicas", replicas, replicas.place)
    if "framework" not in data:
        data.put("framework", "tensorflow", replicas.place)
        message, hint = "replicas without a framework: tensorflow is assumed", "write `framework:`"
        remarks.append(Problem(message, (*_BASE, bare[0]), hint, "warning", replicas.place))
    _assume_tensorflow_1(data, replicas.place, remarks)


def _into_replicas(environment: Map, replicas: Map, bare: Iterable[str], remarks: list[Problem]) -> None:
    environment["replicas"] = replicas = replicas.copy()
    for key in bare:
        if key in replicas:
            message = f"{key!r} is given here and in `replicas`"
            remarks.append(_problem(environment, key, message, "keep the one in `replicas`"))
        else:
            replicas.copy_from(environment, key)
        environment.drop(key)


def _assume_tensorflow_1(data: Map, place: Place | None, remarks: list[Problem]) -> None:
    """Put version 1: all such files are older than TensorFlow 2."""
    if data.get("framework") != "tensorflow" or "tensorflow" in data:
        return
    data.put("tensorflow", Map({"version": "1"}, place=place), place)
    message = "a section from the time of TensorFlow 1: the cluster calls its chief `master`"
    remarks.append(Problem(message, ("tensorflow",), TENSORFLOW_2, "warning", place))


def _replicas(environment: Map, remarks: list[Problem]) -> None:
    replicas = environment["replicas"].copy()
    path = (*_BASE, "replicas")
    _drop_session(replicas, path, remarks)
    _processes(environment, replicas, remarks)
    for role in ("worker", "ps"):
        _old_defaults(replicas, role)
        _old_items(replicas, role)
        default = replicas.get(f"default_{role}")
        if isinstance(default, Map):
            replicas[f"default_{role}"] = _entry(default, (*path, f"default_{role}"), remarks)
        if isinstance(replicas.get(role), Seq):
            replicas[role] = _entries(replicas[role], (*path, role), remarks)
    environment["replicas"] = replicas


def _entries(items: Seq, path: Path, remarks: list[Problem]) -> Seq:
    return items.mapped(
        lambda index, item: _entry(item, (*path, index), remarks) if isinstance(item, Map) else item
    )


def _entry(entry: Map, path: Path, remarks: list[Problem]) -> Map:
    new = entry.copy()
    _drop_session(new, path, remarks)
    _plural_keys(new, path, remarks)
    as_list(new, "tolerations")
    for key in _UNUSED:
        if key in new:
            message, hint = f"{key!r} of a replica has no effect, as in Polyaxon", "write it in `environment`"
            remarks.append(Problem(message, (*path, key), hint, "warning", new.place_of(key)))
            new.drop(key)
    return new


def _drop_session(section: Map, path: Path, remarks: list[Problem]) -> None:
    for key in _SESSION:
        if key in section:
            hint = "set it in the program"
            message = f"{key!r} was for Polyaxon's own graphs and has no effect"
            remarks.append(Problem(message, (*path, key), hint, "warning", section.place_of(key)))
            section.drop(key)


def _processes(environment: Map, replicas: Map, remarks: list[Problem]) -> None:
    key = "processes_per_replica"
    if key in replicas and key in environment:
        remarks.append(_problem(environment, key, f"{key!r} is given here and in `replicas`", "keep one"))
    elif key in replicas:
        environment.copy_from(replicas, key)
    replicas.drop(key)


def _old_defaults(replicas: Map, role: str) -> None:
    """Make ``default_worker`` of ``default_worker_resources`` and ``default_worker_node_selectors``."""
    for old, key in (
        (f"default_{role}_resources", "resources"),
        (f"default_{role}_node_selectors", "node_selector"),
    ):
        default = replicas.get(f"default_{role}")
        default = default.copy() if isinstance(default, Map) else Map(place=replicas.place_of(old))
        if old not in replicas or key in default:
            continue
        default.copy_from(replicas, old, key)
        place = replicas.key_places.get(f"default_{role}") or replicas.key_places.get(old)
        replicas.put(f"default_{role}", default, place)
        replicas.drop(old)


def _old_items(replicas: Map, role: str) -> None:
    """Make ``worker: [{index, resources}]`` of ``worker_resources: [{index, cpu, memory, gpu}]``."""
    for old, key, inner in (
        (f"{role}_resources", "resources", _RESOURCES),
        (f"{role}_node_selectors", "node_selector", ()),
    ):
        if isinstance(replicas.get(old), Seq):
            items = replicas[old].mapped(lambda _, item: _nested(item, key, inner))  # noqa: B023 used at once
            place = replicas.key_places.get(old)
            merged = _merged(replicas.get(role), items)
            replicas.put(role, merged, place)
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
        result[twin] = joined = result[twin].copy()
        for name in item:
            if name != "index":
                joined.copy_from(item, name)
    return result


def _can_join(one: Any, other: Any) -> bool:
    both = isinstance(one, Map) and isinstance(other, Map)
    return both and one.get("index") == other.get("index") and one.keys() & other.keys() <= {"index"}


def _plural_keys(section: Map, path: Path, remarks: list[Problem]) -> None:
    """Read ``gpu: {request: 1}`` as ``requests``; Polyaxon to 0.4.1 ignored it without a message."""
    resources = section.get("resources")
    if not isinstance(resources, Map):
        return
    new = resources.copy()
    for name in _RESOURCES:
        amount = new.get(name)
        if isinstance(amount, Map):
            new[name] = _plural(amount, (*path, "resources", name), remarks)
    section["resources"] = new


def _plural(amount: Map, path: Path, remarks: list[Problem]) -> Map:
    new = amount.copy()
    for singular in ("request", "limit"):
        if singular in new and f"{singular}s" not in new:
            hint = f"write `{singular}s`"
            message = f"{singular!r} is read as {singular + 's'!r}"
            remarks.append(Problem(message, (*path, singular), hint, "warning", new.place_of(singular)))
            new.rename(singular, f"{singular}s")
    return new


def _problem(section: Map, key: str, message: str, hint: str) -> Problem:
    return Problem(message, (*_BASE, key), hint, place=section.place_of(key))
