"""Warnings about a user's own launch line that does not fit the allocation, with a corrected line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.launch.bash_words import assignments, simple_commands
from hpcdist.experiment.launch.hosts import hosts_in
from hpcdist.experiment.launch.line import MPI, UNSPECIFIED, UserLaunch
from hpcdist.experiment.launch.options import Option
from hpcdist.experiment.launch.problems import hostfile_option
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import PreparedJob
from hpcdist.planner import node_launches
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_STARTS_ALONE: Final = frozenset({"deepspeed", "colossalai run"})
"""Launchers that without a list of hosts train on the first node only and exit 0.

They set the variables of each process as PyTorch's ``env://`` does
(https://github.com/deepspeedai/DeepSpeed, deepspeed/launcher/launch.py).
"""
_NEEDS_HOSTS: Final = frozenset({"horovodrun", "mpirun_rsh", *_STARTS_ALONE})
_ADDRESS: Final = "MASTER_ADDR"


def advice(job: PreparedJob, site: Site, launch: UserLaunch | None) -> Iterator[str]:
    """Yield a warning for each part of the user's launch line that does not fit the plan."""
    if launch is None:
        yield from _about_the_address(job)
        return
    yield from _about_its_tasks(job, launch)
    if launch.runs == "per_node":
        yield from node_launches.advice(job, launch)
    elif launch.starts and launch.starts.runs == "per_node":
        yield from node_launches.within(job, launch)
    else:
        yield from _about_the_whole(job, site, launch)


def _about_the_address(job: PreparedJob) -> Iterator[str]:
    """Yield a warning where each task would take its own node for MASTER_ADDR."""
    values = [
        value
        for simple in simple_commands(job.identity.command)
        for name, value in assignments(simple)
        if name == _ADDRESS
    ]
    values += [item.value for item in job.environment.variables if item.name == _ADDRESS and not item.shell]
    own = [value for value in values if node_launches.is_own(value)]
    if own and own == values and job.placement.nodes > 1:
        mend = f'write {_ADDRESS}="$HPCDIST_HEAD_ADDRESS"'
        yield f"{_ADDRESS} is {own[0]}, which is another machine on each node; {mend}"


def _about_its_tasks(job: PreparedJob, launch: UserLaunch) -> Iterator[str]:
    names = [
        variable.name
        for variable in job.environment.task_variables
        if variable.name in job.environment.framework_variables
    ]
    if launch == UNSPECIFIED:
        yield (
            "`backend: mpi` leaves the start of all tasks to the command, and this is no mpirun: it runs "
            "once; remove `backend` if hpcdist is to start them"
        )
    by_another = launch.starts is not None and launch.starts.runs == "per_node"
    if launch.runs == "once" and launch.program not in _STARTS_ALONE and names and not by_another:
        yield (
            f"the tasks that the command starts do not get {', '.join(names)}; let the command be the "
            "program itself, and hpcdist starts it"
        )


def _about_the_whole(job: PreparedJob, site: Site, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with a launch of the whole job, with the corrected line."""
    hosts = [*_hosts(job, site, launch)] if job.placement.nodes > 1 else []
    counted = [*_nodes(job, launch), *_counts(job, launch)]
    if corrections := [*hosts, *counted]:
        line = launch.line(
            *(text for item in corrections for text in item.add),
            without=[option for item in corrections for option in item.without],
            instead={at: text for item in corrections for at, text in item.instead.items()},
        )
        other = f", or {_instead_of_a_count(job, site, launch)}" if counted else ""
        yield f"{'; '.join(item.reason for item in corrections)}; write `{line}`{other}"


def _instead_of_a_count(job: PreparedJob, site: Site, launch: UserLaunch) -> str:
    """Return the change to the experiment that gives the launch as many tasks as it starts."""
    if job.identity.framework is None and launch.tasks == sum(
        row.gpus * row.tasks for row in job.placement.rows
    ):
        framework = "horovod" if launch.program == "horovodrun" else "mpi"
        return f"`framework: {framework}`, under which each GPU has a process"
    return next(_other_nodes(job, site, launch), "ask for other `environment.replicas`")


def _other_nodes(job: PreparedJob, site: Site, launch: UserLaunch) -> Iterator[str]:
    """Yield the keys that give the job the nodes of the launch, where its replicas fit them."""
    rows, nodes = job.placement.rows, job.placement.nodes
    replicas, each = sum(row.tasks // row.tasks_per_replica for row in rows), rows[0].tasks_per_replica
    least = nodes if site.partitions else 1  # nodes of unknown size may hold more
    if launch.tasks not in (None, job.placement.size):
        return
    for option in launch.options_of("nodes"):
        if option.value.isdecimal() and least <= int(option.value) <= replicas:
            yield f"`batch: {{nodes: {option.value}}}`"
    for option in launch.options_of("per_node", "map"):
        number = re.fullmatch(r"(?:ppr:)?(\d+)(:node.*)?", option.value)
        per_node, rest = divmod(int(number[1]) if number else 0, each)
        if per_node and not rest and replicas % per_node == 0 and replicas // per_node >= least:
            yield f"`replicas: {{per_node: {per_node}}}` in `environment`"


def _hosts(job: PreparedJob, site: Site, launch: UserLaunch) -> Iterator[node_launches.Correction]:
    """Yield the missing options of a launch that would use the first node only."""
    named = [
        option for option in launch.options_of("hosts", "hostfile", "discovery", "include") if option.value
    ]
    if not named and (why := _why_on_the_first(job, site, launch)):
        yield node_launches.Correction(
            why, (hostfile_option(launch),), launch.options_of("hosts", "hostfile")
        )
    alone = [host for option in named if option.kind in ("hosts", "include")
             for host in hosts_in(option.kind, option.value)]  # fmt: skip
    if alone and all(node_launches.is_own(host) for host in alone):
        where = f"{alone[0]}, the first of the {job.placement.nodes} nodes"
        instead = {named[0].start: hostfile_option(launch)}
        theirs = launch.options_of("hosts", "hostfile", "include")
        yield node_launches.Correction(
            f"{launch.program} starts all processes on {where}", (), theirs, instead
        )


def _nodes(job: PreparedJob, launch: UserLaunch) -> Iterator[node_launches.Correction]:
    """Yield the corrected option of a launch with another number of nodes than the job."""
    for option in launch.options_of("nodes"):
        if not node_launches.has(option.value, job.placement.nodes):
            number = f"{option.value} node{'s' * (option.value != '1')}"
            why = f"{launch.program} uses {number}, and the job has {job.placement.nodes}"
            yield _with(launch, option, str(job.placement.nodes), why)


def _counts(job: PreparedJob, launch: UserLaunch) -> Iterator[node_launches.Correction]:
    """Yield the corrected option of a launch with another number of processes than the job has tasks."""
    size = job.placement.size
    runs = list(job.placement.tasks_per_node())
    if launch.tasks is not None and launch.tasks != size:
        starts = node_launches.starts(launch, str(launch.tasks))
        why = f"{starts}, and the job has {size} task{'s' * (size > 1)}"
        yield _with(launch, launch.options_of("np")[0], str(size), why)
        return
    for option in launch.options_of("per_node", "map"):
        ppr = re.fullmatch(r"(ppr:)?(\d+)(:node.*)?", option.value)
        if ppr and bool(ppr[1]) == (option.kind == "map") and len(runs) == 1 and int(ppr[2]) != runs[0][1]:
            why = f"{node_launches.starts(launch, ppr[2])} on each node, where the job has {runs[0][1]}"
            yield _with(launch, option, f"{ppr[1] or ''}{runs[0][1]}{ppr[3] or ''}", why)


def _with(launch: UserLaunch, option: Option, value: str, why: str) -> node_launches.Correction:
    """Return a line with another value for an option, which may be glued to its name (`-n4`, `--np=4`)."""
    name, equals, _ = launch.words[launch.head + option.start].partition("=")
    glued = option.end == option.start + 1 and not equals
    name = name.removesuffix(option.value) if glued else name
    return node_launches.Correction(why, (), (option,), {option.start: f"{name}{equals or ' '}{value}"})


def _why_on_the_first(job: PreparedJob, site: Site, launch: UserLaunch) -> str:
    """Return why a launch without hosts uses the first node only, None where it finds the others."""
    nodes, program = job.placement.nodes, launch.program
    if program in _STARTS_ALONE:
        where = f"the first of the {nodes} nodes only, and still exits 0"
        return f"{program} without a list of hosts trains on {where}"
    if program in _NEEDS_HOSTS:
        return f"{program} without a list of hosts knows only the first of the {nodes} nodes"
    is_open_mpi = program in MPI and program != "mpiexec.hydra" and _is_open_mpi(site)
    support = schedulers.get(job.identity.scheduler).open_mpi_support
    if not (is_open_mpi and support):
        return ""
    return (
        f"an Open MPI that was built without {support} starts all processes on the first of the {nodes} nodes"
    )


def _is_open_mpi(site: Site) -> bool:
    """Whether the site's mpirun may be Open MPI's; the others find the nodes of every scheduler."""
    flavours = launchers.get(site.launcher).mpi_flavours or ("openmpi",)
    return "openmpi" in flavours and site.options("mpirun").flavour in (None, "openmpi")
