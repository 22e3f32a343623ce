"""One experiment planned for several numbers of nodes, and what a study of them may cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from hpcdist.base.errors import (
    ConfigError,
    Path,
    Place,
    PlanError,
    Problem,
    comma_list,
    did_you_mean,
    dotted,
    located,
)
from hpcdist.base.tree import Document, value_at
from hpcdist.experiment.launch_line import launch_in
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import NODES, PER_NODE, replica_count, workers_on
from hpcdist.experiment.shell_words import unquoted
from hpcdist.loading import planning
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.planner import worst_case
from hpcdist.planner.worst_case import Cost, Sum

# --- Which param of a file is its number of nodes, where the counts of replicas or nodes follow from params

WORKERS: Final[Path] = ("environment", "replicas", "n_workers")
_NAME: Final = re.compile(r"(n|num|number_of)?_?nodes|nnodes", re.IGNORECASE)
_HINT: Final = "name it, as in --nodes PARAM=1,2,4, or write a number in its place"


class NodeParam(NamedTuple):
    """The param by ``name``, empty if there is none; ``templated``: the counts that follow from params."""

    name: str
    templated: frozenset[Path]


def node_param(base: Planned, native: Document, named: str) -> NodeParam:
    """Return the param of this name, else the only one that can be the number of nodes.

    A param can if its value is the plan's number of nodes, and counts use it or its name says so. ``native``:
    the file before its templates are filled in.

    Raises:
        ConfigError: if there is no such param, or counts follow from params and it is not clear from which.
    """
    params = base.experiment.params
    texts = {path: text for path in (WORKERS, NODES) if "{" in (text := str(value_at(native.data, path)))}
    if named and named not in params:
        hint = did_you_mean(named, params) or "the file has no `params`"
        place = Place(f"--nodes {named}=", 0, 0)
        raise ConfigError(Problem(f"there is no param {named!r}", hint=hint, place=place))
    found = [named] if named else _candidates(base, params, texts)
    if len(found) > 1 or (texts and not found):
        path = next(iter(texts), ("params",))
        which = f": {comma_list(found)}" if found else ""
        message = f"which param is the number of nodes is not clear{which}"
        raise ConfigError(base.document.locate(Problem(message, path, _HINT)))
    return NodeParam(found[0] if found else "", frozenset(texts))


def _candidates(base: Planned, params: Mapping[str, Any], texts: Mapping[Path, str]) -> list[str]:
    words = {word for text in texts.values() for word in re.findall(r"[^\W\d]\w*", text)}
    equal = (name for name, value in params.items() if _is_number(value, base.plan.placement.nodes))
    return [name for name in equal if name in words or (not texts and _NAME.fullmatch(name))]


def _is_number(value: object, nodes: int) -> bool:
    return not isinstance(value, bool) and value == nodes


# --- One experiment planned for several numbers of nodes

_LEAVE_OUT: Final = "leave it out, or write the program alone: hpcdist then starts it"
_OWN: Final = tuple(f"--set {dotted(path)}=" for path in (NODES, WORKERS))
"""Places of problems with a size's settings."""

_INSTEAD: Final = {"per_node": 'write `{} "$HPCDIST_NODES"`', "once": _LEAVE_OUT}
"""What the user's own launch line may have in place of a fixed number, by where it runs."""


def plan_sizes(
    options: ExperimentOptions,
    sizes: Sequence[int],
    plan: Callable[[ExperimentOptions], Planned] = planning.plan_experiment,
    param: str = "",
) -> list[tuple[ExperimentOptions, Planned]]:
    """Plan an experiment on each of these numbers of nodes; return the plans with the options of each.

    Each node has as many replicas as in the file's own plan. The jobs are named after the experiment and
    their nodes: ``train-4-nodes``. ``plan`` makes each plan; ``param`` is the number of nodes, by default the
    one that `node_param` finds.

    Raises:
        ConfigError: if the file is invalid, or fixes what would have to change.
        PlanError: if a size does not fit the site.
    """
    base = plan(options)
    if problems := [base.document.locate(problem) for problem in _problems(base)]:
        raise ConfigError(*problems)
    by = node_param(base, planning.native(options).document, param)
    found = []
    for nodes in sizes:
        params = ((by.name, str(nodes)),) if by.name else ()
        settings = (*options.settings, *_settings(base, nodes, by.templated))
        own = options._replace(params=(*options.params, *params), settings=settings)
        with located(partial(_of_size, nodes)):
            found.append((own, _checked(plan(own), base, nodes, by.name)))
    return found


def size_suffix(nodes: int) -> str:
    """Return what follows the name of the experiment in the name of a size."""
    return f"-{nodes}-node{'s' * (nodes > 1)}"


def _problems(base: Planned) -> Iterator[Problem]:
    """Yield what keeps this experiment from running on other numbers of nodes."""
    experiment = base.experiment
    if experiment.hptuning:
        yield Problem(
            "a search has no single throughput", ("hptuning",), "study one of its trials: remove it"
        )
    if experiment.batch.array:
        yield Problem("an array has no single throughput", ("batch", "array"), "remove it")
    yield from _of_launch(experiment)
    replicas, nodes = replica_count(experiment), base.plan.placement.nodes
    if replicas % nodes:
        message = f"{replicas} replicas are unevenly distributed over {nodes} nodes"
        place = NODES if experiment.batch.nodes else WORKERS
        yield Problem(message, place, f"say how many each node has: `{dotted(PER_NODE)}`")


