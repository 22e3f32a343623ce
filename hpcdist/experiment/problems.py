"""Problems of an experiment that its types do not exclude: amounts, worker indexes, names of variables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal

from hpcdist.base import text_checks
from hpcdist.base.errors import Key, Path, Problem, did_you_mean
from hpcdist.base.units import Memory
from hpcdist.base.words import RUN_NAME, RUN_NAME_FORM, VARIABLE_NAME, quote, slug
from hpcdist.base.yaml_errors import quoted
from hpcdist.experiment.batch import (
    Batch,
    Mail,
    array_problems,
    dependency_problems,
    log_file_problems,
    signal_problems,
)
from hpcdist.experiment.model import (
    Build,
    Environment,
    Experiment,
    ReplicaEntry,
    Replicas,
    Resources,
    Scalar,
    Tracking,
)
from hpcdist.experiment.program import MOST_COUNT, Run, restart_problems, stage_problems
from hpcdist.experiment.replicas import ROLES, node_count_problems
from hpcdist.experiment.search import Policy, Search, values_of
from hpcdist.experiment.sources import is_ref, url_error, without_credentials
from hpcdist.experiment.trials import LEAST_ETA, MOST_AMOUNT, MOST_ETA, first_size, trials

# --- Problems of an experiment

_RUNNER: Final = re.compile(
    r"(?:\S*/)?(?:python[\d.]*|bash|sh|zsh|perl|ruby|julia|Rscript|node|java|mpirun|mpiexec|srun|torchrun|"
    r"horovodrun|deepspeed|accelerate|env|exec|nohup|time|apptainer|singularity)"
)
"""Programs that need a further argument."""

_NO_COMMAND = re.compile(r"\s*(?:-|[\d.]+(?:\s|$))")


MOST_GPU_HOURS: Final = 1e9
"""The largest budget; more GPU-hours than all GPUs together have in a year."""


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield all problems of an experiment that its types do not exclude."""
    environment = experiment.environment
    yield from tracking_problems(experiment.tracking, ("tracking",))
    if not RUN_NAME.fullmatch(experiment.name):
        hint = f"{RUN_NAME_FORM}, such as {slug(experiment.name)!r}"
        yield Problem(f"{experiment.name!r} is not a valid job name", ("name",), hint)
    yield from _count_problems(environment)
    if experiment.hptuning is not None:
        yield from search_problems(experiment.hptuning, ("hptuning",))
        if experiment.batch.array is not None:
            yield Problem("the search makes the array", ("batch", "array"), "remove it, or `hptuning`")
        yield from _stop_problems(experiment.hptuning, experiment.tracking.metrics)
    yield from _pack_problems(experiment)
    if environment.resources:
        yield from resource_problems(environment.resources, ("environment", "resources"))
    section = environment.replicas or Replicas()
    for role, count, own, default in (
        ("worker", section.n_workers, section.worker, section.default_worker),
        ("ps", section.n_ps, section.ps, section.default_ps),
    ):
        yield from _replica_problems(role, count, own, default)
    if section.ps_on and not section.n_ps:
        path = ("environment", "replicas", "ps_on")
        yield Problem("there are no parameter servers", path, "write `n_ps`, or remove `ps_on`")
    if section.evaluator and section.evaluator.resources:
        yield from resource_problems(
            section.evaluator.resources, ("environment", "replicas", "evaluator", "resources")
        )
    yield from node_count_problems(experiment)
    yield from _selector_problems(environment)
    yield from _variable_problems(experiment)
    yield from _batch_problems(experiment.batch)
    is_array = bool(experiment.batch.array is not None or experiment.hptuning)
    yield from log_file_problems(experiment.batch, is_array=is_array)
    yield from repository_problems(experiment)
    if experiment.logging.level is not None:
        yield from text_checks.log_level_problems(experiment.logging.level, ("logging", "level"))
    yield from _run_problems(experiment)
    yield from stage_problems(experiment.stage)
    if restarts := experiment.environment.restart:
        has_number = experiment.environment.max_restarts is not None
        is_search = experiment.hptuning is not None
        yield from restart_problems(restarts, experiment.batch, is_search=is_search, has_number=has_number)
    yield from text_checks.length_problems("the command", experiment.run.command, ("run", "cmd"))
    yield from text_checks.length_problems(
        "the section", json.dumps(experiment.params, default=str), ("params",)
    )


