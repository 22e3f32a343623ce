"""How planning and rendering grow with the number of tasks, and how the script does not."""

from __future__ import annotations

import time
from collections.abc import Callable

from hpcdist.experiment.model import Environment, Experiment, GpuAmount, ReplicaEntry, Replicas, Resources
from hpcdist.experiment.program import Run
from hpcdist.plan.model import Plan
from hpcdist.plan.values import DEFAULT
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from hpcdist.site.nodes import NodeType, Partition

SITE = Site(
    name="endless",
    description="as many nodes of four GPUs as one likes",
    scheduler="slurm",
    launcher="srun",
    node_types={"gpu": NodeType(cpus=64, gpus=4)},
    partitions={"gpu": Partition(nodes={"gpu": None})},
)

Compare = Callable[[Callable[[], float], Callable[[], float]], tuple[float, float]]
Line = Callable[[str, float, float, str], None]


def experiment(tasks: int, odd: int = 0) -> Experiment:
    """Build an experiment of so many tasks with a GPU each, ``odd`` of the workers with two."""
    one = Resources(gpu=GpuAmount(limits=1))
    two = Resources(gpu=GpuAmount(limits=2))
    own = tuple(ReplicaEntry(index=index * (tasks // (odd + 1)), resources=two) for index in range(odd))
    replicas = Replicas(n_workers=tasks - 1, default_worker=ReplicaEntry(resources=one), worker=own)
    environment = Environment(resources=one, replicas=replicas)
    return Experiment(framework="pytorch", environment=environment, run=Run(cmd="python train.py"))


def planned(tasks: int, odd: int = 0) -> Plan:
    """Make a plan of so many tasks."""
    return make_plan(experiment(tasks, odd), SITE, lambda _: DEFAULT)


def seconds(tasks: int) -> float:
    """How long it takes to make a plan of so many equal tasks, and its script."""
    begun = time.perf_counter()
    render(planned(tasks))
    return time.perf_counter() - begun


def main(compare: Compare, line: Line) -> None:
    """Print the ratio of very many equal tasks to few, then time and script size for 10 to 1,000,000."""
    line(
        "plan + render, 1,000,000 equal tasks / 10",
        *compare(lambda: seconds(10**6), lambda: seconds(10)),
        "<= 2",
    )
    many, few = (render(planned(tasks)).count("\n") for tasks in (100_000, 10))
    print(f"script of 100,000 tasks / 10: {many} / {few} lines   goal <= 1", flush=True)
    for odd in (0, 9):
        for tasks in (10, 1_000, 100_000, 1_000_000):
            begun = time.perf_counter()
            plan = planned(tasks, odd)
            made = time.perf_counter()
            script = render(plan)
            rendered = time.perf_counter()
            print(
                f"plan + render, {tasks:>7} tasks, {odd} odd: {(made - begun) * 1000:8.1f} + "
                f"{(rendered - made) * 1000:5.1f} ms, script {len(script):6} bytes, "
                f"{len(plan.placement.rows)} rows",
                flush=True,
            )
