"""Remarks: warnings about keys that have no effect on a batch machine.

The keys are Polyaxon's, 0.5 to 0.6 (polyaxon-schemas 0.6.1, ``ops/environments``, ``ops/build_job``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, reduce
from typing import Any, Final

from hpcdist.base import fields
from hpcdist.base.errors import ALL_KNOWN, Key, Path, Problem, dotted
from hpcdist.base.fields import Model
from hpcdist.base.tree import value_at
from hpcdist.experiment.model import Build, Environment, Experiment, Logging, ReplicaEntry

# --- Keys that are written outside their section, as where a file lost its indentation

_UNMISTAKABLE: Final = ((), ("run",), ("build",), ("batch",), ("environment",))
"""Sections whose keys mean the same everywhere; `seed` or `name` of an inner one may be meant otherwise."""

_sections = cache(lambda: fields.sections_of(Experiment))


def is_below(section: str, key: str) -> bool:
    """Whether an experiment has this key in a section of this name at its top."""
    return _sections().get(key, ())[:1] == (section,)


def section_for(key: str, value: object) -> Path | None:
    """Return the section of an experiment that takes this key with this value, None if no section does.

    That of the keys at the top of the file is empty.
    """
    section = () if key in fields.key_names(Experiment) else _sections().get(key)
    if section is None or value is None:
        return None
    nested: dict[str, Any] = reduce(lambda below, step: {str(step): below}, reversed(section), {key: value})
    _, problems = fields.build(Experiment, {"run": {"cmd": "true"}} | nested)
    whole = (*section, key)
    return None if any(problem.path[: len(whole)] == whole for problem in problems) else section


def with_section(problem: Problem, data: Mapping[str, Any]) -> Problem:
    """Return the problem of an unknown key with where it belongs, if that is clear and no key here is close.

    ``data``: of the file that has the key.
    """
    key = problem.path[-1] if problem.path else None
    if not isinstance(key, Key) or not problem.hint.startswith(ALL_KNOWN):
        return problem
    section = section_for(key, value_at(data, problem.path))
    if section not in _UNMISTAKABLE:
        return problem
    home = f"`{dotted((*section, key))}`" if section else f"`{key}` at the top of the file"
    return problem._replace(hint=f"write {home}")


# --- Remarks

_SCHEDULING: Final = (
    "is for Kubernetes and has no effect on a batch machine",
    "choose nodes by `batch.partition` or `batch.constraint`",
)
_METADATA: Final = ("is for Kubernetes and has no effect on a batch machine", "`tags` are kept with the run")
_IDENTITY: Final = ("has no effect: the job runs as you, with your own rights", "")
_REFERENCES: Final = ("has no effect: no variables are read from it", "export them in the site's `setup`")
_VOLUMES: Final = (
    "mounts nothing: names are looked up in the site's `volumes`",
    "or write the path itself in the command",
)
_BUILD: Final = (
    "has no effect: hpcdist builds no images",
    "install what the program needs, or build the image beforehand",
)
_CODE: Final = (
    "is not fetched: the job runs the code in the submit directory",
    "check it out there, or write `batch: {code: git}`",
)

_EVERYWHERE: Final = {
    "affinity": _SCHEDULING,
    "tolerations": _SCHEDULING,
    "labels": _METADATA,
    "annotations": _METADATA,
}
_ENVIRONMENT: Final = {
    **_EVERYWHERE,
    "service_account": _IDENTITY,
    "image_pull_secrets": _IDENTITY,
    "cluster_uuid": ("has no effect: the site defines the machine", "choose it by `batch.site`"),
    "secret_refs": _REFERENCES,
    "config_map_refs": _REFERENCES,
    "configmap_refs": _REFERENCES,
    "data_refs": _VOLUMES,
    "artifact_refs": _VOLUMES,
    "persistence": _VOLUMES,
    "outputs": (
        "has no effect: hpcdist reads no runs of Polyaxon",
        "write the path of the outputs in the command",
    ),
}
_BUILDING: Final = {
    "dockerfile": _BUILD,
    "ref": _BUILD,
    "build_steps": _BUILD,
    "lang_env": _BUILD,
    "context": _BUILD,
    "nocache": _BUILD,
    "backend": _BUILD,
    "git": _CODE,
    "commit": _CODE,
    "branch": _CODE,
}
_FETCHED: Final = frozenset(("git", "commit", "branch"))
"""The keys of ``build`` that name the code of ``batch.code: git``."""

_EXPERIMENT: Final = {
    "project": ("has no effect: runs are kept by name and date", "put it in `tags`"),
    "outputs": ("has no effect", "the program writes to $POLYAXON_RUN_OUTPUTS_PATH, which is kept"),
}
_LOGGING: Final = {"formatter": ("has no effect: the program writes its own log", "")}

UNUSED: Final[Mapping[type[Model], Mapping[str, tuple[str, str]]]] = {
    Experiment: _EXPERIMENT,
    Logging: _LOGGING,
    Environment: _ENVIRONMENT,
    Build: _BUILDING,
    ReplicaEntry: _EVERYWHERE,
}
"""The keys of each section that have no effect, each with the warning and the hint."""


def remarks(experiment: Experiment) -> Iterator[Problem]:
    """Yield a warning for every key that is set and has no effect."""
    for path, section in _remarks_sections(experiment):
        for key, (message, hint) in UNUSED[type(section)].items():
            if getattr(section, key) and not (experiment.batch.code == "git" and key in _FETCHED):
                yield Problem(f"{key!r} {message}", (*path, key), hint, "warning")
    if experiment.backend not in (None, "native", "mpi"):
        message = f"the backend {experiment.backend!r} has no effect: the scheduler starts the job"
        yield Problem(message, ("backend",), "remove it", "warning")


def _remarks_sections(experiment: Experiment) -> Iterator[tuple[Path, Model]]:
    environment = experiment.environment
    yield (), experiment
    yield ("logging",), experiment.logging
    yield ("environment",), environment
    if experiment.build:
        yield ("build",), experiment.build
    if environment.replicas:
        base: Path = ("environment", "replicas")
        for name in ("default_worker", "default_ps", "evaluator"):
            if entry := getattr(environment.replicas, name):
                yield (*base, name), entry
        for name in ("worker", "ps"):
            for index, entry in enumerate(getattr(environment.replicas, name)):
                yield (*base, name, index), entry
