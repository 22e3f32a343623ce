"""Findings of a job: its nodes, their connections, and their all-reduces, from the records of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import comma_list
from hpcdist.checks import host
from hpcdist.checks.finding import AllReduce, CheckFinding, TaskRecord, merged_hosts
from hpcdist.checks.host_info import FABRIC
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import Plan
from hpcdist.site.fabric import Fabric, resolve_settings
from hpcdist.site.model import Site

_SKEW: Final = 1.0
"""Seconds. Tickets of munge are valid for minutes, but file times and logs are compared by the second."""

_LONGEST: Final = 300
"""Characters of an error: libraries append the whole call stack."""

_SKEW_HINT: Final = (
    "report it to the centre: munge refuses tickets and file times mislead where clocks differ"
)
_NOT_REACHED: Final = "it ended before the connection checks"
_OPEN_PORTS: Final = (
    "let tasks reach each other at all ports (a firewall between the nodes?), and rank 0 by its name: "
    "`head_node` in the site file can set another"
)
_CONNECT_FIRST: Final = "first fix the connections between the tasks"

_MPI: Final = ("mpi4py", "horovod")

_UNSUPERVISED: Final = CheckFinding(
    "job",
    "supervisor",
    "warning",
    "the first node has no Python 3.6 or newer, which restarts, steps, searches and causes need",
    "set HPCDIST_PYTHON to one before you submit, or ask the centre for /usr/bin/python3",
)


class CheckJob(NamedTuple):
    """A finished job: the name of its run, its plan, and the records of its tasks by rank."""

    run: str
    site: Site
    plan: Plan
    tasks: Mapping[int, TaskRecord]

    @property
    def read_log(self) -> str:
        """The hint to read the log of the run."""
        return f"read `hpcdist logs {self.run}`"

    def node(self, task: TaskRecord) -> str:
        """Return the name of a task's node: as the job lists it, else the host's own."""
        number = task.connectivity.node if task.connectivity else 0
        return task.nodes[number] if len(task.nodes) > number else task.host.host

    def by_node(self) -> dict[str, TaskRecord]:
        """Return the first task of each node."""
        found: dict[str, TaskRecord] = {}
        for _, task in sorted(self.tasks.items()):
            found.setdefault(self.node(task), task)
        return found


def job_findings(check: CheckJob) -> Iterator[CheckFinding]:
    """Yield all findings."""
    yield _records(check)
    if not check.tasks:
        return
    if not any(task.host.supervised for task in check.tasks.values()):
        yield _UNSUPERVISED
    yield from merged_hosts(
        (name, finding) for name, task in check.by_node().items() for finding in _host(check, task)
    )
    yield from _versions(check)
    yield from merged_hosts(_gpus(check))
    yield from merged_hosts(_variables(check))
    yield from merged_hosts(_names(check))
    yield from _connections(check)
    yield from _clocks(check)
    yield from _allreduces(check)


def _records(check: CheckJob) -> CheckFinding:
    size = check.plan.placement.size
    missing = [str(rank) for rank in range(size) if rank not in check.tasks]
    if missing:
        detail = f"of {size} tasks, these wrote no record: rank {comma_list(missing)}"
        hint = f"{check.read_log}, and check whether the nodes can reach the run directory"
        return CheckFinding("job", "records", "error", detail, hint)
    return CheckFinding("job", "records", "ok", f"{size} of {size} tasks wrote into the run directory")


def _host(check: CheckJob, task: TaskRecord) -> Iterator[CheckFinding]:
    site = check.site
    has_gpus = any(group.gpus for group in check.plan.placement.groups)
    job = check.plan.facts
    interface, _ = site.interface_of(job.node_types)
    values = {item.name: item.value for item in resolve_settings(site.fabric, job)}
    fabric = Fabric(network=site.network_of(job.node_types), interface=interface, env={**values})
    for finding in (
        *host.software_findings(task.host, gpus=has_gpus),
        *host.limit_findings(task.host, fabric.network),
        *host.network_findings(task.host, fabric, "node"),
    ):
        yield finding._replace(group=f"nodes: {finding.group}")


def _versions(check: CheckJob) -> Iterator[CheckFinding]:
    """Yield the versions that differ between nodes; earlier findings list each node's versions."""
    hosts = [task.host for task in check.by_node().values()]
    shown = [{("python", host.python), *host.packages.items()} for host in hosts]
    different = {item for one in shown for item in one ^ shown[0]}
    if different:
        detail = f"the nodes differ in {comma_list(sorted({name for name, _ in different}))}"
        hint = "load one environment on all nodes: `batch.modules`, or `modules` and `setup` of the site file"
        yield CheckFinding("nodes: python", "versions", "warning", detail, hint)


