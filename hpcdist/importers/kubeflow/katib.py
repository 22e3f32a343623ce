"""Katib's experiments: the job of their trial template, with a search over its parameters.

Source: https://www.kubeflow.org/docs/components/katib/user-guides (v1beta1); kubeflow/katib,
``pkg/apis/controller/experiments/v1beta1/experiment_types.go``. Katib fills in the template as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hpcdist.base import source, tree
from hpcdist.base.errors import ConfigError, Path, Problem, did_you_mean
from hpcdist.base.tree import Map, texts_in
from hpcdist.experiment.trials import brackets, has_brackets
from hpcdist.importers import Imported
from hpcdist.importers.job import ForeignSearch, Sourced, param_name
from hpcdist.importers.reading import Reading, placed, with_texts, with_value

# --- The algorithm of a Katib experiment, with the number of its trials
#
# Source: kubeflow/katib, ``pkg/suggestion/v1beta1`` (``hyperopt``, ``optuna``, ``skopt`` and ``hyperband``);
# ``manifests/v1beta1/installs/katib-standalone/katib-config.yaml``, which has the one of each algorithm.

_AT_ONCE: Final = 3  # Katib's default
_ETA: Final = 3.0  # Katib's default
_NAME: Final[Path] = ("spec", "algorithm", "algorithmName")
_SETTINGS: Final[Path] = ("spec", "algorithm", "algorithmSettings")
_STATIC: Final = {"random": "random_search", "sobol": "random_search", "grid": "grid_search"}
_OTHERS: Final = ("cmaes", "pbt", "enas", "darts")
_HINT: Final = "write `algorithmName: tpe`, `hyperband`, `random` or `grid`"
_NUMBER: Final = "write a number"


class _Bayes(NamedTuple):
    """The setting for the number of first, random trials; default 0: as many as run at once."""

    settings: tuple[str, ...] = ()
    initial: int = 0
    other: str = ""


_SKOPT: Final = _Bayes(("n_initial_points",), 10, "scikit-optimize")
_BAYES: Final = {
    "tpe": _Bayes(other="Hyperopt's"),
    "multivariate-tpe": _Bayes(("n_startup_trials", "startup_trials"), 10),
    "bayesianoptimization": _SKOPT,
    "skopt-bayesian-optimization": _SKOPT,
}


def name_of(read: Reading) -> str:
    """Return the algorithm; random, with an error, if hpcdist has no such algorithm."""
    name = read.word(*_NAME) or ""
    if name in (*_STATIC, *_BAYES, "hyperband"):
        if name == "sobol":
            read.warn(*_NAME, why="trials are drawn independently, and not by a sequence of Sobol")
        return name
    why = f"{name!r} is no algorithm" if name else "the algorithm is missing"
    read.refuse(*_NAME, why=f"hpcdist has no algorithm like {name}" if name in _OTHERS else why, hint=_HINT)
    read.get("spec", "algorithm")
    return "random"


def resource_of(read: Reading) -> str | None:
    """Return the parameter that is hyperband's resource, whose values hyperband chooses."""
    if read.peek(*_NAME) != "hyperband":
        return None
    named = (at for at, _ in read.items(*_SETTINGS) if read.peek(*_SETTINGS, at, "name") == "resource_name")
    return next((read.word(*_SETTINGS, at, "value") for at in named), None)


def put_algorithm(read: Reading, search: ForeignSearch, algorithm: str, names: dict[str, str]) -> None:
    """Put the algorithm, the number of trials in total and at once, and the seed."""
    at_once = _count(read, ("spec", "parallelTrialCount"))
    at_once = _AT_ONCE if at_once is None else at_once
    search.put("concurrency", at_once, "spec")
    failures = _count(read, ("spec", "maxFailedTrialCount"))
    if failures is not None:
        search.put("max_failures", max(1, failures), "spec", "maxFailedTrialCount")
    settings = _settings(read)
    if (seed := settings.get("random_state")) and seed.value.isdecimal():
        search.put("seed", int(seed.value), *seed.source)
        settings.pop("random_state")
    total = _count(read, ("spec", "maxTrialCount"))
    if algorithm == "hyperband":
        _put_hyperband(read, search, settings, names)
    elif algorithm in _BAYES and total is not None:
        kind = _BAYES[algorithm]
        named = [settings.pop(name) for name in kind.settings if name in settings]
        initial = (_count(read, named[-1].source) or 1) if named else kind.initial or at_once
        search.bayes(total, max(1, initial), kind.other, *_NAME)
    else:
        _put_static(read, search, algorithm if algorithm in _STATIC else "random", total)
    if read.peek(*_NAME) not in (*_STATIC, *_BAYES, "hyperband"):
        return
    for name, setting in settings.items():
        what = "Optuna's TPE" if algorithm in _BAYES else f"a {algorithm} search"
        read.warn(*setting.source[:-1], why=f"{name} has no effect on {what}")


