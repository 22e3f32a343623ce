"""How each framework was tried with each launcher on each batch system: run, kept as a script, or planned."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hpcdist.base import source
from hpcdist.base.errors import PlanError
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.launchers import launchers
from hpcdist.loading import load
from hpcdist.planner.make_plan import make_plan
from hpcdist.schedulers import schedulers
from tests.experiments import environment, experiment, resources, where
from tests.sites import site_named
from tests.test_examples import EXAMPLES
from tests.test_golden import CASES, Case

TESTS: Final = Path(__file__).parents[1]


class Cell(NamedTuple):
    """One place of the matrix."""

    scheduler: str
    launcher: str
    framework: str


class Run(NamedTuple):
    """A test that runs jobs; its folder is that of the batch system, ``local`` where it has none."""

    test: str
    framework: str
    launchers: str

    @property
    def scheduler(self) -> str:
        """The batch system whose folder the test is in."""
        folder = self.test.partition("/")[0]
        return folder if folder in schedulers else "local"


TRAINING: Final = (
    Run("slurm/test_training.py::test_quickstart", "mpi", "srun"),
    Run(
        "slurm/test_training.py::test_horovod_on_two_nodes",
        "horovod",
        "srun mpirun horovodrun horovodrun-mpi",
    ),
    Run("slurm/test_elastic.py::test_a_lost_node_does_not_end_the_training", "horovod", "horovodrun-elastic"),
    Run("slurm/test_frameworks.py::test_tensorflow_with_parameter_servers", "tensorflow", "srun mpirun"),
    Run("slurm/test_frameworks.py::test_mxnet", "mxnet", "srun mpirun"),
    Run("slurm/test_frameworks.py::test_jax", "jax", "srun mpirun"),
    Run("slurm/test_frameworks.py::test_pytorch_learns_the_same_whoever_starts_it", "pytorch", "srun"),
    Run("slurm/test_frameworks.py::test_deepspeed", "deepspeed", "srun"),
    *(
        Run("slurm/test_frameworks.py::test_a_program_with_nothing_but_defaults_is_one_world", name, "srun")
        for name in ("lightning", "accelerate")
    ),
    Run("slurm/test_frameworks.py::test_chainermn", "chainermn", "mpirun"),
    Run("slurm/test_ray.py::test_the_example_runs_on_both_nodes", "ray", "srun mpirun"),
    Run("pbs/test_pbs_training.py::test_quickstart_on_two_hosts_of_which_nothing_is_known", "mpi", "mpirun"),
    Run("pbs/test_pbs_training.py::test_horovod_on_two_hosts", "horovod", "mpirun horovodrun"),
    Run("lsf/test_nodes.py::test_the_quickstart_trains_on_two_hosts", "mpi", "mpirun"),
    Run("lsf/test_nodes.py::test_horovod_trains_on_two_hosts", "horovod", "mpirun"),
    Run("sge/test_training.py::test_quickstart", "mpi", "mpirun"),
    Run("sge/test_training.py::test_horovod_on_two_hosts", "horovod", "mpirun horovodrun"),
    Run("test_examples.py::test_with_either_launcher_of_one_machine", "jax", "processes mpirun"),
    Run("test_examples.py::test_with_either_launcher_of_one_machine", "mxnet", "processes mpirun"),
)
"""Tests that train an example until it has learnt."""
PLACING: Final = (
    Run("slurm/test_hydra.py::test_shape", "mpi", "hydra"),
    Run("lsf/test_nodes.py::test_jsrun_starts_each_task_where_the_plan_has_it", "mpi", "jsrun"),
    Run("lsf/test_nodes.py::test_the_head_is_the_first_compute_host", "pytorch", "jsrun"),
    Run("flux/test_end_to_end.py::test_tasks_land_as_planned", "pytorch", "flux"),
    Run("flux/test_end_to_end.py::test_servers_are_ended_when_the_others_have_ended", "tensorflow", "flux"),
)
"""Tests whose tasks only tell where they are."""
ACCEPTING: Final = "flux/test_real_cli.py::test_goldens_ask_for_what_was_planned"
"""The test that hands golden scripts to the batch system's own command line."""


def cells() -> dict[Cell, str]:
    """Return the best that is known of each place; those that are refused are left out."""
    found = dict.fromkeys(_planned(), "planned")
    found |= {cell_of(case): "script" for case in CASES.values()}
    accepted = strings(ACCEPTING) & CASES.keys()
    found |= {cell_of(CASES[name]): "accepted" for name in accepted}
    for word, runs in (("**ran**", PLACING), ("**trained**", TRAINING)):
        found |= {
            Cell(run.scheduler, name, run.framework): word for run in runs for name in run.launchers.split()
        }
    found |= {cell_of(Case(example_file(name), "local")): "**trained**" for name in EXAMPLES}
    return {cell: word for cell, word in found.items() if cell.framework and cell.launcher in launchers}


def example_file(name: str) -> Path:
    """Return the file of an example."""
    return TESTS.parent / "examples" / f"{name}.yml"


def stands_in(scheduler: str) -> bool:
    """Tell whether the tests have commands of their own in place of the batch system's."""
    return any((TESTS / scheduler / name).exists() for name in ("fake", "fake.py"))


@cache
def function(test: str) -> ast.FunctionDef:
    """Return the test of that name."""
    file, _, name = test.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)


def parameters(test: str, name: str) -> tuple[str, ...]:
    """Return the values that a test is given for one of its arguments."""
    for mark in function(test).decorator_list:
        if isinstance(mark, ast.Call) and [*map(ast.unparse, mark.args[:1])] == [repr(name)]:
            return tuple(map(_value, getattr(mark.args[1], "elts", ())))
    return ()


def _value(param: ast.expr) -> str:
    """Return a value of a parameter, which may have marks."""
    return str(ast.literal_eval(param.args[0] if isinstance(param, ast.Call) else param))


def strings(test: str) -> set[str]:
    """Return the texts that stand in a test."""
    constants = (node.value for node in ast.walk(function(test)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


@cache
def cell_of(case: Case) -> Cell:
    """Return the place of an experiment on a site."""
    loaded = load.load_experiment(source.load(case.file), settings=case.settings)
    plan = make_plan(loaded.experiment, _site(case.site), where)
    return Cell(plan.identity.scheduler, plan.launch.launcher, plan.identity.framework or "")


_site = cache(site_named)


def _planned() -> Iterator[Cell]:
    names = itertools.product(schedulers.names(), launchers.names(), frameworks.names())
    cells = (Cell(*each) for each in names)
    usual = (cell for cell in cells if cell.scheduler in launchers.get(cell.launcher).schedulers)
    yield from filter(_can_be_planned, usual)


def _can_be_planned(cell: Cell) -> bool:
    """Plan two tasks on a machine of which nothing is known."""
    is_elastic = (cell.launcher, cell.framework) == ("horovodrun-elastic", "horovod")
    asked = msgspec.structs.replace(
        _two_tasks(),
        framework=cell.framework,
        sections={"horovod": {"elastic": {}}} if is_elastic else {},
        batch=Batch(launcher=cell.launcher),
    )
    try:
        make_plan(asked, _site(cell.scheduler), where)
    except PlanError:
        return False
    return True


@cache
def _two_tasks() -> Experiment:
    return experiment(environment=environment(1, each=resources(cpu=2)))