def _stop_problems(search: Search, in_output: Collection[str]) -> Iterator[Problem]:
    """Yield what ends no search, or no trial: a metric that is not read while trials start, or run."""
    for at, stop in enumerate(search.early_stopping):
        if stop.metric in in_output and stop.policy:
            message = f"{stop.metric!r} is found in the output, by which no trial ends early"
            where: Path = ("hptuning", "early_stopping", at, "policy")
            yield Problem(message, where, "record it in the program", severity="warning")
        if stop.metric in in_output and stop.value is not None and not search.is_adaptive:
            message = (
                f"{stop.metric!r} is found in the output, which ends an adaptive search only: all trials run"
            )
            path: Path = ("hptuning", "early_stopping", at, "metric")
            yield Problem(message, path, "record it in the program", severity="warning")


def _pack_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield the problems of packing, which is for the trials of a search."""
    resources = experiment.environment.resources
    shares = resources.gpu.trials_per_gpu if resources else None
    path: Path = ("environment", "resources", "gpu", "trials_per_gpu")
    if shares is not None and not 1 <= shares <= MOST_COUNT:
        yield Problem(f"{shares} is out of range", path, f"write a number from 1 to {MOST_COUNT}")
    if experiment.hptuning is None:
        given = {("batch", "pack"): experiment.batch.pack, path: shares}
        for place in (place for place, value in given.items() if value):
            yield Problem("only the trials of a search share nodes", place, "remove it, or write `hptuning`")
    elif (shares or 1) > 1 and experiment.batch.pack is False:
        yield Problem("trials share a GPU only where they are packed", path, "remove it, or `pack: false`")


def _selector_problems(environment: Environment) -> Iterator[Problem]:
    for selector, path in _node_selectors(environment):
        for key in (key for key, value in selector.items() if value == ""):
            yield Problem("the value is empty", (*path, key), "write a value, or remove the key")


def _node_selectors(environment: Environment) -> Iterator[tuple[Mapping[str, Scalar], Path]]:
    """Yield each node selector with its path."""
    section, base = environment.replicas or Replicas(), ("environment", "replicas")
    yield environment.node_selector, ("environment", "node_selector")
    for name in ("default_worker", "default_ps", "evaluator"):
        if entry := getattr(section, name):
            yield entry.node_selector, (*base, name, "node_selector")
    for name in ("worker", "ps"):
        for index, entry in enumerate(getattr(section, name)):
            yield entry.node_selector, (*base, name, index, "node_selector")


def _run_problems(experiment: Experiment) -> Iterator[Problem]:
    run, image = experiment.run, experiment.build and experiment.build.image
    if run.cmd is None and not run.entrypoint:
        hint = "write the command, or `entrypoint: image` for the image's own program" if image else ""
        yield Problem("'cmd' is missing", ("run",), hint)
    elif run.starts_entrypoint and not image:
        yield Problem("there is no image", ("run", "entrypoint"), "write `build: {image: ...}`, or a `cmd`")
    yield from _image_problems(experiment.build, run)
    for role in run.args if isinstance(run.args, dict) else ():
        if role not in ROLES:
            yield Problem(f"there is no role {role!r}", ("run", "args", Key(role)), did_you_mean(role, ROLES))
    for key in ("entrypoint", "args") if run.cmd is not None else ():
        if getattr(run, key) is not None:
            message = f"{key!r} has no effect: `cmd` is the program"
            yield Problem(message, ("run", key), "remove one of the two", "warning")
    if _is_empty(run.command):
        yield Problem("the command is empty", ("run", "cmd"), "write the command that starts the program")
    for path, step in run.steps:
        if _is_empty(step.command):
            yield Problem("the command is empty", ("run", *path, "cmd"), "write one, or remove it")
    yield from _list_problems(run.cmd or "")


def _is_empty(command: str) -> bool:
    """Whether a command has no line but comments."""
    return all(line.lstrip()[:1] in {"", "#"} for line in command.splitlines())


def _image_problems(build: Build | None, run: Run) -> Iterator[Problem]:
    """Yield what is wrong with the folders of an image: those that it gets, and that where it starts."""
    image = build and build.image
    yield from text_checks.bind_problems(build.binds if build else (), ("build", "binds"))
    if build and build.binds and not image:
        yield Problem("there is no image", ("build", "binds"), "write `image`, or remove them")
    if run.workdir is not None and not image:
        hint = "remove it: the program starts in the submit directory"
        yield Problem(
            "'workdir' is a folder of an image, and there is none", ("run", "workdir"), hint, "warning"
        )
    if run.workdir is not None and not run.workdir.startswith("/"):
        hint = "write the path in the image, beginning with /"
        yield Problem(f"{run.workdir!r} is not an absolute path", ("run", "workdir"), hint)


def _list_problems(cmd: str | tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem if a list is one command, word by word (`[python, t.py, --lr, 0.1]`)."""
    for index, text in enumerate(() if isinstance(cmd, str) else cmd):
        if _NO_COMMAND.match(text):
            is_words = " " not in cmd[0] or any(item.startswith("-") for item in cmd)
            rest = [quote(item) if " " in item else item for item in cmd[1:]]
            whole = " ".join((cmd[0], *rest)) if is_words else ", ".join(cmd)
            hint = f"write one text: `cmd: {quoted(whole)}`"
            yield Problem(
                f"{text!r} is not a command; each item of a list is one", ("run", "cmd", index), hint
            )
            return
    yield from _split_command(cmd)


