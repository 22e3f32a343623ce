"""What a plug-in says of itself decides as much as what the schedulers and launchers of hpcdist say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hpcdist.plan.model import Gpus
from hpcdist.script.renderer import render_job
from tests.experiments import resources
from tests.plans import planned
from tests.plug_in import plugged_in
from tests.sites import site

LAUNCHER: Final = """\
from hpcdist.errors import warning
from hpcdist.layers.launchers.processes import Processes

class Starter(Processes):
    name = "starter"
    schedulers = frozenset({"waitlist"})
    remote_shell = "ssh"

    def advice(self, job, options):
        yield warning(f"starter goes by {job.launch.remote_shell} to {job.placement.nodes} node")

STARTER = Starter()
"""
SCHEDULER: Final = """\
from hpcdist.errors import warning
from hpcdist.schedulers.local import Local

class Queue(Local):
    name = "waitlist"
    is_batch_system = True
    names_gpus = False
    gpu_hook = "the hook of waitlist"
    sets_threads = True

    def advice(self, job, site):
        yield warning(f"{site.name} is slow today")

WAITLIST = Queue()
"""


def test_what_plug_ins_say_of_themselves_is_heeded(tmp_path: Path) -> None:
    machine = site(scheduler="waitlist", launcher="starter")
    asked = {"resources": resources(cpu=1, gpu=1)}
    with (
        plugged_in(tmp_path / "a", "launcher", "starter", LAUNCHER),
        plugged_in(tmp_path / "b", "scheduler", "waitlist", SCHEDULER),
    ):
        plan = planned(machine, framework="pytorch", environment=asked, batch={"walltime": "1h"})
        job = render_job(plan)
    assert {"x is slow today", "starter goes by ssh to 1 node"} <= set(plan.warnings)
    assert plan.gpus == Gpus(library=plan.gpus.library, shared_nodes=True, named=False)
    assert " [threads]=own\n" in job
    assert " [gpu_hook]='the hook of waitlist'\n" in job