def _settings(read: Reading) -> dict[str, Sourced]:
    """Take the settings of the algorithm by their names."""
    if not read.peek(*_SETTINGS):
        read.get(*_SETTINGS)
    paths = {at: (*_SETTINGS, at) for at, _ in read.items(*_SETTINGS)}
    return {
        str(read.word(*path, "name")): Sourced(read.word(*path, "value") or "", (*path, "value"))
        for path in paths.values()
    }


def _put_static(read: Reading, search: ForeignSearch, algorithm: str, total: int | None) -> None:
    if total is None and algorithm != "grid":
        why = "the number of trials is missing"
        read.refuse("spec", "maxTrialCount", why=why, hint="write `maxTrialCount`")
    search.static(_STATIC[algorithm], total, "spec", *(["maxTrialCount"] if total is not None else []))


def _put_hyperband(
    read: Reading, search: ForeignSearch, settings: dict[str, Sourced], names: dict[str, str]
) -> None:
    """Put hyperband, whose settings say how many trials it has."""
    resource, most = settings.pop("resource_name", None), settings.pop("r_l", None)
    given, amount = settings.pop("eta", None), _count(read, most.source) if most else None
    eta = (number(read, given.source) if given else None) or _ETA
    eta = _ETA if eta < 0 else eta
    param = names.get(resource.value) if resource else None
    if resource and not param:
        hint = f"there are {', '.join(names)}"
        read.refuse(*resource.source, why=f"no parameter has the name {resource.value!r}", hint=hint)
    elif not resource or not most:
        why = "hyperband needs a resource and the most of it that a trial gets"
        read.refuse(*_SETTINGS, why=why, hint="write the settings `resource_name` and `r_l`")
    elif amount is not None:
        numbers = {"max_iterations": amount, "eta": eta, "resource": {"name": param or "", "type": "int"}}
        search.with_metric("hyperband", placed(numbers, read.place(*_SETTINGS)))
        if has_brackets(amount, eta):
            count = sum(each.trials for one in brackets(amount, eta) for each in one)
            why = f"there are {count} trials, by the paper of hyperband"
            read.warn(*_NAME, why=f"{why}; each bracket of Katib begins with `parallelTrialCount`")
            if (_count(read, ("spec", "maxTrialCount")) or count) < count:
                read.warn("spec", "maxTrialCount", why=f"hyperband is not cut short: it has {count} trials")
        return
    _put_static(read, search, "random", 1)


def _count(read: Reading, path: Path) -> int | None:
    """Take a whole number."""
    value = number(read, path)
    if value is not None and value != int(value):
        read.refuse(*path, why=f"{value} is no whole number", hint=_NUMBER)
    return None if value is None else int(value)