def _gpus(check: CheckJob) -> Iterator[tuple[str, CheckFinding]]:
    """Compare the number of GPUs that each task sees with the plan."""
    visibility = check.plan.gpus.visibility
    for planned in check.plan.placement.tasks:
        task = check.tasks.get(planned.rank)
        on_node = check.plan.placement.on_node(planned.node)
        expected = (
            len({gpu for one in on_node for gpu in one.gpus}) if visibility == "node" else len(planned.gpus)
        )
        if task is None or not planned.gpus:
            continue
        if task.host.gpus is None:
            hint = "load the driver's library where there is one: without it no framework finds a GPU"
            yield (
                check.node(task),
                CheckFinding("nodes: gpus", "gpus", "unknown", task.host.gpus_source, hint),
            )
        elif task.host.gpus == expected:
            yield (
                check.node(task),
                CheckFinding("nodes: gpus", "gpus", "ok", f"each task sees its {expected}"),
            )
        else:
            detail = f"a task sees {task.host.gpus} GPUs, {expected} are planned"
            hint = f"check `gpus` in the site file, and {check.plan.gpus.variable}; run nvidia-smi in a job"
            yield check.node(task), CheckFinding("nodes: gpus", "gpus", "error", detail, hint)


def _variables(check: CheckJob) -> Iterator[tuple[str, CheckFinding]]:
    """Compare the network's variables in each task with the plan."""
    planned = {
        item.name: item.value
        for item in check.plan.environment.variables
        if item.name.startswith(FABRIC) and not (item.shell or item.is_late)
    }
    for task in check.tasks.values():
        differ = {name: task.host.variables.get(name) for name in planned}
        differ = {name: value for name, value in differ.items() if value != planned[name]}
        for name, value in differ.items():
            detail = f"it is {'not set' if value is None else value}, {planned[name]} is planned"
            hint = f"something overrides {name}: check modules, profiles and `task_setup`"
            yield check.node(task), CheckFinding("nodes: variables", name, "warning", detail, hint)
        if planned and not differ:
            detail = f"{comma_list(planned)} arrived as planned"
            yield check.node(task), CheckFinding("nodes: variables", "fabric", "ok", detail)


def _names(check: CheckJob) -> Iterator[tuple[str, CheckFinding]]:
    """Yield whether each node can resolve the names of all nodes."""
    for own, task in check.by_node().items():
        names = task.connectivity.names if task.connectivity else {}
        bad = {name: found for name, found in names.items() if found and found[0].startswith("(")}
        loopback = [name for name, found in names.items() if name != own and found[0].startswith("127.")]
        for name, found in bad.items():
            hint = f"report to the centre that {own} cannot resolve {name}, or set `head_node` of the site"
            yield (
                own,
                CheckFinding("network", "names", "error", f"{name} cannot be resolved {found[0]}", hint),
            )
        for name in loopback:
            hint = f"{name} is another node: ask the centre to correct /etc/hosts"
            yield own, CheckFinding("network", "names", "error", f"{name} resolves to {names[name][0]}", hint)
        if names and not bad and not loopback:
            yield own, CheckFinding("network", "names", "ok", f"{comma_list(names)} can be resolved")


def _connections(check: CheckJob) -> Iterator[CheckFinding]:
    failed: dict[str, list[str]] = {}
    for rank, task in sorted(check.tasks.items()):
        why = task.connectivity.error if task.connectivity else _NOT_REACHED
        failed.setdefault(why, []).append(str(rank))
    for why in filter(None, failed):
        hint = check.read_log if why == _NOT_REACHED else _OPEN_PORTS
        yield CheckFinding("network", "connectivity", "error", f"rank {comma_list(failed[why])}: {why}", hint)
    connected = [task for task in check.tasks.values() if task.connectivity and not task.connectivity.error]
    if len(connected) == check.plan.placement.size:
        detail = (
            f"{len(connected)} of {len(connected)} tasks reach rank 0 at the job's port, and their neighbours"
        )
        yield CheckFinding("network", "connectivity", "ok", detail)


