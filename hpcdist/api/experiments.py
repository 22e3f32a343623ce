"""An experiment: read from a file, or defined by keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from hpcdist.api import follow_up
from hpcdist.api.finding import runs_directory
from hpcdist.api.plans import Plan
from hpcdist.api.runs import Run
from hpcdist.api.values import count, joined, mapping, plain, site_of, text_of, texts
from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.tree import Document
from hpcdist.experiment import writing
from hpcdist.loading import planning, recognition
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs.remotes import machines

_DEFINED = "hpcdist.define"
"""Where problems of an experiment without a file are."""


@dataclass(frozen=True)
class Experiment:
    """What the user asks for; `load` and `define` make it, and it does not change.

    Its file is not read again; the machine is chosen when it is planned.
    """

    file: str
    _options: ExperimentOptions = field(repr=False)
    _document: Document = field(repr=False)

    def plan(self, *, on: str | None = None) -> Plan:
        """Decide what runs where, as `hpcdist plan`; the batch system is asked of awaited runs alone.

        ``on``: a remote of your config, with whose site it is planned unless another one is given, and to
        which the plan is then submitted. Runs that ``batch.dependency`` names, and what is known against
        nodes, are of $HPCDIST_RUNS_DIR, else of ``runs``.

        Raises:
            ConfigError: if the experiment, the site file or the user's config is invalid.
            PlanError: if the experiment does not fit the site.
        """
        return self._plan(runs_directory(None), on)

    def _plan(self, runs_dir: Path, on: str | None, *, saves: bool = False) -> Plan:
        options = self._options._replace(remote=on)
        remote = None if on is None else machines.target(options)
        if remote and not options.site:
            options = options._replace(site=remote.site)
        made = follow_up.planned(options, self._document, runs_dir=runs_dir, saves=saves)
        return Plan(made, options, _remote=remote)

    def check(self) -> tuple[Problem, ...]:
        """Return all warnings and notes, also of what is valid but unusual, as `hpcdist check`.

        Raises:
            ConfigError: as `plan`; errors are raised, all of them at once in ``problems``.
            PlanError: as `plan`.
        """
        plan = self.plan()
        plan.render()
        return (*plan.problems, *plan.unusual)

    def render(self) -> str:
        """Return the job script, which runs without hpcdist, as `hpcdist render`.

        Raises:
            ConfigError: as `plan`.
            PlanError: as `plan`.
        """
        return self.plan().render()

    def submit(
        self, runs_dir: str | os.PathLike[str] | None = None, *, again: bool = False, on: str | None = None
    ) -> Run:
        """Plan it with what the runs in ``runs_dir`` recorded, and submit it, ``on`` a remote or here.

        See `plan` and `Plan.submit`.

        Raises:
            ConfigError: as `plan`, or if the run cannot be written.
            PlanError: as `plan`.
            SchedulerError: as `Plan.submit`.
        """
        found = runs_directory(runs_dir)
        return self._plan(found, on, saves=True).submit(found, again=again)

    def changed(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        site: str | None = None,
    ) -> Experiment:
        """Return the experiment with further params and settings, or on another site; arguments as of `load`.

        Raises:
            ConfigError: as `load`.
        """
        options = self._options._replace(
            params=(*self._options.params, *texts(params or {})),
            settings=(*self._options.settings, *texts(settings or {})),
            site=site_of(site) or self._options.site,
        )
        planning.loaded(options, self._document)
        return replace(self, _options=options)


def load(
    path: str | os.PathLike[str],
    *,
    params: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    site: str | None = None,
) -> Experiment:
    """Read an experiment file, or a job file of another tool, as all verbs do.

    ``params``: values by the names of the file's params, as ``-p``. ``settings``: values of any key by its
    dotted path, as ``--set``: ``{"batch.walltime": "2h"}``; in both, a text is a text, also ``"0.1"``.
    ``site``: the name of a site or its file, as ``--site``.

    Raises:
        ConfigError: if the file cannot be read or is invalid, with all problems and their places.
    """
    options = options_of(path, site, params, settings)
    document = recognition.read(options.file)
    planning.loaded(options, document)
    return Experiment(options.file, options, document)


def options_of(
    path: object, site: object, params: Mapping[str, Any] | None, settings: Mapping[str, Any] | None
) -> ExperimentOptions:
    """Return the arguments with which a file is loaded as options of a verb.

    Raises:
        ConfigError: for an argument of a wrong type, or a value that no file could have.
    """
    file = text_of(path, "path")
    return ExperimentOptions(
        file, site=site_of(site), params=texts(params or {}), settings=texts(settings or {})
    )


def define(  # noqa: PLR0913 - one argument a setting
    *,
    cmd: str = "",
    name: str = "experiment",
    framework: str | None = None,
    nodes: int = 1,
    gpus_per_node: int = 0,
    tasks_per_node: int | None = None,
    cpus_per_task: int | None = None,
    env: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    batch: Mapping[str, Any] | None = None,
    image: str | None = None,
    site: str | None = None,
    **sections: Any,
) -> Experiment:
    """Make an experiment of keyword arguments, without a file.

    ``cmd``: the command of each task, which bash runs; without one it is of use for `call` alone.
    ``tasks_per_node``: by default one for each GPU, else one; the GPUs of a node are divided among them.
    ``env``: variables. ``batch``: the keys of the section ``batch``, such as account and walltime.
    ``sections``: the other sections of an experiment file, such as ``environment`` or ``hptuning``.

    Raises:
        ConfigError: if an argument is invalid, given twice, or unknown.
    """
    numbers = {
        "nodes": nodes,
        "gpus_per_node": gpus_per_node,
        "tasks_per_node": tasks_per_node or 0,
        "cpus_per_task": cpus_per_task or 0,
    }
    amounts = {name: count(number, name) for name, number in numbers.items()}
    own = {
        "name": name,
        "framework": framework,
        "params": params,
        "environment": _environment(amounts, mapping(env or {}, "env")),
        "build": {"image": image} if image else None,
        "run": {"cmd": cmd} if cmd else None,
        "batch": joined({"nodes": nodes} if nodes > 1 else {}, mapping(batch or {}, "batch"), ("batch",)),
    }
    data = joined({key: value for key, value in own.items() if value}, sections)
    document = source.parse(writing.write(plain(data)), _DEFINED)
    options = ExperimentOptions(_DEFINED, site=site_of(site))
    if cmd:
        planning.loaded(options, document)
    return Experiment(_DEFINED, options, document)


def sweep(experiment: Experiment, matrix: Mapping[str, Any], **search: Any) -> Experiment:
    """Return the experiment as a search over its params; its run has `Run.trials`.

    ``matrix``: for each param a list of values, or what a file has: ``{"uniform": [0, 1]}``. ``search``: the
    other keys of the section ``hptuning``, such as ``concurrency``, ``random_search`` or ``hyperband``.

    Raises:
        ConfigError: if the search is invalid, or the experiment is none.
    """
    check_type(experiment, "experiment")
    values = {
        name: {"values": [*value]} if _is_list(value) else value
        for name, value in mapping(matrix, "matrix").items()
    }
    return experiment.changed(settings={"hptuning": {"matrix": values, **search}})


def _is_list(value: object) -> TypeGuard[Iterable[object]]:
    """Whether it has values in an order; a text is one value."""
    return isinstance(value, Iterable) and not isinstance(value, Mapping | AbstractSet | str | bytes)


def check_type(value: object, name: str) -> None:
    """Check the argument of this name, of which type checkers know that it is an experiment.

    Raises:
        ConfigError: if it is none.
    """
    if not isinstance(value, Experiment):
        hint = "write an experiment, such as `hpcdist.define(site=...)`"
        raise ConfigError(Problem(f"{value!r} is no Experiment", (name,), hint))


def _environment(numbers: Mapping[str, int], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section that has so many equal replicas."""
    nodes, gpus, tasks, cpus = numbers.values()
    each = tasks or max(1, gpus)
    if nodes < 1 or each < 1 or gpus < 0 or gpus % each:
        message = f"{gpus} GPUs cannot be divided among {each} tasks on each of {nodes} nodes"
        raise ConfigError(Problem(message, hint="give each task as many GPUs, and at least one node"))
    amounts = {"gpu": gpus // each, "cpu": cpus}
    resources = {kind: {"requests": amount} for kind, amount in amounts.items() if amount}
    workers = {"default_worker": {"resources": resources}} if resources else {}
    replicas = {"n_workers": nodes * each - 1, **workers}
    found = {"resources": resources, "replicas": replicas if nodes * each > 1 else {}}
    return {key: value for key, value in {**found, "env_vars": dict(variables)}.items() if value}
