"""What the records of a job's tasks mean: its nodes, how they reach each other, and their sums."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.doctor import devices, limits, software
from hpcdist.doctor.finding import Finding, folded
from hpcdist.doctor.limits import in_bytes
from hpcdist.doctor.look import FABRIC
from hpcdist.doctor.records import Sum, Task
from hpcdist.errors import listed
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import Plan
from hpcdist.site.model import Site

_SKEW: Final = 1.0
"""Seconds. Tickets of munge live for minutes, but file times and logs are compared by the second."""

_LONGEST: Final = 300
"""Letters of an error: libraries add the whole way to where it arose."""

_NOT_SO_FAR: Final = "it did not come so far as to look for the others"
_REACH: Final = (
    "let tasks reach each other at all ports (a firewall between the nodes?), and rank 0 by its name: "
    "`head_node` in the site file can say another"
)
_FIRST: Final = "mend first what keeps the tasks from meeting"

_MPI: Final = ("mpi4py", "horovod")


class CheckJob(NamedTuple):
    """A job that is over: the name of its run, what was planned, and what its tasks wrote, by rank."""

    run: str
    site: Site
    plan: Plan
    tasks: Mapping[int, Task]

    @property
    def log(self) -> str:
        """What to do where the doctor knows no more."""
        return f"read `hpcdist logs {self.run}`"

    def node(self, task: Task) -> str:
        """Return the name of a task's node: that in the job's list, else its own."""
        names = [*task.meeting.names] if task.meeting else []
        return names[task.meeting.node] if task.meeting and len(names) > task.meeting.node else task.host.host

    def by_node(self) -> dict[str, Task]:
        """Return the first task of each node."""
        found: dict[str, Task] = {}
        for _, task in sorted(self.tasks.items()):
            found.setdefault(self.node(task), task)
        return found


def findings(check: CheckJob) -> Iterator[Finding]:
    """Yield all of it."""
    yield _records(check)
    if not check.tasks:
        return
    yield from folded(
        (name, finding) for name, task in check.by_node().items() for finding in _host(check, task)
    )
    yield from _versions(check)
    yield from folded(_gpus(check))
    yield from folded(_variables(check))
    yield from folded(_names(check))
    yield from _meetings(check)
    yield from _clocks(check)
    yield from _sums(check)


def _records(check: CheckJob) -> Finding:
    size = check.plan.placement.size
    missing = [str(rank) for rank in range(size) if rank not in check.tasks]
    if missing:
        seen = f"of {size} tasks these left no record: rank {listed(missing)}"
        do = f"{check.log}, and look whether the nodes see the folder of the runs"
        return Finding("job", "records", "error", seen, do)
    return Finding("job", "records", "ok", f"{size} of {size} tasks wrote into the run directory")


def _host(check: CheckJob, task: Task) -> Iterator[Finding]:
    site = check.site
    has_gpus = any(group.gpus for group in check.plan.placement.groups)
    for finding in (
        *software.findings(task.host, gpus=has_gpus),
        *limits.findings(task.host, site.fabric.network),
        *devices.network(task.host, site.fabric, "node"),
    ):
        yield finding._replace(group=f"nodes: {finding.group}")


def _versions(check: CheckJob) -> Iterator[Finding]:
    """Yield what is not alike on all nodes; the findings before it tell what each has."""
    hosts = [task.host for task in check.by_node().values()]
    shown = [{("python", host.python), *host.packages.items()} for host in hosts]
    unlike = {item for one in shown for item in one ^ shown[0]}
    if unlike:
        seen = f"the nodes differ in {listed(sorted({name for name, _ in unlike}))}"
        do = "load one environment on all nodes: `batch.modules`, or `modules` and `setup` of the site file"
        yield Finding("nodes: python", "versions", "warning", seen, do)


def _gpus(check: CheckJob) -> Iterator[tuple[str, Finding]]:
    """Compare the GPUs that each task sees with those that it was to have."""
    shown = check.plan.gpus.visibility
    for planned in check.plan.placement.tasks:
        task = check.tasks.get(planned.rank)
        on_node = check.plan.placement.on_node(planned.node)
        wanted = len({gpu for one in on_node for gpu in one.gpus}) if shown == "node" else len(planned.gpus)
        if task is None or not planned.gpus:
            continue
        if task.host.gpus is None:
            do = "load the driver's library where there is one: without it no framework finds a GPU"
            yield check.node(task), Finding("nodes: gpus", "gpus", "unknown", task.host.gpus_why, do)
        elif task.host.gpus == wanted:
            yield check.node(task), Finding("nodes: gpus", "gpus", "ok", f"each task sees its {wanted}")
        else:
            seen = f"a task sees {task.host.gpus} GPUs, {wanted} are planned"
            do = (
                f"look at `gpus` in the site file, and at {check.plan.gpus.variable}; run nvidia-smi in a job"
            )
            yield check.node(task), Finding("nodes: gpus", "gpus", "error", seen, do)


def _variables(check: CheckJob) -> Iterator[tuple[str, Finding]]:
    """Compare the network's variables, as they arrived, with the plan's."""
    planned = {
        item.name: item.value
        for item in check.plan.environment.variables
        if item.name.startswith(FABRIC) and not (item.shell or item.found)
    }
    for task in check.tasks.values():
        differ = {name: task.host.variables.get(name) for name in planned}
        differ = {name: value for name, value in differ.items() if value != planned[name]}
        for name, value in differ.items():
            seen = f"it is {'not set' if value is None else value}, {planned[name]} is planned"
            do = f"something sets {name} anew: look at modules, profiles and `task_setup`"
            yield check.node(task), Finding("nodes: variables", name, "warning", seen, do)
        if planned and not differ:
            seen = f"{listed(planned)} arrived as planned"
            yield check.node(task), Finding("nodes: variables", "fabric", "ok", seen)


def _names(check: CheckJob) -> Iterator[tuple[str, Finding]]:
    """Yield how each node resolves the names of all."""
    for own, task in check.by_node().items():
        names = task.meeting.names if task.meeting else {}
        bad = {name: found for name, found in names.items() if found and found[0].startswith("(")}
        looped = [name for name, found in names.items() if name != own and found[0].startswith("127.")]
        for name, found in bad.items():
            do = f"tell the centre where {name} cannot be resolved; `head_node` in the site file may help"
            yield own, Finding("network", "names", "error", f"{name} has no address {found[0]}", do)
        for name in looped:
            do = f"{name} is another node: tell the centre to mend /etc/hosts"
            yield own, Finding("network", "names", "error", f"{name} is {names[name][0]} there", do)
        if names and not bad and not looped:
            yield own, Finding("network", "names", "ok", f"{listed(names)} can be resolved")


def _meetings(check: CheckJob) -> Iterator[Finding]:
    failed: dict[str, list[str]] = {}
    for rank, task in sorted(check.tasks.items()):
        why = task.meeting.error if task.meeting else _NOT_SO_FAR
        failed.setdefault(why, []).append(str(rank))
    for why in filter(None, failed):
        do = check.log if why == _NOT_SO_FAR else _REACH
        yield Finding("network", "meeting", "error", f"rank {listed(failed[why])}: {why}", do)
    met = [task for task in check.tasks.values() if task.meeting and not task.meeting.error]
    if len(met) == check.plan.placement.size:
        seen = f"{len(met)} of {len(met)} tasks reach rank 0 at the job's port, and their neighbours"
        yield Finding("network", "meeting", "ok", seen)


def _clocks(check: CheckJob) -> Iterator[Finding]:
    """Yield the clocks that are certainly off, else the largest difference."""
    by_node = check.by_node()
    first, *others = by_node
    right: list[tuple[float, str]] = [] if others else [(0.0, f"all on {first} have one clock")]
    for name in others:
        meeting = by_node[name].meeting
        clock = meeting.clock if meeting else None
        if clock is None:
            seen = f"{name} could not ask {first} for the time"
            yield Finding("network", "clock", "unknown", seen, _FIRST)
            continue
        side = "behind" if clock.ahead > 0 else "ahead of"
        seen = f"{name} is {_seconds(abs(clock.ahead))} {side} {first}"
        seen += f", give or take {_seconds(clock.give_or_take)}"
        if abs(clock.ahead) - clock.give_or_take > _SKEW:
            do = "tell the centre: munge refuses tickets, and file times mislead, where clocks differ"
            yield Finding("network", "clock", "warning", seen, do)
        else:
            right.append((abs(clock.ahead), seen))
    if right:
        yield Finding("network", "clock", "ok", max(right)[1])


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.2f} ms"


def _sums(check: CheckJob) -> Iterator[Finding]:
    """Yield each way to sum, over all tasks."""
    ways: dict[str, list[Sum]] = {}
    for task in check.tasks.values():
        for one in task.meeting.sums if task.meeting else ():
            ways.setdefault(re.split(r"\W", one.by)[0], []).append(one)
    if not ways and check.plan.placement.size > 1:
        yield Finding("network", "all-reduce", "unknown", "the tasks did not meet", _FIRST)
    for name, found in ways.items():
        yield _sum(check, name, found)


def _sum(check: CheckJob, way: str, found: Sequence[Sum]) -> Finding:
    size, name = check.plan.placement.size, f"sum by {way}"
    failed = next((one for one in found if one.error), None)
    if failed or len(found) < size:
        seen = f"{size - len(found)} of {size} tasks did not come so far"
        seen = " ".join(failed.error.split())[:_LONGEST] if failed else seen
        do = check.log + ("; NCCL_DEBUG=INFO tells more" if way == "torch" else "")
        return Finding("network", name, "error", seen, do)
    alone = next((one for one in found if one.ranks != size), None)
    if alone:
        return _alone(check, way, alone, name)
    slowest = max(found, key=lambda one: one.seconds)
    seen = (
        f"{slowest.by}, {in_bytes(slowest.bytes)} over {size} tasks: "
        f"{slowest.algorithm:.3g} GB/s, on the bus {slowest.bus:.3g} GB/s"
    )
    if all(one.right for one in found):
        return Finding("network", name, "ok", f"{seen}; the sum is right")
    do = "do not train here before this is mended: tell the centre, with the names of the nodes"
    return Finding("network", name, "error", f"{seen}; the sum is WRONG", do)


def _alone(check: CheckJob, way: str, found: Sum, name: str) -> Finding:
    seen = f"{found.by} sees {found.ranks} of {check.plan.placement.size} tasks"
    launcher = launchers.get(check.plan.launch.launcher)
    if way in _MPI and not launcher.brings_mpi:
        seen = f"{seen}: launcher {launcher.name} brings no MPI"
        return Finding("network", name, "note", seen, "try one that does: `--set batch.launcher=mpirun`")
    do = f"use one that is built with the MPI of {launcher.name}"
    if "mpi" in launcher.reads:
        key = f"launchers.{launcher.name}.mpi"
        do = f"set `{key}` to a type that this MPI knows, or choose `batch.launcher: mpirun`"
    return Finding("network", name, "error", seen, do)