def _of_launch(experiment: Experiment) -> Iterator[Problem]:
    """Yield the numbers that the user's own launch fixes."""
    launch = launch_in(experiment)
    if launch is None:
        return
    for option in launch.options_of("np", "nodes"):
        if unquoted(option.value).isdecimal():
            name = launch.written(option)
            message = f"`{name} {option.value}` is the same for all numbers of nodes"
            yield Problem(message, ("run", "cmd"), _INSTEAD[launch.runs].format(name), word=name)


def _checked(made: Planned, base: Planned, nodes: int, param: str) -> Planned:
    """Return the plan of a size, if it is on so many nodes with as many replicas on each."""
    placed, there = made.plan.placement.nodes, replica_count(made.experiment)
    wanted = _per_node(base) * nodes
    if (placed, there) == (nodes, wanted):
        return made
    given = f"-p {param}={nodes}" if param else f"--nodes {nodes}"
    message = f"with {given} there are {there} replicas on {placed} nodes, not {wanted} on {nodes}"
    own = f"say how many each node has: `{dotted(PER_NODE)}`"
    hint = f"is {param} the number of nodes? Else name another one: --nodes PARAM=..." if param else own
    raise ConfigError(base.document.locate(Problem(message, WORKERS, hint)))


def _of_size(nodes: int, problem: Problem) -> Problem:
    """Return a problem with the settings of a size as a problem of ``--nodes``."""
    is_own = problem.place and problem.place.file.startswith(_OWN)
    return problem._replace(place=Place(f"--nodes {nodes}", 0, 0)) if is_own else problem


def _settings(base: Planned, nodes: int, templated: Container[Path]) -> Iterator[tuple[str, str]]:
    """Yield settings that place the experiment on so many nodes, except those that follow from params."""
    yield "name", json.dumps(f"{base.plan.identity.name}{size_suffix(nodes)}")
    if WORKERS not in templated:
        yield dotted(WORKERS), str(_workers_on(base, nodes))
    if NODES not in templated:
        yield dotted(NODES), str(nodes)


def _workers_on(base: Planned, nodes: int) -> int:
    """Return how many workers so many nodes have."""
    workers = workers_on(base.experiment, nodes, base.plan.placement.nodes)
    if workers < 0:
        per_node = _per_node(base)
        others = per_node * nodes - workers
        places = f"{per_node} replica{'s' * (per_node > 1)} a node"
        message = f"{others} replicas are not workers, too many for --nodes {nodes} with {places}"
        hint = f"begin with --nodes {-(-others // per_node)}"
        raise ConfigError(base.document.locate(Problem(message, WORKERS, hint)))
    return workers


def _per_node(base: Planned) -> int:
    return replica_count(base.experiment) // base.plan.placement.nodes


# --- What a study may cost at most, before it is submitted


class SizeCost(NamedTuple):
    """All runs of one size; ``each``: what one of them takes at most, None without a time limit."""

    nodes: int
    tasks: int
    gpus: int
    runs: int
    each: Cost | None

    @property
    def gpu_hours(self) -> float | None:
        """The GPU-hours of all of them, with all attempts; None without a time limit."""
        return self.each and self.runs * self.each.gpu_hours

    @property
    def node_hours(self) -> float | None:
        """Their node-hours."""
        return self.each and self.runs * self.each.node_hours


def size_costs(plans: Iterable[Planned], repeat: int) -> list[SizeCost]:
    """Return what each size may cost with so many runs."""
    return [_costs(made, repeat) for made in plans]


def _costs(made: Planned, repeat: int) -> SizeCost:
    placement = made.plan.placement
    gpus = sum(group.gpus * group.nodes for group in placement.groups)
    each = worst_case.most(made.plan, made.experiment, made.machine.site)
    return SizeCost(placement.nodes, placement.size, gpus, repeat, each)


def total_charge(found: Iterable[SizeCost]) -> Sum:
    """Return what all runs of all sizes take together."""
    return Sum([(size.each, size.runs) for size in found])


def total(hours: Iterable[float | None]) -> float | None:
    """Return the sum; None where one of them has no limit."""
    found = [*hours]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def check_cost(found: Sequence[SizeCost], most: float | None) -> None:
    """Check that all sizes together cost at most so many GPU-hours.

    Raises:
        PlanError: if they may cost more.
    """
    if most is None:
        return
    hours = total(size.gpu_hours for size in found)
    if hours is None:
        message = "jobs without a time limit may take any number of GPU-hours"
        raise PlanError(Problem(message, ("batch", "walltime"), "set it, such as --set batch.walltime=10m"))
    if hours > most:
        message = f"the study may take {hours:.4g} GPU-hours, more than --max-gpu-hours {most:g}"
        raise PlanError(Problem(message, hint="leave out sizes or repetitions, or shorten `batch.walltime`"))