def _split_command(cmd: str | tuple[str, ...]) -> Iterator[Problem]:
    """Yield a warning if a command is only a program that runs another one, which is the next item."""
    for index, text in enumerate(() if isinstance(cmd, str) else cmd[:-1]):
        if _RUNNER.fullmatch(text.strip()):
            hint = f"write them as one text: `{'- ' if index else 'cmd: '}{quoted(' '.join(cmd[index:]))}`"
            message = f"each item of a list is a separate command: {text!r}, then {cmd[index + 1]!r}"
            yield Problem(message, ("run", "cmd", index), hint, "warning")
            return


def _variable_problems(experiment: Experiment) -> Iterator[Problem]:
    for name, value in experiment.environment.env_vars.items():
        yield from text_checks.variable_problems(name, str(value), ("environment", "env_vars", name))
    for index, pair in enumerate(experiment.build.env_vars if experiment.build else ()):
        path = ("build", "env_vars", index)
        if len(pair) == 2:  # noqa: PLR2004 - a name and its value
            yield from text_checks.variable_problems(str(pair[0]), str(pair[1]), path)
        else:
            yield Problem(f"{list(pair)} is not a variable", path, "write [NAME, value]")


def _batch_problems(batch: Batch) -> Iterator[Problem]:
    waits = (batch.dependency,) if isinstance(batch.dependency, str) else batch.dependency
    yield from dependency_problems(waits, ("batch", "dependency"))
    if batch.array is not None:
        yield from array_problems(str(batch.array), ("batch", "array"))
    for name in ("budget", "max_gpu_hours"):
        hours = getattr(batch, name)
        if hours is not None and not 0 < hours < MOST_GPU_HOURS:
            yield Problem(f"{hours:g} is out of range", ("batch", name), "write a number of GPU-hours")
    if batch.signal is not None:
        yield from signal_problems(batch.signal, ("batch", "signal"))
    if isinstance(batch.mail, Mail):
        yield from text_checks.mail_problems(batch.mail.events, ("batch", "mail", "events"))
    yield from text_checks.node_problems(batch.exclude_nodes, ("batch", "exclude_nodes"))
    yield from text_checks.module_problems(batch.modules, ("batch", "modules"))
    if batch.spack_env is not None:
        yield from text_checks.spack_env_problems(batch.spack_env, ("batch", "spack_env"))


def _count_problems(environment: Environment) -> Iterator[Problem]:
    for name, least in (("processes_per_replica", 1), ("max_restarts", 0)):
        number = getattr(environment, name)
        if number is not None and not least <= number <= MOST_COUNT:
            hint = f"write a number from {least} to {MOST_COUNT}"
            yield Problem(f"{number} is out of range", ("environment", name), hint)


