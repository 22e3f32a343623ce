"""Polyaxon 1 and 2: ``version: 1.1``, components, and operations that hold their component.

The fields are those of polyaxon/cli v2.16.4 (``cli/polyaxon/_flow``) and of the kinds of runs that releases
before it had. What a server of Polyaxon resolves (presets, hubs, other runs) is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers import Imported
from hpcdist.importers.container import finish_with_command, ignore_set_keys, skip_empty
from hpcdist.importers.polyaxon_v1.inputs import inputs_of
from hpcdist.importers.polyaxon_v1.matrix import refuse_matrix
from hpcdist.importers.polyaxon_v1.run import read_run, repository
from hpcdist.importers.polyaxon_v1.text import Texts
from hpcdist.importers.reading import Reading
from hpcdist.importers.searches import as_options
from hpcdist.words import RUN_NAME, quote, slug

_KINDS: Final = ("component", "operation")
_VERSIONS: Final = ("1", "1.0", "1.05", "1.1")
"""The last is of 1.1.0 and later; components of earlier previews have the others."""
_REFERENCES: Final = {
    "hubRef": "a hub is a server of Polyaxon: write the component itself, as `component:`",
    "urlRef": "fetch that file, and write the component here, as `component:`",
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
    "runPatch": ("the component is not patched", "write what it changes into the component"),
}
_SERVER: Final = "it is for a server of Polyaxon"
_IGNORED: Final = {
    "queue": "queues are a server's; choose one of the site's by `batch.partition` or `batch.qos`",
    "build": "hpcdist builds no images; build it beforehand",
    "hooks": "hooks are not run; submit the operation with `batch.dependency`, or use `batch.mail`",
    "mount": "nothing is mounted; write the path of the site's own file system in the command",
    **dict.fromkeys(
        ("namespace", "cache", "plugins", "isApproved", "cost", "template", "patchStrategy"),
        _SERVER,
    ),
}  # fmt: skip
_ENDS: Final = {"ttl": "nothing is left to clean up", "culling": _SERVER, "probe": _SERVER,
                "podFailurePolicy": "there are no pods"}  # fmt: skip


class PolyaxonV1:
    """The importer of components and operations."""

    def recognises(self, data: Map) -> bool:
        """Decide by the version, or by the kind of the file or its run; an API or a schema excludes it."""
        if "apiVersion" in data or "$schema" in data or "type" in data:
            return False
        named = data.get("kind") in _KINDS or "isPreset" in data or _has_kind(data.get("run"))
        return named or is_v1(data.get("version"))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when there is nothing to run; the remarks are its problems.
        """
        read = Reading(data)
        skip_empty(read)
        bases = _bases(read)
        for base in bases:
            _section(read, base)
        _names(read, bases)
        if bases:
            refuse_matrix(read)
            run = (*bases[-1], "run")
            texts = Texts(read, inputs_of(read, bases), repository(read, run))
            read_run(read, texts, run)
        return finish_with_command(read)


IMPORTER: Final = PolyaxonV1()


def is_v1(version: object) -> bool:
    """Return whether a version is that of Polyaxon 1 or 2, which is 1.1 for both."""
    return not isinstance(version, bool) and str(version) == "1.1"


def _has_kind(run: object) -> bool:
    return isinstance(run, Mapping) and isinstance(run.get("kind"), str) and "cmd" not in run


def _bases(read: Reading) -> tuple[Path, ...]:
    """Return the paths of the operation and the component; none, with an error, if they cannot run."""
    version, kind = read.get("version"), read.get("kind")
    if version is not None and str(version) not in _VERSIONS:
        read.refuse("version", why=f"files of version {version} and this kind are not read", hint="write 1.1")
    if kind not in (*_KINDS, None, ""):
        old = kind in ("experiment", "job")
        hint = "write `version: 1`: it is of Polyaxon 0.x" if old else "write component or operation"
        read.refuse("kind", why=f"files of kind {kind!r} and version 1.1 are not run", hint=hint)
    elif read.get("isPreset") is True:
        why = "a preset only adds to other operations"
        read.refuse("isPreset", why=why, hint="give the operation itself")
    elif named := [key for key in ("pathRef", *_REFERENCES) if read.peek(key)]:
        for key in named:
            hint = _REFERENCES.get(key) or _instead(read)
            read.refuse(key, why=f"what {key} names is not fetched", hint=hint)
        refuse_matrix(read)
    elif isinstance(read.peek("component"), Mapping):
        return ((), ("component",))
    elif isinstance(read.peek("run"), Mapping):
        return ((),)
    else:
        what = "component" if kind == "operation" else "run"
        read.refuse(what, why=f"there is no section `{what}` here", hint="write what to run")
    read.get()  # the file is refused as a whole: report no single keys
    return ()


def _instead(read: Reading) -> str:
    """Return the hint for an operation that names a file: submit that file with the same params."""
    values = {name: _value(read.peek("params", name)) for name in read.keys("params")}
    given = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
    words = f"hpcdist submit {quote(str(read.peek('pathRef')))} {as_options(given)}".rstrip()
    return f"give that file itself: `{words}`; or write the component here, as `component:`"


def _value(param: object) -> object:
    """Return the value of a param, None for one from another run."""
    if not isinstance(param, Mapping):
        return param
    return None if param.get("ref") else param.get("value")


def _section(read: Reading, base: Path) -> None:
    """Read or report all keys of an operation or a component except its params and its run."""
    for key, (why, hint) in _REFUSED.items():
        if read.peek(*base, key) and read.get(*base, key) not in (None, False):
            read.refuse(*base, key, why=why, hint=hint)
    ignore_set_keys(read, _IGNORED, *base)
    for key in _REFUSED:
        read.get(*base, key)
    for key in ("version", "kind") if base else ():
        read.get(*base, key)
    _termination(read, (*base, "termination"))


def _termination(read: Reading, path: Path) -> None:
    ignore_set_keys(read, _ENDS, *path)
    retries = read.get(*path, "maxRetries")
    if _is_count(retries):
        read.put("environment.max_restarts", retries, *path, "maxRetries")
    elif retries is not None:
        read.refuse(*path, "maxRetries", why=f"{retries!r} is not a number", hint="write a whole number")
    for key in ("timeout", "activeDeadlineSeconds"):
        seconds = read.get(*path, key)
        if _is_count(seconds) and seconds > 0:
            read.put("batch.walltime", f"{seconds}s", *path, key)
        elif seconds is not None:
            read.refuse(
                *path, key, why=f"{seconds!r} is not a number of seconds", hint="write a whole number"
            )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _names(read: Reading, bases: tuple[Path, ...]) -> None:
    """Take name, description and tags; the operation's take precedence over the component's."""
    for key in ("name", "description", "tags"):
        for base in reversed(bases or ((),)):
            value: Any = read.get(*base, key)
            if value in (None, ""):
                continue
            if key == "name" and isinstance(value, str) and not RUN_NAME.fullmatch(value):
                read.warn(
                    *base, key, why=f"the job is named {slug(value)!r}: {value!r} is not a valid job name"
                )
                value = slug(value)
            elif key == "description":
                value = read.text(*base, key)
            read.put(key, value, *base, key)
