"""What a plug-in says of itself decides as much as what the schedulers and launchers of hpcdist say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import Problem
from hpcdist.base.resources import template_folders
from hpcdist.experiment.launch_line import user_launch
from hpcdist.loading.sites import problems_in
from hpcdist.plan.model import GpuVisibility
from hpcdist.planner import advice
from hpcdist.planner.pools import memory_in
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.plug_in import plugged_in
from tests.sites import site

LAUNCHER: Final = """\
from hpcdist.base.errors import warning
from hpcdist.layers.launchers.mpi import Processes

class Starter(Processes):
    name = "starter"
    schedulers = frozenset({"waitlist"})
    remote_shell = "ssh"

    def advice(self, job, options):
        yield warning(f"starter goes by {job.launch.remote_shell} to {job.placement.nodes} node")

STARTER = Starter()
"""
SCHEDULER: Final = """\
from hpcdist.base.errors import warning
from hpcdist.schedulers.local import Local

class Queue(Local):
    name = "waitlist"
    is_batch_system = True
    names_gpus = False
    sets_threads = True
    rounds_cpus = True
    open_mpi_support = "Waitlist"

    def memory_refused_by(self, site):
        return "environment"

    def advice(self, job, site):
        yield warning(f"{site.name} is slow today")

WAITLIST = Queue()
"""
NODES: Final = {
    "node_types": {"n": {"cpus": 8, "gpus": 2, "memory": "8G", "cpus_per_gpu": 4}},
    "partitions": {"p": {"nodes": {"n": 4}}},
}


def test_plug_in_attributes_are_used(tmp_path: Path) -> None:
    machine = site(scheduler="waitlist", launcher="starter", request_memory="share")
    asked = {"resources": resources(cpu=1, gpu=1)}
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "waitlist.sh.j2").write_text("nodes=(here)\n")
    with (
        plugged_in(tmp_path / "a", "launcher", "starter", LAUNCHER),
        plugged_in(tmp_path / "b", "scheduler", "waitlist", SCHEDULER),
    ):
        plan = planned(machine, framework="pytorch", environment=asked, batch={"walltime": "1h"})
        job = render(plan, folders=(tmp_path, *template_folders()))
        assert memory_in(machine, None) == (False, "environment")
    assert {"x is slow today", "starter goes by ssh to 1 node"} <= set(warnings_of(plan))
    assert plan.gpus == GpuVisibility(library=plan.gpus.library, shared_nodes=True, named=False, reserved=1)
    assert "  export OMP_NUM_THREADS=1\n" in job


def test_open_mpi_needs_the_support_of_a_plug_in(tmp_path: Path) -> None:
    each = environment(1, each=resources(gpu=4))
    plan = planned(environment=each, run={"cmd": "mpirun ./x"})
    assert plan.placement.nodes == 2
    job = replace(plan, identity=replace(plan.identity, scheduler="waitlist"))
    launch = user_launch(plan.identity.command, {})
    with plugged_in(tmp_path, "scheduler", "waitlist", SCHEDULER):
        (found,) = advice.about_launch(job, site(), launch)
    assert found.startswith("an Open MPI that was built without Waitlist starts all processes on the first")


@pytest.mark.parametrize(("scheduler", "problems"), [("slurm", 1), ("pbs", 0), ("waitlist", 0)])
def test_cpus_per_gpu_is_for_schedulers_that_use_it(scheduler: str, problems: int, tmp_path: Path) -> None:
    machine = replace(site(scheduler="pbs", **NODES), scheduler=scheduler)
    path = ("node_types", "n", "cpus_per_gpu")
    expected = [Problem(f"scheduler {scheduler} does not use it", path, "remove it")] * problems
    with plugged_in(tmp_path, "scheduler", "waitlist", SCHEDULER):
        assert list(problems_in(machine)) == expected