def number(read: Reading, path: Path, *, needed: bool = False) -> float | None:
    """Take a number, which Katib may write as text."""
    text = read.word(*path)
    if text in (None, ""):
        if needed:
            read.refuse(*path[:-1], why=f"{path[-1]!r} is missing", hint=_NUMBER)
        return None
    value = tree.resolve(str(text).strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        read.refuse(*path, why=f"{text!r} is not a number", hint=_NUMBER)
        return None
    return value


# --- The parameters and the objective of a Katib experiment, as the section ``hptuning``
#
# Sources: kubeflow/katib, ``pkg/suggestion/v1beta1``: ``internal/search_space.py`` (the lists of a grid)
# and ``hyperopt/base_service.py`` (the distributions of a random search, whose multiples are the nearest).

_LISTS: Final = ("categorical", "discrete")
_DISTRIBUTIONS: Final = {"": "uniform", "uniform": "uniform", "loguniform": "loguniform", "normal": "normal",
                         "lognormal": "lognormal"}  # fmt: skip
_WORD: Final = re.compile(r"[\w.+:/@%=,-]+")
"""Text that means the same inside and outside of a shell's quotes."""


def put_search(read: Reading) -> dict[str, str]:
    """Put the search; return the param of each parameter of the experiment."""
    search = ForeignSearch(read, "spec", "parameters")
    algorithm, resource = name_of(read), resource_of(read)
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
    put_algorithm(read, search, algorithm, names)
    search.write()
    return names


def _put_objective(read: Reading, search: ForeignSearch) -> None:
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


def _put_medianstop(read: Reading, search: ForeignSearch, above: Path) -> None:
    """Put the policy that compares with the means of other trials, by default from the fourth value on."""
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
        if kind.startswith("log"):
            low, high = math.log(low), math.log(high)
        amounts = {"low": low, "high": high}
        if kind.endswith("normal"):  # it is six standard deviations wide
            amounts = {"loc": (low + high) / 2, "scale": (high - low) / 6}
        space.put("q" * bool(step) + kind, placed(amounts | ({"q": step} if step else {}), place), place)
        if step:
            space.put("rounding", "nearest", place)
    return space or None


def _steps(low: float, high: float, step: float) -> dict[str, float]:
    """Return the range with the values of ``arange(low, high + step, step)`` that are not above ``high``."""
    count = math.ceil((high + step - low) / step)
    if low + (count - 1) * ((low + step) - low) > high:
        count -= 1
    return {"start": low, "stop": low + (count - 0.5) * step, "step": step}


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
            *_COLLECTOR, why=f"the collector {kind!r} has no effect: nothing else runs in a trial", hint=hint
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


def _filled(text: str, fields: Mapping[str, Any]) -> str:
    return _FIELD.sub(lambda match: str(fields.get(match[1]) or match[0]), text)


def with_trial_spec(data: Map) -> Map:
    """Return the experiment with the job of its Go template as ``trialSpec``; unchanged without one.

    A template that has more than fields and one block for the parameters stays, too.

    Raises:
        ConfigError: if the template is not YAML.
    """
    read = Reading(data)
    raw, place = read.peek(*_RAW), read.place(*_RAW)
    names = [str(read.peek("spec", "parameters", at, "name")) for at, _ in read.items("spec", "parameters")]
    if not isinstance(raw, str) or place is None:
        return data
    fields = {"Trial": read.peek("metadata", "name"), "NameSpace": read.peek("metadata", "namespace")}
    values = [{"Name": name, "Value": f"${{trialParameters.{name}}}"} for name in names]
    text = _BLOCK.sub(lambda match: "".join(_filled(match[1], each) for each in values), raw)
    text = _filled(text, fields)
    if "{{" in text:
        return data
    try:
        spec = source.parse("\n" * place.line + text, place.file).data
    except ConfigError as error:
        raise ConfigError(*(one._replace(path=_RAW) for one in error.problems)) from None
    parameters = placed([{"name": name, "reference": name} for name in names], place)

    def change(template: Map) -> Map:
        new = template.copy()
        new.drop("goTemplate")
        new.put("trialSpec", spec, place)
        new.put("trialParameters", parameters, place)
        return new

    changed: Map = with_value(data, ("spec", "trialTemplate"), change)
    return changed


# --- Katib's experiments

_TEMPLATE: Final[Path] = ("spec", "trialTemplate")
_TRIAL: Final[Path] = (*_TEMPLATE, "trialSpec")
_PLACEHOLDER: Final = re.compile(r"\$\{trialParameters\.([^{}]+)\}")
_OF_TRIAL: Final = re.compile(
    r"\$\{trialSpec\.(?:(Namespace|Kind|APIVersion)|(Labels|Annotations)\[(.+)\])\}"
)
"""The data of its job that a trial may refer to, besides the name."""
_MARK: Final = re.compile(r"@hpcdist@(\w+)@")
"""The mark for a parameter while the job is read: a word that shells and importers do not change."""
_TEXTS: Final = frozenset({"command", "args", "env"})
_INLINE: Final = "write the job here, as `trialSpec`, with ${trialParameters.NAME} where a parameter belongs"
_IGNORED: Final = {"resumePolicy": "no service is kept; a search continues from its run directory"}
_OF_TEMPLATE: Final = (
    "retain", "primaryContainerName", "primaryPodLabels", "successCondition", "failureCondition",
)  # fmt: skip
"""What says nothing new: a run's directory stays, and a batch job succeeds when its exit code is 0."""
_USUAL_CONDITION: Final = re.compile(r"[\"'](Complete|Succeeded|Failed)[\"']")
"""The conditions of an ended job in Kubernetes."""


def is_experiment(data: Mapping[str, Any]) -> bool:
    """Return whether this is an experiment of Katib."""
    group = str(data.get("apiVersion")).partition("/")[0]
    return data.get("kind") == "Experiment" and group.endswith("kubeflow.org")


def experiment(data: Map, read_job: Callable[[Map], Imported]) -> Imported:
    """Return the native form of the trial's job, by ``read_job``, with the search.

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
    job: Map = with_texts(
        spec, lambda text: _PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), text)
    )
    for path, name in _placeholders(spec):
        if not _TEXTS & {*path[len(_TRIAL) :]}:
            why = f"all trials are one kind of job, which {name!r} would change"
            read.refuse(*path, why=why, hint="write one value here; `command`, `args` and `env` may differ")
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
    for path, name in _placeholders(read.peek(*_TRIAL)):
        if name not in found:
            hint = "write it in `trialParameters`"
            read.refuse(*path, why=f"the parameter {name!r} is not declared", hint=hint)
    return found


def _of_trial(read: Reading, reference: str) -> str | None:
    """Return the meaning of a reference to the trial's job, None if it is known only in Kubernetes."""
    match = _OF_TRIAL.fullmatch(reference)
    path: Path = ()
    if match and match[1]:
        paths = {"Namespace": ("metadata", "namespace"), "Kind": (*_TRIAL, "kind")}
        path = paths.get(match[1], (*_TRIAL, "apiVersion"))
    elif match:
        path = (*_TRIAL, "metadata", match[2].lower(), match[3])
    value = read.peek(*path) if path else None
    return None if value is None or isinstance(value, (dict, list)) else str(value)


def _placeholders(node: object) -> list[tuple[Path, str]]:
    """Return the parameters in the job of a trial, each with its place."""
    texts = texts_in(node, _TRIAL)
    return [(where, match[1]) for where, text in texts for match in _PLACEHOLDER.finditer(text)]


def _joined(read: Reading, job: Map, read_job: Callable[[Map], Imported]) -> Imported:
    """Return the native form of the job with the search."""
    own = read.finish()
    try:
        found = read_job(job)
    except ConfigError as error:
        raise ConfigError(*own.remarks, *map(_in_template, error.problems)) from None
    data: Map = with_texts(found.data, _with_templates)
    for key in own.data:
        data.copy_from(own.data, key)
    origins = {**own.origins, **{key: (*_TRIAL, *path) for key, path in found.origins.items()}}
    return Imported(data, (*own.remarks, *map(_in_template, found.remarks)), origins)


def _in_template(problem: Problem) -> Problem:
    """Return a problem of the job with its path in the experiment."""
    at_top = problem.path[:1] == ("metadata",)
    texts = [_MARK.sub(r"${trialParameters: \1}", text) for text in (problem.message, problem.hint)]
    path = problem.path if at_top else (*_TRIAL, *problem.path)
    return problem._replace(message=texts[0], hint=texts[1], path=path)


def _with_templates(text: str) -> str:
    """Return a text of the native form with templates in place of marks."""
    is_raw = text.startswith("{% raw %}")
    template = "{{% endraw %}}{{{{ {} }}}}{{% raw %}}" if is_raw else "{{{{ {} }}}}"
    return _MARK.sub(lambda match: template.format(match[1]), text)
