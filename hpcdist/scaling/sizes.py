"""One experiment planned for several numbers of nodes: its workers change, the other replicas stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Final

from hpcdist.errors import ConfigError, Path, Place, Problem, dotted, located
from hpcdist.experiment.launch.bash_words import unquoted
from hpcdist.experiment.launch.line import user_launch
from hpcdist.experiment.model import Experiment, Replicas
from hpcdist.experiment.node_counts import NODES, PER_NODE
from hpcdist.experiment.replica import blocks
from hpcdist.loading import planning
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.scaling import node_param

_LEAVE_OUT: Final = "leave it out, or write the program alone: hpcdist then starts it"
_OWN: Final = tuple(f"--set {dotted(path)}=" for path in (NODES, node_param.WORKERS))
"""Where problems of the settings of a size are."""

_INSTEAD: Final = {"per_node": 'write `{} "$HPCDIST_NODES"`', "once": _LEAVE_OUT}
"""What a launch line of the user's own may have in place of a fixed number, by where it runs."""


def planned(
    options: ExperimentOptions,
    sizes: Sequence[int],
    plan: Callable[[ExperimentOptions], Planned] = planning.plan_experiment,
    param: str = "",
) -> list[tuple[ExperimentOptions, Planned]]:
    """Plan an experiment on each of these numbers of nodes; return the plans with the options of each.

    Each node has as many replicas as in the file's own plan. The jobs are named after the experiment and
    their nodes: ``train-4-nodes``. ``plan`` makes each plan; ``param`` is the number of nodes, by default the
    one that `node_param.find` finds.

    Raises:
        ConfigError: if the file is invalid, or fixes what would have to change.
        PlanError: if a size does not fit the site.
    """
    base = plan(options)
    if problems := [base.document.locate(problem) for problem in _problems(base)]:
        raise ConfigError(*problems)
    by = node_param.find(base, planning.native(options).document, param)
    found = []
    for nodes in sizes:
        params = ((by.name, str(nodes)),) if by.name else ()
        settings = (*options.settings, *_settings(base, nodes, by.templated))
        own = options._replace(params=(*options.params, *params), settings=settings)
        with located(partial(_of_size, nodes)):
            found.append((own, _checked(plan(own), base, nodes, by.name)))
    return found


def suffix(nodes: int) -> str:
    """Return what the name of a size has behind that of the experiment."""
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
    replicas, nodes = _replicas(experiment), base.plan.placement.nodes
    if replicas % nodes:
        message = f"{replicas} replicas are unevenly distributed over {nodes} nodes"
        place = NODES if experiment.batch.nodes else node_param.WORKERS
        yield Problem(message, place, f"say how many each node has: `{dotted(PER_NODE)}`")


def _of_launch(experiment: Experiment) -> Iterator[Problem]:
    """Yield the numbers that a launch of the user's own fixes."""
    env = {name: str(value) for name, value in experiment.environment.env_vars.items()}
    launch = user_launch(experiment.run.command, env)
    if launch is None:
        return
    for option in launch.options_of("np", "nodes"):
        if unquoted(option.value).isdecimal():
            name = launch.written(option)
            message = f"`{name} {option.value}` is the same for all numbers of nodes"
            yield Problem(message, ("run", "cmd"), _INSTEAD[launch.runs].format(name), word=name)


def _checked(made: Planned, base: Planned, nodes: int, param: str) -> Planned:
    """Return the plan of a size, if it is on so many nodes with as many replicas on each.

    Raises:
        ConfigError: if the file makes another one of its param.
    """
    placed, there = made.plan.placement.nodes, _replicas(made.experiment)
    wanted = _per_node(base) * nodes
    if (placed, there) == (nodes, wanted):
        return made
    given = f"-p {param}={nodes}" if param else f"--nodes {nodes}"
    message = f"with {given} there are {there} replicas on {placed} nodes, not {wanted} on {nodes}"
    own = f"say how many each node has: `{dotted(PER_NODE)}`"
    hint = f"is {param} the number of nodes? Else name another one by --nodes-param" if param else own
    raise ConfigError(base.document.locate(Problem(message, node_param.WORKERS, hint)))


def _of_size(nodes: int, problem: Problem) -> Problem:
    """Return a problem of what places a size as one of the option that asks for it."""
    is_own = problem.place and problem.place.file.startswith(_OWN)
    return problem._replace(place=Place(f"--nodes {nodes}", 0, 0)) if is_own else problem


def _settings(base: Planned, nodes: int, templated: Container[Path]) -> Iterator[tuple[str, str]]:
    """Yield the settings that place the experiment on so many nodes, but for those that follow from params.

    Raises:
        ConfigError: if the replicas that stay need more.
    """
    yield "name", json.dumps(f"{base.plan.identity.name}{suffix(nodes)}")
    if node_param.WORKERS not in templated:
        yield dotted(node_param.WORKERS), str(_workers_on(base, nodes))
    if NODES not in templated:
        yield dotted(NODES), str(nodes)


def _workers_on(base: Planned, nodes: int) -> int:
    """Return how many workers so many nodes have.

    Raises:
        ConfigError: if the replicas that stay need more nodes.
    """
    experiment, replicas = base.experiment, _replicas(base.experiment)
    per_node = _per_node(base)
    others = 0 if experiment.backend == "mpi" else replicas - _workers(experiment)
    workers = per_node * nodes - others
    if workers < 0:
        places = f"{per_node} replica{'s' * (per_node > 1)} a node"
        message = f"{others} replicas are no workers, too many for --nodes {nodes} with {places}"
        hint = f"begin with --nodes {-(-others // per_node)}"
        raise ConfigError(base.document.locate(Problem(message, node_param.WORKERS, hint)))
    return workers


def _per_node(base: Planned) -> int:
    return _replicas(base.experiment) // base.plan.placement.nodes


def _workers(experiment: Experiment) -> int:
    return (experiment.environment.replicas or Replicas()).n_workers


def _replicas(experiment: Experiment) -> int:
    return sum(block.count for block in blocks(experiment, per_gpu=False))
