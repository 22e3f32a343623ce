"""Polyaxon 1 and 2: ``version: 1.1``, components, and operations that hold their component.

Fields: polyaxon/cli v2.16.4 (``cli/polyaxon/_flow``), and the kinds of runs of earlier releases.
What a server of Polyaxon resolves (presets, hubs, other runs) is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map, Seq
from hpcdist.base.words import quote
from hpcdist.importers import Form, Imported
from hpcdist.importers.container import finish_with_command, ignore_set_keys, skip_empty
from hpcdist.importers.job import ForeignJob, put_name
from hpcdist.importers.polyaxon_v1.inputs import inputs_of, put_search
from hpcdist.importers.polyaxon_v1.runs import read_run, repository
from hpcdist.importers.polyaxon_v1.text import Texts
from hpcdist.importers.reading import Reading

# --- ``runPatch`` of an operation: its changes to the component's run, by ``patchStrategy``
#
# As in polyaxon/cli v2.16.4 and clipped 0.14 (``patch_obj``): sections are merged key by key, and lists are
# joined without repetitions.

STRATEGIES: Final = ("post_merge", "pre_merge", "replace", "isnull")
KEEPS_COMPONENT: Final = ("pre_merge", "isnull")
"""The strategies in which a value of the component takes precedence."""
_OF_REPLICA: Final = frozenset(
    ("container", "environment", "init", "connections", "volumes", "sidecars", "replicas")
)
_ROLES: Final = frozenset(("launcher", "worker", "master", "chief", "ps", "evaluator", "scheduler", "server"))


def with_run_patched(data: Map) -> Map:
    """Return an operation with its ``runPatch`` applied to the component's run."""
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
    """Return a component's value merged with the operation's."""
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


# --- Polyaxon 1 and 2

_KINDS: Final = ("component", "operation")
_KEYS: Final = frozenset(("isPreset", "component", "pathRef", "urlRef", "hubRef", "dagRef"))
_VERSIONS: Final = ("1", "1.0", "1.05", "1.1")
"""The last is of 1.1.0 and later; earlier previews have the others."""
_REFERENCES: Final = {
    "pathRef": "write the path of a file, from the folder of this one",
    "hubRef": "a hub is a server of Polyaxon: write the component itself, as `component:`",
    "urlRef": "write the component itself, as `component:`",
    "dagRef": "it names a part of a pipeline: write the component itself, as `component:`",
}
_STEPS: Final = "chain jobs with `batch.dependency`"
_REFUSED: Final = {
    "presets": (
        "the content of a preset is on a server of Polyaxon",
        "write what it adds here, and remove it",
    ),
    "schedule": ("jobs are not repeated", "use cron"),
    "joins": ("other runs are known to a server of Polyaxon only", "write the values as params"),
    "events": ("a job does not wait for events", _STEPS),
    "dependencies": ("an operation that waits for others is part of a pipeline", _STEPS),
    "trigger": ("an operation that waits for others is part of a pipeline", _STEPS),
    "conditions": ("a job has no conditions", "test them in the command"),
    "skipOnUpstreamSkip": ("an operation that waits for others is part of a pipeline", _STEPS),
}
_SERVER: Final = "it is for a server of Polyaxon"
_POLYAXON_V1_IGNORED: Final = {
    "queue": "queues are a server's; choose one of the site's by `batch.partition` or `batch.qos`",
    "build": "hpcdist builds no images; build it beforehand",
    "hooks": "hooks are not run; submit the operation with `batch.dependency`, or use `batch.mail`",
    "mount": "nothing is mounted; write the path of the site's own file system in the command",
    **dict.fromkeys(
        ("namespace", "cache", "isApproved", "cost", "template", "contexts"),
        _SERVER,
    ),
}  # fmt: skip
_PLUGINS: Final = {
    "docker": "a job cannot use a Docker daemon",
    "shm": "a job has the shared memory of its nodes",
    **dict.fromkeys(
        ("auth", "mountArtifactsStore", "collectArtifacts", "collectLogs", "collectResources", "autoResume",
         "sidecar", "notifications", "externalHost"), _SERVER,
    ),
}  # fmt: skip
_PARAM: Final = re.compile(r"\{\{-?\s*(?:params\.)?(\w+)\s*-?\}\}")
_ENDS: Final = {"ttl": "nothing is left to clean up", "culling": _SERVER, "probe": _SERVER,
                "podFailurePolicy": "there are no pods"}  # fmt: skip