def _replica_problems(
    role: str, count: int, own: tuple[ReplicaEntry, ...], default: ReplicaEntry | None
) -> Iterator[Problem]:
    base: Path = ("environment", "replicas")
    if not 0 <= count <= MOST_COUNT:
        yield Problem(f"{count} is out of range", (*base, f"n_{role}s" if role == "worker" else "n_ps"))
    seen: set[int] = set()
    for place, entry in enumerate(own):
        path = (*base, role, place)
        if entry.index is None:
            last = f" to `index: {count - 1}`" if count > 1 else ""
            yield Problem(f"this {role} has no index", path, f"write `index: 0`{last}")
        elif not 0 <= entry.index < count:
            key = "n_workers" if role == "worker" else "n_ps"
            hint = f"allowed: 0 to {count - 1}" if count > 0 else f"write `{key}: {entry.index + 1}` or more"
            yield Problem(f"there is no {role} {entry.index}", (*path, "index"), hint)
        elif entry.index in seen:
            yield Problem(f"{role} {entry.index} is listed twice", (*path, "index"))
        seen.add(-1 if entry.index is None else entry.index)
        if entry.resources:
            yield from resource_problems(entry.resources, (*path, "resources"))
    if default and default.resources:
        yield from resource_problems(default.resources, (*base, f"default_{role}", "resources"))


# --- Problems of amounts and of what is recorded

_LEAST_MEMORY: Final = 64
"""MiB: a replica that gets less cannot start Python."""
_OF_TRIALS: Final = ("environment", "resources")
_LONGEST: Final = 3600


def resource_problems(resources: Resources, path: Path) -> Iterator[Problem]:
    """Yield the problems of invalid amounts; ``path``: of these resources."""
    for name in ("cpu", "memory", "gpu"):
        amount = getattr(resources, name)
        requests, limits = (_number(amount.requests), _number(amount.limits))
        for key, number in (("requests", requests), ("limits", limits)):
            if number is not None and (number < 0 or not math.isfinite(number)):
                yield Problem(f"{number:g} is not a valid amount of {name}", (*path, name, key))
            elif name == "memory" and number is not None and 0 < number < _LEAST_MEMORY:
                hint = f"write `{number:g}G` for gigabytes"
                yield Problem(f"{number:g} is {number:g} MiB", (*path, name, key), hint, "warning")
            elif name == "gpu" and number is not None and number != int(number):
                yield Problem(
                    f"{number:g} GPUs cannot be requested: a batch system assigns whole GPUs",
                    (*path, name, key),
                    "write a whole number, or request a MIG profile by `batch.directives`",
                )
        if requests is not None and limits is not None and requests > limits:
            yield Problem(f"requests ({requests:g}) are more than limits ({limits:g})", (*path, name))
    if resources.gpu.trials_per_gpu is not None and path != _OF_TRIALS:
        message = "all of a trial that shares its GPU is the master"
        yield Problem(message, (*path, "gpu", "trials_per_gpu"), "write it in `environment.resources`")
    if resources.tpu.value:
        yield Problem("TPUs are not supported", (*path, "tpu"), "remove it")


def _number(value: float | Memory | Literal["all"] | None) -> float | None:
    if isinstance(value, Memory):
        return float(value.mib)
    return None if isinstance(value, str) else value


def tracking_problems(tracking: Tracking, path: Path) -> Iterator[Problem]:
    """Yield what keeps these expressions from finding numbers, and an invalid span."""
    if not isinstance(tracking.gpu_usage, bool) and not 0 < tracking.gpu_usage <= _LONGEST:
        hint = "write `true`, `false` or the seconds between two samples, from 1 to 3600"
        yield Problem(f"there is no sampling every {tracking.gpu_usage} s", (*path, "gpu_usage"), hint)
    for name, expression in tracking.metrics.items():
        yield from _problems(expression, (*path, "metrics", name))
    if tracking.step is not None:
        yield from _problems(tracking.step, (*path, "step"))
        if not tracking.metrics:
            yield Problem("'step' has no effect without 'metrics'", path)


