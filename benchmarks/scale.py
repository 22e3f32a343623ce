"""How planning and rendering grow with the number of tasks, and how the script does not."""

from __future__ import annotations

import time

from hpcdist.experiment.amounts import Amount, Resources
from hpcdist.experiment.model import Environment, Experiment, ReplicaEntry, Replicas, Run
from hpcdist.plan.origin import DEFAULT
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import render
from hpcdist.site.model import NodeType, Partition, Site

SITE = Site(
    name="endless",
    description="as many nodes of four GPUs as one likes",
    scheduler="slurm",
    launcher="srun",
    node_types={"gpu": NodeType(cpus=64, gpus=4)},
    partitions={"gpu": Partition(nodes={"gpu": None})},
)


def experiment(tasks: int, odd: int = 0) -> Experiment:
    """Build an experiment of so many tasks with a GPU each, ``odd`` of the workers with two."""
    one = Resources(gpu=Amount(limits=1))
    two = Resources(gpu=Amount(limits=2))
    own = tuple(ReplicaEntry(index=index * (tasks // (odd + 1)), resources=two) for index in range(odd))
    replicas = Replicas(n_workers=tasks - 1, default_worker=ReplicaEntry(resources=one), worker=own)
    environment = Environment(resources=one, replicas=replicas)
    return Experiment(framework="pytorch", environment=environment, run=Run(cmd="python train.py"))


def main() -> None:
    """Print time and script size for 10 to 100,000 tasks."""
    render(make_plan(experiment(4), SITE, lambda _: DEFAULT))
    for odd in (0, 9):
        for tasks in (10, 100, 1_000, 10_000, 100_000):
            begun = time.perf_counter()
            plan = make_plan(experiment(tasks, odd), SITE, lambda _: DEFAULT)
            planned = time.perf_counter()
            script = render(plan)
            rendered = time.perf_counter()
            print(
                f"plan + render, {tasks:>7} tasks, {odd} odd: {(planned - begun) * 1000:8.1f} + "
                f"{(rendered - planned) * 1000:5.1f} ms = {(rendered - begun) / tasks * 1e6:6.1f} us a task, "
                f"script {len(script):6} bytes, {len(plan.placement.rows)} rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