class PolyaxonV1(Form):
    """The importer of components and operations."""

    def recognises(self, data: Map) -> bool:
        """Decide by the version, or by the kind of the file or its run; an API or a schema excludes it."""
        if "apiVersion" in data or "$schema" in data or "type" in data:
            return False
        named = data.get("kind") in _KINDS or not _KEYS.isdisjoint(data) or _has_kind(data.get("run"))
        return named or is_v1(data.get("version"))

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the ``pathRef`` of an operation."""
        path = data.get("pathRef")
        is_path = isinstance(path, str) and bool(path) and "://" not in path
        return (("pathRef",), path) if is_path and isinstance(path, str) and "component" not in data else None

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the operation with that component."""
        new = data.copy()
        new.rename("pathRef", "component")
        new["component"] = other
        return new

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when there is nothing to run; the remarks are its problems.
        """
        read, job = Reading(with_run_patched(data)), ForeignJob()
        skip_empty(read)
        bases = _bases(read)
        ordered = bases if _patch(read, data, bases) else bases[::-1]
        for base in ordered:
            _section(read, job, base)
        _names(read, ordered)
        if bases:
            run = (*bases[-1], "run")
            texts = Texts(read, inputs_of(read, job, bases, put_search(read)), repository(read, run))
            _fill_tags(read, texts)
            read_run(read, job, texts, run)
            job.write(read)
        return finish_with_command(read)


IMPORTER: Final = PolyaxonV1()


def is_v1(version: object) -> bool:
    """Return whether a version is 1.1, as in Polyaxon 1 and 2."""
    return not isinstance(version, bool) and str(version) == "1.1"


def _has_kind(run: object) -> bool:
    return isinstance(run, Mapping) and isinstance(run.get("kind"), str) and "cmd" not in run


def _bases(read: Reading) -> tuple[Path, ...]:
    """Return the paths of the operation and the component; empty, with an error, if they cannot run."""
    version, kind = read.get("version"), read.get("kind")
    if version is not None and str(version) not in _VERSIONS:
        read.refuse("version", why=f"files of version {version} and this kind are not read", hint="write 1.1")
    if kind not in (*_KINDS, None, ""):
        old = kind in ("experiment", "job")
        cmd = old and read.peek("run", "kind") is None
        hint = "write `version: 1`: it is of Polyaxon 0.x" if cmd else "write component or operation"
        read.refuse("kind", why=f"there is no kind {kind!r} of files in Polyaxon 1 and 2", hint=hint)
    elif read.get("isPreset") is True:
        why = "a preset only adds to other operations"
        read.refuse("isPreset", why=why, hint="give the operation itself")
    elif named := [key for key in _REFERENCES if read.peek(key)]:
        for key in named:
            read.refuse(key, why=f"what {key} names is not fetched", hint=_instead(read, key))
    elif read.peek("component", "kind") == "operation":
        read.refuse("component", "kind", why="an operation names a component", hint="name its component")
    elif isinstance(read.peek("component"), Mapping):
        return ((), ("component",))
    elif isinstance(read.peek("run"), Mapping):
        return ((),)
    else:
        what = "component" if kind == "operation" else "run"
        read.refuse(what, why=f"there is no section `{what}` here", hint="write what to run")
    read.get()  # the file is refused as a whole: report no single keys
    return ()


def _instead(read: Reading, key: str) -> str:
    """Return the hint for a reference to a component that is elsewhere."""
    url = str(read.peek(key))
    if "://" not in url:
        return _REFERENCES[key]
    return (
        f"fetch it, for example by `curl -LO {quote(url)}`, and write `pathRef: ./{url.rsplit('/', 1)[-1]}`"
    )


def _patch(read: Reading, data: Map, bases: tuple[Path, ...]) -> bool:
    """Take ``runPatch`` and its strategy; return whether values of the component take precedence."""
    read.get("runPatch")
    strategy = read.get("patchStrategy")
    if strategy is not None and strategy not in STRATEGIES:
        hint = f"write one of {', '.join(STRATEGIES)}"
        read.refuse("patchStrategy", why=f"there is no strategy {strategy!r}", hint=hint)
    if read.peek("runPatch") and len(bases) == 1:
        read.refuse("runPatch", why="there is no component here to patch", hint="write it into `run`")
    for path in joined_words(data):
        hint = "write `patchStrategy: replace` to replace them"
        read.warn(*path, why="these words are added to the component's, as Polyaxon does", hint=hint)
    return strategy in KEEPS_COMPONENT


def _section(read: Reading, job: ForeignJob, base: Path) -> None:
    """Read or report all keys of an operation or a component except its params and its run."""
    for key, (why, hint) in _REFUSED.items():
        if read.peek(*base, key) and read.get(*base, key) not in (None, False):
            read.refuse(*base, key, why=why, hint=hint)
    ignore_set_keys(read, _POLYAXON_V1_IGNORED, *base)
    for key in _REFUSED:
        read.get(*base, key)
    for key in ("version", "kind") if base else ():
        read.get(*base, key)
    _termination(read, job, (*base, "termination"))
    _plugins(read, job, (*base, "plugins"))


def _plugins(read: Reading, job: ForeignJob, path: Path) -> None:
    ignore_set_keys(read, _PLUGINS, *path)
    level = read.text(*path, "logLevel")
    if level:
        job.set("logging.level", level.upper(), *path, "logLevel")


def _termination(read: Reading, job: ForeignJob, path: Path) -> None:
    ignore_set_keys(read, _ENDS, *path)
    for key in ("maxRetries", "max_retries"):
        retries = read.get(*path, key)
        if (number := _count_or_param(retries)) is not None:
            job.set("environment.max_restarts", number, *path, key)
        elif retries is not None:
            read.refuse(*path, key, why=f"{retries!r} is not a number", hint="write a whole number")
    for key in ("timeout", "activeDeadlineSeconds", "active_deadline_seconds"):
        seconds = read.get(*path, key)
        if (number := _count_or_param(seconds)) not in (None, 0):
            job.set("batch.walltime", f"{number}s", *path, key)
        elif seconds is not None:
            read.refuse(
                *path, key, why=f"{seconds!r} is not a number of seconds", hint="write a whole number"
            )


def _count_or_param(value: object) -> object:
    """Return a count, or the template of a param; None for anything else."""
    param = _PARAM.fullmatch(str(value))
    return f"{{{{ {param[1]} }}}}" if param else value if _is_count(value) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _fill_tags(read: Reading, texts: Texts) -> None:
    """Put the templates of tags in hpcdist's form."""
    if isinstance(tags := read.native.get("tags"), Seq):
        read.native["tags"] = tags.mapped(
            lambda _, tag: texts.template(tag, "tags") if isinstance(tag, str) else tag
        )


def _names(read: Reading, bases: tuple[Path, ...]) -> None:
    """Take name, description and tags; the last base takes precedence, and tags are joined."""
    tags = [tag for base in bases for _, tag in read.items(*base, "tags")]
    for key in ("name", "description", "tags"):
        for base in bases or ((),):
            value: Any = read.get(*base, key)
            if value in (None, ""):
                continue
            if key == "name" and isinstance(value, str):
                put_name(read, value, *base, key)
                continue
            if key == "description":
                value = read.text(*base, key)
            elif isinstance(value, list) and len(tags) > len(value):
                value = list(dict.fromkeys(map(str, tags)))
            read.put(key, value, *base, key)
