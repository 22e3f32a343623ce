"""Problems of an experiment that its types do not exclude: amounts, worker indexes, names of variables."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from hpcdist.documents import text_checks
from hpcdist.documents.yaml_errors import quoted
from hpcdist.errors import Key, Path, Problem, did_you_mean
from hpcdist.experiment import batch_specs, log_files, node_counts, repository, restart, steps
from hpcdist.experiment.amounts import MOST, resource_problems
from hpcdist.experiment.batch import Batch, Mail
from hpcdist.experiment.model import Build, Environment, Experiment, ReplicaEntry, Replicas, Scalar
from hpcdist.experiment.program import Run
from hpcdist.experiment.replica import ROLES
from hpcdist.experiment.search.model import Search
from hpcdist.experiment.search.problems import search_problems
from hpcdist.experiment.tracking import tracking_problems
from hpcdist.words import RUN_NAME, RUN_NAME_FORM, quote, slug

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
    yield from node_counts.problems(experiment)
    yield from _selector_problems(environment)
    yield from _variable_problems(experiment)
    yield from _batch_problems(experiment.batch)
    is_array = bool(experiment.batch.array is not None or experiment.hptuning)
    yield from log_files.problems(experiment.batch, is_array=is_array)
    yield from repository.problems(experiment)
    if experiment.logging.level is not None:
        yield from text_checks.log_level_problems(experiment.logging.level, ("logging", "level"))
    yield from _run_problems(experiment)
    yield from steps.problems(experiment.stage)
    if restarts := experiment.environment.restart:
        has_number = experiment.environment.max_restarts is not None
        is_search = experiment.hptuning is not None
        yield from restart.problems(restarts, experiment.batch, is_search=is_search, has_number=has_number)
    yield from text_checks.length_problems("the command", experiment.run.command, ("run", "cmd"))
    yield from text_checks.length_problems(
        "the section", json.dumps(experiment.params, default=str), ("params",)
    )


def _stop_problems(search: Search, in_output: Collection[str]) -> Iterator[Problem]:
    """Yield what ends no search, or no trial: a metric that nobody reads while trials start, or run."""
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
    if shares is not None and not 1 <= shares <= MOST:
        yield Problem(f"{shares} is out of range", path, f"write a number from 1 to {MOST}")
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
    yield from batch_specs.dependency_problems(waits, ("batch", "dependency"))
    if batch.array is not None:
        yield from batch_specs.array_problems(str(batch.array), ("batch", "array"))
    for name in ("budget", "max_gpu_hours"):
        hours = getattr(batch, name)
        if hours is not None and not 0 < hours < MOST_GPU_HOURS:
            yield Problem(f"{hours:g} is out of range", ("batch", name), "write a number of GPU-hours")
    if batch.signal is not None:
        yield from batch_specs.signal_problems(batch.signal, ("batch", "signal"))
    if isinstance(batch.mail, Mail):
        yield from text_checks.mail_problems(batch.mail.events, ("batch", "mail", "events"))
    yield from text_checks.node_problems(batch.exclude_nodes, ("batch", "exclude_nodes"))
    yield from text_checks.module_problems(batch.modules, ("batch", "modules"))
    if batch.spack_env is not None:
        yield from text_checks.spack_env_problems(batch.spack_env, ("batch", "spack_env"))


def _count_problems(environment: Environment) -> Iterator[Problem]:
    for name, least in (("processes_per_replica", 1), ("max_restarts", 0)):
        number = getattr(environment, name)
        if number is not None and not least <= number <= MOST:
            hint = f"write a number from {least} to {MOST}"
            yield Problem(f"{number} is out of range", ("environment", name), hint)


def _replica_problems(
    role: str, count: int, own: tuple[ReplicaEntry, ...], default: ReplicaEntry | None
) -> Iterator[Problem]:
    base: Path = ("environment", "replicas")
    if not 0 <= count <= MOST:
        yield Problem(f"{count} is out of range", (*base, f"n_{role}s" if role == "worker" else "n_ps"))
    seen: set[int] = set()
    for place, entry in enumerate(own):
        path = (*base, role, place)
        if entry.index is None:
            last = f" to `index: {count - 1}`" if count > 1 else ""
            yield Problem(f"this {role} has no index", path, f"write `index: 0`{last}")
        elif not 0 <= entry.index < count:
            allowed = f"0 to {count - 1}" if count > 0 else f"none (there are no {role} replicas)"
            yield Problem(f"there is no {role} {entry.index}", (*path, "index"), f"allowed: {allowed}")
        elif entry.index in seen:
            yield Problem(f"{role} {entry.index} is listed twice", (*path, "index"))
        seen.add(-1 if entry.index is None else entry.index)
        if entry.resources:
            yield from resource_problems(entry.resources, (*path, "resources"))
    if default and default.resources:
        yield from resource_problems(default.resources, (*base, f"default_{role}", "resources"))