def _clocks(check: CheckJob) -> Iterator[CheckFinding]:
    """Yield the clocks that certainly differ, or else the largest difference."""
    by_node = check.by_node()
    first, *others = by_node
    close: list[tuple[float, str]] = [] if others else [(0.0, f"all tasks are on {first}, with one clock")]
    for name in others:
        meeting = by_node[name].connectivity
        clock = meeting.clock if meeting else None
        if clock is None:
            detail = f"{name} could not get the time of {first}"
            yield CheckFinding("network", "clock", "unknown", detail, _CONNECT_FIRST)
            continue
        side = "behind" if clock.offset > 0 else "ahead of"
        detail = f"{name} is {_seconds(abs(clock.offset))} {side} {first}"
        detail += f", give or take {_seconds(clock.uncertainty)}"
        if abs(clock.offset) - clock.uncertainty > _SKEW:
            yield CheckFinding("network", "clock", "warning", detail, _SKEW_HINT)
        else:
            close.append((abs(clock.offset), detail))
    if close:
        yield CheckFinding("network", "clock", "ok", max(close)[1])


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.2f} ms"


def _allreduces(check: CheckJob) -> Iterator[CheckFinding]:
    """Yield one finding for each library, over all tasks."""
    by_library: dict[str, list[AllReduce]] = {}
    for task in check.tasks.values():
        for one in (*(task.connectivity.allreduces if task.connectivity else ()), *task.allreduces):
            by_library.setdefault(one.library, []).append(one)
    if not by_library and check.plan.placement.size > 1:
        yield CheckFinding("network", "all-reduce", "unknown", "the tasks did not connect", _CONNECT_FIRST)
    for name, found in by_library.items():
        yield _allreduce(check, name, found)


def _allreduce(check: CheckJob, library: str, found: Sequence[AllReduce]) -> CheckFinding:
    size, name = check.plan.placement.size, f"all-reduce by {library}"
    failed = next((one for one in found if one.error), None)
    if failed or len(found) < size:
        detail = f"{size - len(found)} of {size} tasks did not get that far"
        detail = " ".join(failed.error.split())[:_LONGEST] if failed else detail
        hint = check.read_log + ("; NCCL_DEBUG=INFO prints more" if library == "torch" else "")
        return CheckFinding("network", name, "error", detail, hint)
    too_few = next((one for one in found if one.ranks != size), None)
    if too_few:
        return _too_few_ranks(check, library, too_few, name)
    slowest = max(found, key=lambda one: one.seconds)
    detail = (
        f"{slowest.title or slowest.library}, {host.human_bytes(slowest.bytes)} over {size} tasks: "
        f"{slowest.algorithm_bandwidth:.3g} GB/s, on the bus {slowest.bus_bandwidth:.3g} GB/s"
    )
    if all(one.correct for one in found):
        return CheckFinding("network", name, "ok", f"{detail}; the sum is correct")
    hint = "do not train here before this is fixed: report it to the centre, with the names of the nodes"
    return CheckFinding("network", name, "error", f"{detail}; the sum is WRONG", hint)


def _too_few_ranks(check: CheckJob, library: str, found: AllReduce, name: str) -> CheckFinding:
    detail = f"{found.title or library} sees {found.ranks} of {check.plan.placement.size} tasks"
    launcher = launchers.get(check.plan.launch.launcher)
    if library in _MPI and not launcher.provides_mpi:
        detail = f"{detail}: launcher {launcher.name} has no MPI"
        return CheckFinding(
            "network", name, "note", detail, "try one that has: `--set batch.launcher=mpirun`"
        )
    hint = f"use a library that is built with the MPI of {launcher.name}"
    if "mpi" in launcher.site_options:
        key = f"launchers.{launcher.name}.mpi"
        hint = f"set `{key}` to a type that this MPI knows, or choose `batch.launcher: mpirun`"
    return CheckFinding("network", name, "error", detail, hint)
