"""Katib's experiments: the job of their trial template, with a search over its parameters.

Source: https://www.kubeflow.org/docs/components/katib/user-guides (v1beta1); kubeflow/katib,
``pkg/apis/controller/experiments/v1beta1/experiment_types.go``. Katib fills in the template as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import ConfigError, Path, Problem
from hpcdist.importers import Imported
from hpcdist.importers.kubeflow.katib_go import with_trial_spec
from hpcdist.importers.kubeflow.katib_metrics import put_metrics
from hpcdist.importers.kubeflow.katib_search import put_search
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.reading import Reading

_TEMPLATE: Final[Path] = ("spec", "trialTemplate")
_TRIAL: Final[Path] = (*_TEMPLATE, "trialSpec")
_PLACEHOLDER: Final = re.compile(r"\$\{trialParameters\.([^{}]+)\}")
_OF_TRIAL: Final = re.compile(
    r"\$\{trialSpec\.(?:(Namespace|Kind|APIVersion)|(Labels|Annotations)\[(.+)\])\}"
)
"""What a trial may say of its own job, beside its name."""
_MARK: Final = re.compile(r"@hpcdist@(\w+)@")
"""What stands for a parameter while the job is read: a word that no shell and no importer changes."""
_TEXTS: Final = frozenset({"command", "args", "env"})
_RAW: Final = "{% raw %}"
_INLINE: Final = "write the job here, as `trialSpec`, with ${trialParameters.NAME} where a parameter belongs"
_IGNORED: Final = {
    "resumePolicy": "no service is kept; a search goes on by its run directory",
}
_OF_TEMPLATE: Final = (
    "retain", "primaryContainerName", "primaryPodLabels", "successCondition", "failureCondition",
)  # fmt: skip
"""What says nothing new: a run's directory stays, and a batch job succeeds when its exit code is 0."""

_USUAL_CONDITION: Final = re.compile(r"[\"'](Complete|Succeeded|Failed)[\"']")
"""What Kubernetes says of a job that has ended."""


def is_experiment(data: Mapping[str, Any]) -> bool:
    """Return whether this is an experiment of Katib."""
    group = str(data.get("apiVersion")).partition("/")[0]
    return data.get("kind") == "Experiment" and group.endswith("kubeflow.org")


def experiment(data: Map, read_job: Callable[[Map], Imported]) -> Imported:
    """Return the native form: that of the trial's job, by ``read_job``, with the search.

    Raises:
        ConfigError: when there is no job in the file, or it cannot be read.
    """
    read = Reading(with_trial_spec(data))
    for key in ("apiVersion", "kind", "metadata", "status"):
        read.get(key)
    read.get(*_TRIAL)
    read.ignore_all(_IGNORED, "spec")
    for key in _OF_TEMPLATE:
        text = str(read.get(*_TEMPLATE, key))
        if key.endswith("Condition") and text != "None" and not _USUAL_CONDITION.search(text):
            read.warn(*_TEMPLATE, key, why="a trial succeeds when its exit code is 0, whatever this says")
    if read.peek("spec", "nasConfig") is not None:
        why = "hpcdist searches the values of params, and not architectures of networks"
        read.refuse("spec", "nasConfig", why=why, hint="write `parameters`, and `algorithmName: random`")
    for key in ("goTemplate", "configMap"):
        if read.peek(*_TEMPLATE, key) is not None:
            what = "a template of Go" if key == "goTemplate" else "another object of Kubernetes"
            read.refuse(*_TEMPLATE, key, why=f"the job is in {what}", hint=_INLINE)
    names = put_search(read)
    put_metrics(read)
    job = _job(read, _parameters(read, names))
    if job is None:
        raise ConfigError(*read.finish().remarks)
    return _joined(read, job, read_job)


def _job(read: Reading, parameters: Mapping[str, str]) -> Map | None:
    """Return the job of a trial, with marks for its parameters and the metadata of the experiment."""
    spec = read.peek(*_TRIAL)
    if not isinstance(spec, Map):
        if not any(read.peek(*_TEMPLATE, key) for key in ("goTemplate", "configMap")):
            read.refuse(*_TEMPLATE, why="there is no job for the trials", hint=_INLINE)
        return None
    job: Map = _marked(spec, parameters)
    _check_places(read, spec)
    metadata = read.peek("metadata")
    if isinstance(metadata, Map) and metadata.get("name"):
        own = job["metadata"].copy() if isinstance(job.get("metadata"), Map) else Map(place=metadata.place)
        own.copy_from(metadata, "name")
        own.drop("generateName")
        job.put("metadata", own, read.place("metadata"))
    return job


