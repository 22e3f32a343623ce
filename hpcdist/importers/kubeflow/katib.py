"""Katib's experiments: the job of their trial template, with a search over its parameters.

Source: https://www.kubeflow.org/docs/components/katib/user-guides (v1beta1); kubeflow/katib,
``pkg/apis/controller/experiments/v1beta1/experiment_types.go``. Katib fills in the template as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hpcdist.documents import source
from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import ConfigError, Path, Place, Problem, did_you_mean
from hpcdist.importers import Imported
from hpcdist.importers.kubeflow import katib_algorithm
from hpcdist.importers.kubeflow.katib_algorithm import number
from hpcdist.importers.reading import Reading, placed
from hpcdist.importers.searches import Search, param_name

# --- The parameters and the objective of a Katib experiment, as the section ``hptuning``
#
# Sources: kubeflow/katib, ``pkg/suggestion/v1beta1``: ``internal/search_space.py`` (the lists of a grid)
# and ``hyperopt/base_service.py`` (the distributions of a random search, whose multiples are the nearest).

_LISTS: Final = ("categorical", "discrete")
_DISTRIBUTIONS: Final = {"": "uniform", "uniform": "uniform", "loguniform": "loguniform", "normal": "normal",
                         "lognormal": "lognormal"}  # fmt: skip
_WORD: Final = re.compile(r"[\w.+:/@%=,-]+")
"""What is the same inside and outside of quotes of a shell."""


def put_search(read: Reading) -> dict[str, str]:
    """Put the search; return the param of each parameter of the experiment."""
    search = Search(read, "spec", "parameters")
    algorithm, resource = katib_algorithm.name_of(read), katib_algorithm.resource_of(read)
    names: dict[str, str] = {}
    for at, _ in read.items("spec", "parameters"):
        path: Path = ("spec", "parameters", at)
        name = read.word(*path, "name") or ""
        param = param_name(name.lstrip("-"))
        if param in names.values():
            read.refuse(*path, "name", why=f"another parameter is {param!r} too", hint="rename one")
        names[name] = param
        if name == resource:
            read.get(*path)
            continue
        search.add(param, _space(read, path, algorithm), *path)
    if not search.matrix and read.peek("spec", "nasConfig") is None:
        read.refuse("spec", why="the experiment has no parameters", hint="write `parameters`")
    _put_objective(read, search)
    katib_algorithm.put_algorithm(read, search, algorithm, names)
    search.write()
    return names


def _put_objective(read: Reading, search: Search) -> None:
    """Put the metric by which trials are compared, and the goal at which the search stops."""
    above = ("spec", "objective")
    kind, metric = read.word(*above, "type"), read.word(*above, "objectiveMetricName")
    goal = number(read, (*above, "goal"))
    search.compare_by(metric, kind, *above, "objectiveMetricName")
    if "metric" not in search.section:
        hint = "write `objectiveMetricName`, and `type: minimize` or `maximize`"
        read.refuse(*above, why="which trial is best is not said", hint=hint)
        return
    if goal is not None:
        search.stop({"metric": metric, "value": goal, "optimization": kind}, *above, "goal")
    if isinstance(read.peek("spec", "earlyStopping"), Map):
        _put_medianstop(read, search, ("spec", "earlyStopping"))


def _put_medianstop(read: Reading, search: Search, above: Path) -> None:
    """Put the policy that compares with the means of the others, by default from the fourth value on."""
    name = read.get(*above, "algorithmName")
    policy = {"kind": "average", "min_interval": 4, "min_samples": 3}
    settings = {"start_step": "min_interval", "min_trials_required": "min_samples"}
    for at, _ in read.items(*above, "algorithmSettings"):
        where = (*above, "algorithmSettings", at)
        setting, value = str(read.get(*where, "name")), str(read.get(*where, "value"))
        if setting not in settings or not value.isdecimal():
            hint = "write `start_step` or `min_trials_required` with a number"
            read.refuse(*where, why=f"{setting!r} cannot be {value!r}", hint=hint)
        else:
            policy[settings[setting]] = int(value)
    if name != "medianstop":
        read.refuse(*above, why=f"{name!r} is no algorithm of early stopping", hint="write `medianstop`")
    else:
        search.end_trials(policy, *above)


def _space(read: Reading, path: Path, algorithm: str) -> Map | None:
    """Return the values of one parameter."""
    where = (*path, "feasibleSpace")
    kind, space = read.word(*path, "parameterType") or "", Map(place=read.place(*where))
    if kind in _LISTS:
        values = read.get(*where, "list")
        if not isinstance(values, list):
            read.refuse(*where, why="the values are missing", hint="write `list: [...]`")
            return None
        for at, value in enumerate(values):
            if not _WORD.fullmatch(str(value)):
                why = f"{value!r} would not be one word in each place of a command"
                read.refuse(*where, "list", at, why=why, hint="use letters, digits and . _ - + : / = , @ %")
        space.copy_from(read.peek(*where), "list", "values")
        return space
    if kind not in ("int", "double"):
        known = (*_LISTS, "int", "double")
        read.refuse(*path, "parameterType", why=f"unknown type {kind!r}", hint=did_you_mean(kind, known))
        return None
    numbers = {key: number(read, (*where, key), needed=key != "step") for key in ("min", "max", "step")}
    if numbers["min"] is None or numbers["max"] is None:
        return None
    step = 1 if kind == "int" and numbers["step"] is None else numbers["step"]
    return _range(read, path, algorithm, (numbers["min"], numbers["max"], step))


def _range(
    read: Reading, path: Path, algorithm: str, numbers: tuple[float, float, float | None]
) -> Map | None:
    """Return the values between two numbers, for a grid those in steps."""
    (low, high, step), place = numbers, read.place(*path)
    where = (*path, "feasibleSpace")
    given = read.word(*where, "distribution") or ""
    kind = _DISTRIBUTIONS.get(given.lower(), "")
    space = Map(place=place)
    if not math.isfinite((high - low) / (step or 1)) or low > high or (step is not None and step <= 0):
        why = f"there is no number from {low} to {high} in steps of {step}"
        read.refuse(*where, why=why, hint="write a `min` below `max`, and a `step` above 0")
    elif not kind:
        read.refuse(*where, "distribution", why=f"unknown distribution {given!r}",
                    hint=did_you_mean(given.lower(), _DISTRIBUTIONS))  # fmt: skip
    elif algorithm == "grid" and step is None:
        read.refuse(*where, why="a grid needs the step between the values", hint="write `step`")
    elif kind.startswith("log") and low <= 0:
        read.refuse(*where, "min", why=f"{low} has no logarithm", hint="write a number above 0")
    elif algorithm == "grid" and step is not None:
        space.put("range", placed(_steps(low, high, step), place), place)
    else:
        amounts = _amounts(kind, low, high) | ({"q": step} if step else {})
        space.put("q" * bool(step) + kind, placed(amounts, place), place)
        if step:
            space.put("rounding", "nearest", place)
    return space or None


def _steps(low: float, high: float, step: float) -> dict[str, float]:
    """Return the range with the values of ``arange(low, high + step, step)`` that are not above ``high``."""
    count = math.ceil((high + step - low) / step)
    if low + (count - 1) * ((low + step) - low) > high:
        count -= 1
    return {"start": low, "stop": low + (count - 0.5) * step, "step": step}


def _amounts(kind: str, low: float, high: float) -> dict[str, float]:
    """Return the numbers of a distribution, which for a normal one is six standard deviations wide."""
    if kind.startswith("log"):
        low, high = math.log(low), math.log(high)
    if kind.endswith("normal"):
        return {"loc": (low + high) / 2, "scale": (high - low) / 6}
    return {"low": low, "high": high}


# --- The metrics of a Katib experiment, which its collector finds in the output, as ``tracking.metrics``
#
# Source: kubeflow/katib, ``pkg/metricscollector/v1beta1/file-metricscollector``; by default a line has
# ``NAME=NUMBER``.

_COLLECTOR: Final[Path] = ("spec", "metricsCollectorSpec")
_FORMATS: Final[Path] = (*_COLLECTOR, "source", "filter", "metricsFormat")
_DEFAULT: Final = r"([\w|-]+)\s*=\s*([+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[Ee][+-]?\d+)?)"
"""Katib's own without the empty number, which it finds too."""
_BEFORE: Final = r"(?<![\w|-])"
_GROUPS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\)|\(\?", re.DOTALL)
_ELSEWHERE: Final = {
    "TensorFlowEvent": "event files are read among the outputs: write them to $HPCDIST_OUTPUTS",
    "File": "print the metrics, or write the file to the output",
}


def put_metrics(read: Reading) -> None:
    """Put an expression for each metric, where the collector reads the output."""
    above = ("spec", "objective")
    if not read.keys(*above):
        read.get(*above)
    for key in ("type", "goal", "objectiveMetricName"):
        read.get(*above, key)
    read.ignore(*above, "metricStrategies", why="trials are compared by the last value of a metric")
    metrics = [read.word(*above, "objectiveMetricName") or ""]
    more = (*above, "additionalMetricNames")
    metrics += [read.word(*more, at) or "" for at, _ in read.items(*more)]
    kind = read.word(*_COLLECTOR, "collector", "kind") or "StdOut"
    formats = [(at, read.word(*_FORMATS, at) or "") for at, _ in read.items(*_FORMATS)]
    if kind != "StdOut":
        read.get(*_COLLECTOR)
        hint = _ELSEWHERE.get(kind, "")
        read.warn(
            *_COLLECTOR, why=f"the collector {kind!r} has no effect: nothing runs beside a trial", hint=hint
        )
        return
    read.get(*_COLLECTOR, "source", "fileSystemPath")
    for at, _ in formats[1:]:
        read.warn(*_FORMATS, at, why="only the first format is used", hint="write one for all metrics")
    pattern = formats[0][1] if formats else _DEFAULT
    found = Map(place=read.place(*above))
    for name in filter(None, metrics):
        if expression := _for_metric(pattern, name):
            found.put(name, expression, read.place(*above, "objectiveMetricName"))
    if formats and not found:
        why = f"{pattern!r} has no groups for a name and a number that Python reads"
        read.warn(*_FORMATS, 0, why=why, hint="write `tracking: {metrics: {NAME: REGEX}}` in an experiment")
    if found:
        read.put("tracking.metrics", found, *above, "objectiveMetricName")


def _for_metric(pattern: str, name: str) -> str:
    """Return the pattern with a name for its first group and one group, its second; "" without these."""
    text, depth, end, groups, skipped = "", 0, 0, 0, 0
    for match in _GROUPS.finditer(pattern):
        part, at = match[0], match.start()
        text += pattern[end:at] if not skipped else ""
        end = match.end()
        if part == "(":
            depth, top = depth + 1, depth == 0
            groups += top
            if top and groups == 1:
                text, skipped = f"{text}{_BEFORE}{re.escape(name)}", depth
            elif not skipped:
                text += "(" if top and groups == 2 else "(?:"  # noqa: PLR2004 - the number
        elif part == "(?":
            depth += 1
            text += part if not skipped else ""
        elif part == ")":
            text += part if not skipped else ""
            skipped = 0 if skipped == depth else skipped
            depth -= 1
        else:
            text += part if not skipped else ""
    text += pattern[end:]
    try:
        return text if re.compile(text).groups == 1 else ""
    except (re.error, OverflowError, RecursionError):
        return ""


# --- The Go template of a Katib experiment of v1alpha3 or before, as the trial template of later versions
#
# Source: kubeflow/katib, ``examples/v1alpha3``: the names of a trial, and one block for all parameters.

_RAW: Final = ("spec", "trialTemplate", "goTemplate", "rawTemplate")
_END: Final = r"\s*\{\{-?\s*end\s*-?\}\}"
_BLOCK: Final = re.compile(
    r"\s*\{\{-?\s*with \.HyperParameters\s*-?\}\}\s*\{\{-?\s*range \.\s*-?\}\}(.*?)" + _END + _END, re.DOTALL
)
_FIELD: Final = re.compile(r"\{\{-?\s*\.(\w+)\s*-?\}\}")


def with_trial_spec(data: Map) -> Map:
    """Return the experiment with the job of its Go template as ``trialSpec``; unchanged without one.

    A template that has more than fields and one block for the parameters stays, too.

    Raises:
        ConfigError: if the template is no YAML.
    """
    read = Reading(data)
    raw, place = read.peek(*_RAW), read.place(*_RAW)
    names = [str(read.peek("spec", "parameters", at, "name")) for at, _ in read.items("spec", "parameters")]
    if not isinstance(raw, str) or place is None:
        return data
    fields = {"Trial": read.peek("metadata", "name"), "NameSpace": read.peek("metadata", "namespace")}
    text = _BLOCK.sub(lambda match: "".join(_of(match[1], name) for name in names), raw)
    text = _FIELD.sub(lambda match: str(fields.get(match[1]) or match[0]), text)
    if "{{" in text:
        return data
    try:
        spec = source.parse("\n" * place.line + text, place.file).data
    except ConfigError as error:
        raise ConfigError(*(one._replace(path=_RAW) for one in error.problems)) from None
    parameters = placed([{"name": name, "reference": name} for name in names], place)
    return _changed(data, {"trialSpec": spec, "trialParameters": parameters}, place)


def _of(body: str, name: str) -> str:
    """Return the body of the block for one parameter, whose value later versions write so."""
    values = {"Name": name, "Value": f"${{trialParameters.{name}}}"}
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), body)


def _changed(data: Map, parts: dict[str, Any], place: Place) -> Map:
    template = data["spec"]["trialTemplate"].copy()
    template.drop("goTemplate")
    for key, part in parts.items():
        template.put(key, part, place)
    spec = data["spec"].copy()
    spec["trialTemplate"] = template
    new = data.copy()
    new["spec"] = spec
    return new


# --- Katib's experiments

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
_KATIB_RAW: Final = "{% raw %}"
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
        name, reference = read.word(*where, at, "name") or "", read.word(*where, at, "reference") or ""
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
        template = (
            "{{{{ {} }}}}" if not node.startswith(_KATIB_RAW) else "{{% endraw %}}{{{{ {} }}}}{{% raw %}}"
        )
        return _MARK.sub(lambda match: template.format(match[1]), node)
    return node.mapped(lambda _, item: _with_templates(item)) if isinstance(node, (Map, Seq)) else node