def _problems(expression: str, path: Path) -> Iterator[Problem]:
    try:
        groups = re.compile(expression).groups
    except (re.error, RecursionError, OverflowError) as error:
        yield Problem(f"{expression!r} is not a regular expression of Python: {error}", path)
        return
    if groups != 1:
        hint = "put the number into one pair of parentheses, and write `(?:...)` for any other"
        yield Problem(f"{expression!r} has {groups} groups", path, hint)


# --- Problems of the repository that is cloned

_LOGIN: Final = "use an ssh key or a credential helper of git"


def repository_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield what keeps the code from being cloned, and warnings of keys that have no effect."""
    batch, build = experiment.batch, experiment.build
    if batch.max_code_size is not None and batch.code != "snapshot":
        message = "'max_code_size' has no effect without `code: snapshot`"
        yield Problem(message, ("batch", "max_code_size"), "remove it", "warning")
    if batch.code != "git" or not build:
        return
    if build.git and (why := url_error(build.git)):
        yield Problem(f"{without_credentials(build.git)!r} cannot be cloned: {why}", ("build", "git"), _LOGIN)
    for key in ("commit", "branch"):
        if (ref := getattr(build, key)) and not is_ref(ref):
            hint = f"write {key}: NAME"
            yield Problem(f"{ref!r} is not the name of a branch, tag or commit", ("build", key), hint)


# --- Problems of a search

# --- What is wrong with a policy by which running trials end early

_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "truncation": ("percent",),
    "difference": ("percent", "amount"),
}
"""What each kind needs one of."""


def policy_problems(policy: Policy, path: Path) -> Iterator[Problem]:
    """Yield what keeps a policy from ending any trial, or lets it end all of them."""
    for name, least in (("evaluation_interval", 1), ("min_interval", 0), ("min_samples", 1)):
        if getattr(policy, name) < least:
            message = f"{getattr(policy, name)} is out of range"
            yield Problem(message, (*path, name), f"write a number from {least} on")
    allowed = _NUMBERS.get(policy.kind, ())
    given = [name for name in ("percent", "amount") if getattr(policy, name) is not None]
    for name in given:
        if name not in allowed:
            yield Problem(f"a policy `{policy.kind}` has no {name!r}", (*path, name), "remove it")
    if allowed and not given:
        yield Problem(f"`{' or '.join(allowed)}` is missing", path, f"write `{allowed[0]}: 20`")
    elif len(given) > 1 and set(given) <= set(allowed):
        yield Problem("there is `percent` already", (*path, "amount"), "keep one of them")
    most = 100 if policy.kind == "truncation" else math.inf
    if policy.percent is not None and not 0 < policy.percent < most:
        yield Problem(f"{policy.percent:g} is out of range", (*path, "percent"), "write a number such as 20")
    if policy.amount is not None and not 0 <= policy.amount < math.inf:
        yield Problem(f"{policy.amount:g} is out of range", (*path, "amount"), "write a number such as 0.1")


# --- What keeps a search from having trials, each problem at its place

_OF_TEMPLATES: Final = frozenset({"true", "True", "false", "False", "none", "None", "not", "self"})
"""Names that have a meaning of their own in templates: `{{ True }}` would be no param."""

_MOST_SEED: Final = 2**32 - 1
"""The largest of NumPy's generators, which Optuna's are."""

_ALGORITHMS: Final = ("grid_search", "random_search", "hyperband", "bo")


def search_problems(search: Search, path: Path) -> Iterator[Problem]:
    """Yield all problems of a search that its types do not exclude."""
    if search.matrix and search.mapping:
        yield Problem("a list of trials has no matrix", (*path, "mapping"), "remove it, or `matrix`")
    elif not (search.matrix or search.mapping):
        yield Problem("a search needs the values of its params", path, "write `matrix`, or `mapping`")
    yield from _of_algorithms(search, path)
    found = [*_of_counts(search, path), *_of_spaces(search, path)]
    yield from found
    if not found:
        yield from _of_trials(search, path)


def _of_algorithms(search: Search, path: Path) -> Iterator[Problem]:
    chosen = [name for name in _ALGORITHMS if getattr(search, name) is not None]
    for name in chosen[1:]:
        yield Problem(f"there is {chosen[0]!r} already", (*path, name), "keep one algorithm")
    if search.mapping and chosen:
        yield Problem("a list of trials has no algorithm", (*path, chosen[0]), "remove it, or `mapping`")
    if search.bo and search.bo.utility_function:
        message = "it has no effect: Optuna's TPE chooses the next trials"
        yield Problem(message, (*path, "bo", "utility_function"), severity="warning")
    for place, stop in enumerate(search.early_stopping):
        if stop.value is not None and not math.isfinite(stop.value):
            yield Problem(
                f"{stop.value} is never reached",
                (*path, "early_stopping", place, "value"),
                hint="write a number",
            )
        elif stop.value is None and not stop.policy:
            message = "it stops nothing without a `value`"
            yield Problem(message, (*path, "early_stopping", place), severity="warning")
        if stop.policy:
            yield from policy_problems(stop.policy, (*path, "early_stopping", place, "policy"))


def _of_counts(search: Search, path: Path) -> Iterator[Problem]:
    counts: dict[Path, int | None] = {
        ("concurrency",): search.concurrency,
        ("max_failures",): search.max_failures,
    }
    if search.bo:
        counts |= {("bo", name): getattr(search.bo, name) for name in ("n_initial_trials", "n_iterations")}
    if search.hyperband:
        counts[("hyperband", "max_iterations")] = search.hyperband.max_iterations
        if search.hyperband.max_iterations > MOST_AMOUNT:
            message = f"{MOST_AMOUNT} is the most of a resource"
            yield Problem(message, (*path, "hyperband", "max_iterations"), "count it in larger units")
        if not LEAST_ETA <= search.hyperband.eta <= MOST_ETA:
            message = f"{search.hyperband.eta:g} is out of range"
            hint = f"write a number from {LEAST_ETA} to {MOST_ETA}, such as 3"
            yield Problem(message, (*path, "hyperband", "eta"), hint)
        if search.hyperband.resource.name in search.matrix:
            message = f"the resource {search.hyperband.resource.name!r} has values of its own"
            yield Problem(message, (*path, "matrix", search.hyperband.resource.name), "remove them")
    counts |= {
        (name, "n_experiments"): section.n_experiments
        for name in ("grid_search", "random_search")
        if (section := getattr(search, name))
    }
    if not 0 <= search.seed <= _MOST_SEED:
        yield Problem(
            f"{search.seed} is out of range", (*path, "seed"), f"write a number from 0 to {_MOST_SEED}"
        )
    for place, count in counts.items():
        if count is not None and count < 1:
            yield Problem(f"{count} is out of range", (*path, *place), "write 1 or more")


def _of_spaces(search: Search, path: Path) -> Iterator[Problem]:
    sections = {("matrix",): search.matrix} | {("mapping", at): one for at, one in enumerate(search.mapping)}
    names = {name: (*path, *section, Key(name)) for section, one in sections.items() for name in one}
    for name, place in names.items():
        if not VARIABLE_NAME.fullmatch(name) or name in _OF_TEMPLATES:
            hint = "rename it" if name in _OF_TEMPLATES else "use letters, digits and _"
            yield Problem(f"{name!r} is not a name that templates can have", place, hint)
    for name, space in search.matrix.items():
        place = (*path, "matrix", name)
        try:
            values_of(space)
        except ValueError as error:
            yield Problem(str(error), (*place, *space.kinds[:1]))


def _of_trials(search: Search, path: Path) -> Iterator[Problem]:
    try:
        number = len(trials(search))
    except ValueError as error:
        yield Problem(str(error), path)
        return
    name, wanted = _wanted(search)
    if wanted is not None and number < wanted and not search.mapping:
        message = f"there are {number} different trials, and not {wanted}"
        yield Problem(message, (*path, *name), severity="warning")


def _wanted(search: Search) -> tuple[Path, int | None]:
    """Return where it says how many trials there are at first, and how many."""
    if search.hyperband:
        return ("hyperband",), first_size(search.hyperband)
    if search.bo:
        return ("bo", "n_initial_trials"), search.bo.n_initial_trials
    count = search.random_search.n_experiments if search.random_search else None
    return ("random_search", "n_experiments"), count