def _parameters(read: Reading, names: Mapping[str, str]) -> dict[str, str]:
    """Return the text for each name in the template; ``names`` are the params of the search space."""
    found: dict[str, str] = {}
    where = (*_TEMPLATE, "trialParameters")
    for at, _ in read.items(*where):
        read.get(*where, at, "description")
        name, reference = word(read, *where, at, "name") or "", word(read, *where, at, "reference") or ""
        if (known := _of_trial(read, reference)) is not None:
            found[name] = known
        elif reference in names:
            found[name] = f"@hpcdist@{names[reference]}@"
        elif read.peek("spec", "nasConfig") is None:
            hint = f"there are {', '.join(names)}" if names else ""
            why = f"no parameter has the name {reference!r}"
            if reference.startswith("${trialSpec."):
                why = f"no batch job has {reference}"
                hint = "in the script of a `sh -c`, $HPCDIST_TRIAL is the number of the trial"
            read.refuse(*where, at, "reference", why=why, hint=hint)
    for path, name in _placeholders(read.peek(*_TRIAL), _TRIAL):
        if name not in found:
            hint = "write it in `trialParameters`"
            read.refuse(*path, why=f"the parameter {name!r} is not declared", hint=hint)
    return found


def _of_trial(read: Reading, reference: str) -> str | None:
    """Return what a reference to the job of the trial means, None for what is known only in Kubernetes."""
    match = _OF_TRIAL.fullmatch(reference)
    path: Path = ()
    if match and match[1]:
        path = {"Namespace": ("metadata", "namespace"), "Kind": (*_TRIAL, "kind")}.get(
            match[1], (*_TRIAL, "apiVersion")
        )
    elif match:
        path = (*_TRIAL, "metadata", match[2].lower(), match[3])
    value = read.peek(*path) if path else None
    return None if value is None or isinstance(value, (dict, list)) else str(value)


def _check_places(read: Reading, spec: Map) -> None:
    for path, name in _placeholders(spec, _TRIAL):
        if not _TEXTS & {*path[len(_TRIAL) :]}:
            why = f"all trials are one kind of job, which {name!r} would change"
            hint = "write one value here; `command`, `args` and `env` may differ"
            read.refuse(*path, why=why, hint=hint)


def _placeholders(node: object, path: Path) -> Iterator[tuple[Path, str]]:
    for where, text in texts_in(node, path):
        yield from ((where, match[1]) for match in _PLACEHOLDER.finditer(text))


def _marked(node: Any, parameters: Mapping[str, str]) -> Any:
    if isinstance(node, str):
        return _PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), node)
    return node.mapped(lambda _, item: _marked(item, parameters)) if isinstance(node, (Map, Seq)) else node


def _joined(read: Reading, job: Map, read_job: Callable[[Map], Imported]) -> Imported:
    """Return the native form of the job with the search beside it."""
    own = read.finish()
    try:
        found = read_job(job)
    except ConfigError as error:
        raise ConfigError(*own.remarks, *map(_in_template, error.problems)) from None
    data: Map = _with_templates(found.data)
    for key in own.data:
        data.copy_from(own.data, key)
    origins = {**own.origins, **{key: (*_TRIAL, *path) for key, path in found.origins.items()}}
    return Imported(data, (*own.remarks, *map(_in_template, found.remarks)), origins)


def _in_template(problem: Problem) -> Problem:
    """Return a problem of the job as one of the experiment."""
    at_top = problem.path[:1] == ("metadata",)
    texts = [_MARK.sub(r"${trialParameters: \1}", text) for text in (problem.message, problem.hint)]
    path = problem.path if at_top else (*_TRIAL, *problem.path)
    return problem._replace(message=texts[0], hint=texts[1], path=path)


def _with_templates(node: Any) -> Any:
    """Return the native form with templates in place of marks."""
    if isinstance(node, str):
        template = "{{{{ {} }}}}" if not node.startswith(_RAW) else "{{% endraw %}}{{{{ {} }}}}{{% raw %}}"
        return _MARK.sub(lambda match: template.format(match[1]), node)
    return node.mapped(lambda _, item: _with_templates(item)) if isinstance(node, (Map, Seq)) else node
