"""Inputs, params and searches of Polyaxon 1 and 2 (``V1IO``, ``V1Param`` and ``V1Matrix``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map, texts_in
from hpcdist.importers.container import ignore_set_keys
from hpcdist.importers.job import ForeignJob, ForeignSearch, Sourced
from hpcdist.importers.polyaxon import contexts
from hpcdist.importers.polyaxon_v1.text import TextInput, plain_type
from hpcdist.importers.reading import Reading

# --- Inputs and params

_SAME: Final = frozenset(
    (
        "int", "float", "bool", "str", "dict", "dict_of_dicts", "list", "uri", "auth", "path", "metric",
        "metadata",
    )
)  # fmt: skip
_TYPES: Final = {
    "gcs": "gcs_path", "s3": "s3_path", "wasb": "azure_path", "image": "str", "date": "str",
    "datetime": "str", "uuid": "str",     "any": None,
}  # fmt: skip
_UNTYPED: Final = frozenset(("git", "dockerfile", "event", "artifacts", "file", "tensorboard"))
_STRUCTURED: Final = frozenset(("dict", "dict_of_dicts", "list"))
_FLAGS: Final = {"isOptional": "is_optional", "isList": "is_list"}
_VALUES: Final = {
    "description": "description",
    "options": "options",
    "default": "default",
    "value": "default",
}
"""In previews of Polyaxon 1 ``value`` was called ``default``."""
_IGNORED: Final = {
    "validation": "values are checked by type and options only",
    "delayValidation": "values are checked before the job is submitted",
    "connection": "connections are a server's; write the path itself",
    "labels": "it is for a server of Polyaxon",
}


def inputs_of(
    read: Reading, job: ForeignJob, bases: tuple[Path, ...], searched: Mapping[str, TextInput]
) -> dict[str, TextInput]:
    """Take ``inputs``, ``outputs`` and ``params``; return the type of each param for texts.

    ``searched``: params of a search, which need no declaration.
    """
    found: dict[str, TextInput] = {}
    declared: list[dict[str, Any]] = []
    for base in bases:
        for index, item in read.items(*base, "inputs"):
            if entry := _input(read, job, item, (*base, "inputs", index), found):
                declared.append(entry)
        _misplaced(read, (*base, "inputs"), list, "write `- {name: NAME, type: TYPE}`")
        read.move("outputs", *base, "outputs")
    for base in bases:
        params = _params(read, job, (*base, "params"), found, declared)
        if params:
            read.put("params", params, *base, "params")
    for base in bases:
        _refuse_templates(read, base, found)
    if declared:
        declared += [
            {"name": name, "is_optional": not one.required}
            for name, one in searched.items()
            if name not in found
        ]
        place = next(base for base in bases if read.peek(*base, "inputs"))
        read.put("inputs", declared, *place, "inputs")
    return {**searched, **found}


def _refuse_templates(read: Reading, base: Path, found: Mapping[str, TextInput]) -> None:
    """Refuse values with templates, which hpcdist does not fill in."""
    values: list[Path] = [(*base, "params", name) for name in read.keys(*base, "params")]
    values += [(*base, "inputs", index, "value") for index, _ in read.items(*base, "inputs")]
    for above in values:
        for path, text in texts_in(read.peek(*above), above):
            names = [*contexts.unknown_names(text, found.keys(), in_param=True)]
            if not names and "{{" in text:
                names = [contexts.unfilled(text)]
            for name in names:
                if not name.of_run:
                    read.refuse(*path, why=name.why, hint=name.hint)


def _misplaced(read: Reading, path: Path, kind: type, hint: str) -> None:
    node = read.peek(*path)
    if node and not isinstance(node, kind):
        read.refuse(*path, why=f"expected {'a list' if kind is list else 'keys and values'}", hint=hint)


def _input(
    read: Reading, job: ForeignJob, item: object, path: Path, found: dict[str, TextInput]
) -> dict[str, Any] | None:
    name = read.get(*path, "name")
    if not isinstance(item, Mapping) or not isinstance(name, str) or not name.isidentifier():
        read.refuse(
            *path, why="this is not an input that a template can use", hint="write `{name: NAME, type: TYPE}`"
        )
        return None
    entry: dict[str, Any] = {"name": name}
    kind = _type(read, (*path, "type"))
    if kind:
        entry["type"] = kind
    for key, native in (_FLAGS | _VALUES).items():
        if read.get(*path, key) is not None:
            entry[native] = read.peek(*path, key)
    if "default" in entry:
        entry["is_optional"] = True
    ignore_set_keys(read, _IGNORED, *path)
    structured = kind in _STRUCTURED or entry.get("is_list") is True or _is_structured(entry.get("default"))
    _destinations(read, job, name, path, structured=structured)
    form = read.get(*path, "argFormat")
    if read.get(*path, "isFlag") is True:
        entry["is_flag"] = True
    flag = kind == "bool" or "is_flag" in entry
    plain = plain_type(kind) and entry.get("is_list") is not True
    found[name] = TextInput(plain, flag, form if isinstance(form, str) else None)
    return entry


def _type(read: Reading, path: Path) -> str | None:
    kind = read.get(*path)
    if kind is None or (isinstance(kind, str) and kind in _SAME):
        return str(kind) if kind else None
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if not (isinstance(kind, str) and kind in _UNTYPED):
        read.warn(*path, why=f"values of type {kind!r} are not checked")
    return None


def _is_structured(value: object) -> bool:
    return isinstance(value, (dict, list))


def _destinations(read: Reading, job: ForeignJob, name: str, path: Path, *, structured: bool) -> None:
    """Take ``toEnv``, which is a variable, and ``toInit``, which is an init step of Polyaxon.

    Polyaxon converts sections and lists to JSON for a variable (``get_env_var`` of
    https://github.com/polyaxon/polyaxon, core/polyaxon/polypod/common/env_vars.py).
    """
    variable = read.get(*path, "toEnv")
    if isinstance(variable, str) and variable:
        expression = f"{name}|tojson" if structured else name
        job.env[variable] = Sourced(f"{{{{ {expression} }}}}", (*path, "toEnv"))
    elif variable not in (None, ""):
        read.refuse(
            *path, "toEnv", why=f"{variable!r} is not a variable name", hint="write the name of a variable"
        )
    if read.get(*path, "toInit"):
        hint = "get it before the job is submitted"
        read.refuse(*path, "toInit", why=f"Polyaxon would fetch {name} before the program starts", hint=hint)


def _is_from_run(param: object) -> bool:
    """Return whether a param has the value of another run."""
    value = param.get("value") if isinstance(param, Mapping) else param
    if isinstance(param, Mapping) and (param.get("ref") or "value" not in param):
        return True
    names = (name for _, text in texts_in(value, ()) for name in contexts.unknown_names(text))
    return any(name.of_run for name in names)


def _params(
    read: Reading, job: ForeignJob, path: Path, found: dict[str, TextInput], declared: list[dict[str, Any]]
) -> dict[str, object]:
    _misplaced(read, path, Mapping, "write `NAME: {value: VALUE}`")
    params: dict[str, object] = {}
    for name in read.keys(*path):
        item = read.peek(*path, name)
        where = (*path, name, "value") if isinstance(item, Mapping) else (*path, name)
        if _is_from_run(item):
            read.get(*path, name)
            why = f"{name} comes from another run, which is not read"
            read.warn(*path, name, why=why, hint=f"give it with `-p {name}=VALUE`")
            for entry in declared:
                if entry["name"] == name:
                    entry.pop("default", None)
                    entry.pop("is_optional", None)
            continue
        params[name] = read.get(*where)
        read.get(*path, name, "ref")
        hidden = read.get(*path, name, "contextOnly") is True
        ignore_set_keys(read, {"connection": _IGNORED["connection"]}, *path, name)
        _destinations(read, job, name, (*path, name), structured=_is_structured(params[name]))
        if name not in found:
            found[name] = TextInput(isinstance(params[name], (int, float)))
            declared += [{"name": name, "is_optional": True}] if hidden and declared else []
    return params


# --- Searches

_KEYS: Final = ("matrix", "parallel")
"""The second is its name in the previews of Polyaxon 1."""

_NUMBERS: Final = ("range", "linspace", "logspace", "geomspace", "uniform", "quniform", "loguniform",
                   "qloguniform", "normal", "qnormal", "lognormal", "qlognormal")  # fmt: skip
_SPACES: Final = {"choice": "values", "pchoice": "pvalues", **{name: name for name in _NUMBERS}}
_ALGORITHMS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "grid": ("grid_search", {"numRuns": "n_experiments"}),
    "random": ("random_search", {"numRuns": "n_experiments"}),
    "mapping": ("", {}),
    "hyperopt": ("", {}),
    "hyperband": (
        "hyperband",
        {"maxIterations": "max_iterations", "eta": "eta", "resource": "resource", "metric": "metric",
         "resume": "resume"},
    ),
    "bayes": (
        "bo",
        {"numInitialRuns": "n_initial_trials", "maxIterations": "n_iterations", "metric": "metric",
         "utilityFunction": "utility_function"},
    ),
}  # fmt: skip
_HYPEROPT: Final = {"tpe": 20, "anneal": 1}
"""How many trials Hyperopt draws at random at first (0.2.7, ``_default_n_startup_jobs`` of ``tpe.py``)."""
_SHARED: Final = {"concurrency": "concurrency", "seed": "seed"}
_POLICIES: Final = {"median": "median", "truncation": "truncation", "diff": "difference"}
_POLICY_KEYS: Final = {"evaluationInterval": "evaluation_interval", "minInterval": "min_interval",
                       "minSamples": "min_samples", "percent": "percent"}  # fmt: skip


def put_search(read: Reading) -> dict[str, TextInput]:
    """Put the search, if there is one; return its params, for texts."""
    key = next((key for key in _KEYS if read.peek(key)), "")
    kind = str(read.get(key, "kind")) if key else ""
    if not key:
        return {}
    if kind not in _ALGORITHMS:
        hint = f"write one of {', '.join(_ALGORITHMS)}"
        why = f"there are no searches of the kind {kind!r}"
        if kind == "iterative":
            why = "the trials of an iterative search come from a tuner, which is a program of its own"
        read.refuse(key, "kind", why=why, hint=hint)
        read.get(key)
        return {name: TextInput() for name in read.keys(key, "params")}
    search = ForeignSearch(read, key)
    search.copy(_SHARED, key)
    name, keys = _ALGORITHMS[kind]
    if name:
        section = Map(place=read.place(key, "kind"))
        search.copy(keys, key, to=section)
        search.put(name, section, key, "kind")
    if kind == "hyperopt":
        _put_hyperopt(read, search, key)
    read.ignore(key, "tuner", why="hpcdist chooses the trials itself")
    _put_early_stopping(read, search, (key, "earlyStopping"))
    found = _trials(read, search, key) if kind == "mapping" else _spaces(read, search, key)
    search.write()
    return found


def _put_hyperopt(read: Reading, search: ForeignSearch, key: str) -> None:
    """Put as many trials as ``maxIterations`` rounds of ``numRuns``, the first ones random.

    Source: hypertune 1.2.1, ``search_managers/hyperopt/manager.py``: a round has ``num_runs`` trials.
    """
    algorithm = (read.text(key, "algorithm") or "").lower()
    each = _count(read, (key, "numRuns"), 0) or 1
    total = each * _count(read, (key, "maxIterations"), 1)
    search.copy({"metric": "metric"}, key)
    if algorithm in _HYPEROPT and "metric" not in search.section:
        hint = "write `metric: {name: NAME, optimization: minimize}`"
        read.refuse(key, why="which trial is best is not said", hint=hint)
    elif algorithm in _HYPEROPT:
        initial = max(each, _HYPEROPT[algorithm])
        search.bayes(total, initial, f"Hyperopt's {algorithm}", key, "algorithm")
        return
    elif algorithm != "rand":
        why = f"{algorithm!r} is no algorithm of Hyperopt" if algorithm else "the algorithm is missing"
        read.refuse(key, "algorithm", why=why, hint="write tpe, anneal or rand")
    search.static("random_search", total, key, "numRuns")


def _count(read: Reading, path: Path, default: int) -> int:
    value = read.get(*path)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if value is not None or not default:
        why = f"{path[-1]!r} is missing" if value is None else f"{value!r} is no number of trials"
        read.refuse(*path, why=why, hint="write a whole number")
    return default


def _put_early_stopping(read: Reading, search: ForeignSearch, path: Path) -> None:
    """Put the values of metrics at which the search stops."""
    if not read.peek(*path):
        read.get(*path)
    for at, one in read.items(*path):
        where = (*path, at)
        kind = str(read.get(*where, "kind") if isinstance(one, Map) else one)
        if kind == "failure_early_stopping":
            read.get(*where)
            hint = "a number does: `--set hptuning.max_failures=5`"
            read.warn(*where, why="a share of failed trials ends no search", hint=hint)
        elif kind != "metric_early_stopping":
            hint = "write `kind: metric_early_stopping`"
            read.refuse(*where, why=f"{kind!r} is no kind of early stopping", hint=hint)
        else:
            search.stop(_stop(read, search, where), *where)


def _stop(read: Reading, search: ForeignSearch, where: Path) -> Map:
    """Return when the search stops, or with a policy which running trials end, whatever the value is."""
    stop, names = Map(place=read.place(*where)), ["metric", "value", "optimization"]
    if read.peek(*where, "policy") is not None:
        names.remove("value")
        if read.get(*where, "value") is not None:
            read.warn(*where, "value", why="with a policy it stops nothing, as in Polyaxon")
        if policy := _policy(read, search, (*where, "policy")):
            stop.put("policy", policy, policy.place)
    elif read.get(*where, "value") is None:
        read.refuse(*where, why="the value at which the search stops is missing", hint="write `value`")
    search.copy({name: name for name in names}, *where, to=stop)
    return stop


def _policy(read: Reading, search: ForeignSearch, path: Path) -> Map | None:
    """Return the policy by which trials end; None, with an error, if it is invalid."""
    kind, policy = str(read.get(*path, "kind")), Map(place=read.place(*path))
    if kind not in _POLICIES:
        read.refuse(*path, why=f"{kind!r} is no policy", hint="write `kind: median`, `truncation` or `diff`")
        read.get(*path)
        return None
    policy.put("kind", _POLICIES[kind], read.place(*path, "kind"))
    if read.get(*path, "includeSucceeded") is False:
        why = "includeSucceeded has no effect: all trials that got as far are compared"
        read.warn(*path, "includeSucceeded", why=why)
    search.copy(_POLICY_KEYS, *path, to=policy)
    return policy


def _trials(read: Reading, search: ForeignSearch, key: str) -> dict[str, TextInput]:
    read.get(key, "values")
    search.copy({"values": "mapping"}, key)
    trials = [item for _, item in read.items(key, "values") if isinstance(item, Mapping)]
    names = {name: None for trial in trials for name in trial}
    return {
        name: TextInput(
            plain=all(_is_number(trial.get(name)) for trial in trials),
            required=any(name not in trial for trial in trials),
        )
        for name in names
    }


def _spaces(read: Reading, search: ForeignSearch, key: str) -> dict[str, TextInput]:
    found = {}
    for name in read.keys(key, "params"):
        search.add(name, _space(read, (key, "params", name)), key, "params", name)
        found[name] = TextInput(_is_plain(read, (key, "params", name)))
    return found


def _space(read: Reading, path: Path) -> Map:
    """Return the values of one param, under the key that names their kind."""
    kind, space = read.get(*path, "kind"), Map(place=read.place(*path))
    read.get(*path, "value")
    if kind in _SPACES:
        section = read.peek(*path)
        if isinstance(section, Map) and "value" in section:
            space.copy_from(section, "value", _SPACES[kind])
    else:
        read.refuse(
            *path, "kind", why=f"values of the kind {kind!r} are not searched", hint="write `kind: choice`"
        )
    return space


def _is_plain(read: Reading, path: Path) -> bool:
    """Whether its values are numbers, which need no quotes in a command."""
    kind, values = read.peek(*path, "kind"), read.peek(*path, "value")
    if kind == "pchoice" and isinstance(values, list):
        values = [pair[0] for pair in values if isinstance(pair, list) and pair]
    return kind in _NUMBERS or (isinstance(values, list) and all(map(_is_number, values)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
