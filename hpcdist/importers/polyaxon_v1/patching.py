"""``runPatch`` of an operation: what it adds to the run of its component, by its ``patchStrategy``.

As in polyaxon/cli v2.16.4 and clipped 0.14 (``patch_obj``): sections are merged key by key, and lists are
joined without repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Path

STRATEGIES: Final = ("post_merge", "pre_merge", "replace", "isnull")
KEEPS_COMPONENT: Final = ("pre_merge", "isnull")
"""The strategies in which a value of the component takes precedence."""
_OF_REPLICA: Final = frozenset(
    ("container", "environment", "init", "connections", "volumes", "sidecars", "replicas")
)
_ROLES: Final = frozenset(("launcher", "worker", "master", "chief", "ps", "evaluator", "scheduler", "server"))


def with_run_patched(data: Map) -> Map:
    """Return an operation in which the run of its component has its ``runPatch``."""
    component, patch = data.get("component"), data.get("runPatch")
    run = component.get("run") if isinstance(component, Map) else None
    if not (isinstance(component, Map) and isinstance(run, Map) and isinstance(patch, Map)):
        return data
    strategy = str(data.get("patchStrategy") or STRATEGIES[0])
    roles = _ROLES & run.keys() if _OF_REPLICA & patch.keys() else frozenset()
    new = run.copy() if roles else merged(run, patch, strategy)
    for role in roles:
        new[role] = merged(new[role], patch, strategy)
    data, component = data.copy(), component.copy()
    component["run"], data["component"] = new, component
    return data


def merged(value: Any, patch: Any, strategy: str) -> Any:
    """Return a value of a component with that of the operation."""
    if isinstance(value, Map) and isinstance(patch, Map):
        new = value.copy()
        for key in patch:
            if new.get(key) is None:
                new.copy_from(patch, key)
            elif patch[key] is not None:
                _merge_key(new, patch, key, strategy)
        return new
    if isinstance(value, Seq) and isinstance(patch, Seq) and strategy in ("post_merge", "pre_merge"):
        first, second = (value, patch) if strategy == "post_merge" else (patch, value)
        new_list = first.mapped(lambda _, item: item)
        for at, item in enumerate(second):
            if item not in first:
                new_list.add(item, second.place_of(at), second.texts.get(at))
        return new_list
    return value if strategy in KEEPS_COMPONENT else patch


def _merge_key(new: Map, patch: Map, key: str, strategy: str) -> None:
    whole = strategy == "replace" and key not in (*_ROLES, "container", "environment")
    both = isinstance(new[key], (Map, Seq)) and isinstance(patch[key], (Map, Seq)) and not whole
    if both:
        new[key] = merged(new[key], patch[key], strategy)
    elif strategy not in KEEPS_COMPONENT:
        new.copy_from(patch, key)


def joined_words(data: Map) -> Iterator[Path]:
    """Yield the paths of a patch whose words are added to words of the component."""
    component = data.get("component")
    if data.get("patchStrategy") not in (None, *STRATEGIES[:2]) or not isinstance(component, Map):
        return
    yield from _both_lists(component.get("run"), data.get("runPatch"), ("runPatch",))


def _both_lists(value: object, patch: object, path: Path) -> Iterator[Path]:
    if isinstance(value, Map) and isinstance(patch, Map):
        for key in value.keys() & patch.keys():
            yield from _both_lists(value[key], patch[key], (*path, key))
    elif isinstance(value, Seq) and isinstance(patch, Seq) and path[-1] in ("command", "args"):
        yield path
