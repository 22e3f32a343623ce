"""Advice: warnings about a plan that is unusual but valid; each says what to do."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.base.errors import Path, Problem, did_you_mean, warning
from hpcdist.base.spelling import closest
from hpcdist.experiment.launch_line import UNSPECIFIED, UserLaunch, hostfile_option
from hpcdist.experiment.launch_options import MPI_LAUNCHERS, Option, hosts_in
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import NodeCounts, Replica
from hpcdist.experiment.shell_words import SimpleCommand, simple_commands, unquoted
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import AdvisingLauncher
from hpcdist.plan import folding
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placement import Group, Row
from hpcdist.planner import container_choice, gpus, line_values, node_launches
from hpcdist.planner.feasibility import REPLICAS
from hpcdist.planner.gpus import KEY, gpu_label_of, gpu_type_advice
from hpcdist.planner.gpus import device_advice as about_devices
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.line_values import is_own, value_in_job
from hpcdist.planner.placement import why_no_memory
from hpcdist.planner.pools import memory_in
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.site.nodes import Qos

# --- Warnings about a user's own launch line that does not fit the allocation, with a corrected line

_STARTS_ALONE: Final = frozenset({"deepspeed", "colossalai run"})
"""Launchers that without a list of hosts train on the first node only and exit 0.

They set the variables of each process as PyTorch's ``env://`` does
(https://github.com/deepspeedai/DeepSpeed, deepspeed/launcher/launch.py).
"""
_NEEDS_HOSTS: Final = frozenset({"horovodrun", "mpirun_rsh", *_STARTS_ALONE})


def about_launch(
    job: PreparedJob, site: Site, launch: UserLaunch | None, *, is_body: bool = False
) -> Iterator[str]:
    """Yield a warning for each part of the user's launch line that does not fit the plan.

    ``is_body``: the command is a whole script, which may start parts of the job one after the other.
    """
    yield from line_values.about_gpus(job, job.identity.command)
    yield from line_values.about_background(job)
    yield from line_values.about_empty(job, launch)
    yield from line_values.about_submissions(job)
    if is_body:
        return
    if launch is None:
        yield from line_values.about_rendezvous(job)
        yield from node_launches.about_ray(job)
        return
    if other := node_launches.other_framework(job, launch):
        yield other
        return
    yield from _about_its_tasks(job, launch)
    if launch.runs == "per_node":
        yield from node_launches.advice_for_all(job, launch)
    else:
        yield from _about_the_whole(job, site, launch)
        yield from node_launches.within(job, launch)


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
    slots = {row.tasks_per_node for row in job.placement.rows}
    gpus = {group.gpus for group in job.placement.groups}
    if launch.program in _STARTS_ALONE and job.placement.nodes > 1 and max(slots) < max(gpus):
        yield (
            f"the hostfile gives {launch.program} {max(slots)} of the {max(gpus)} GPUs of a node; write "
            "`framework: deepspeed`, under which it gives all"
        )
    if corrections := [*hosts, *counted]:
        other = f", or {_instead_of_a_count(job, site, launch)}" if counted else ""
        yield f"{node_launches.corrected(launch, corrections)}{other}"


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
    for option in launch.options_of("address") if launch.program in _STARTS_ALONE else ():
        if is_own(option.value):
            where = f"{launch.written(option)} is {option.value}"
            reason = f"{where}, and the other nodes would wait at themselves"
            yield node_launches.Correction(reason, (), (option,))
    alone = [host for option in named if option.kind in ("hosts", "include")
             for host in hosts_in(option.kind, option.value)]  # fmt: skip
    if alone and all(is_own(host) for host in alone):
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
    if launch.starts and launch.starts.runs == "per_node":  # one launcher a node
        size, runs = job.placement.nodes, [(job.placement.nodes, 1)]
    elif launch.program in _STARTS_ALONE and (gpus := {group.gpus for group in job.placement.groups} - {0}):
        runs = [(job.placement.nodes, gpus.pop())]  # a process for each GPU
    given = [option.value for option in launch.options_of("np")]
    value = value_in_job(job, given[0], early=True) if given else ""
    tasks = int(value) if launch.tasks is None and value.isdecimal() else launch.tasks
    if tasks is not None and tasks != size:
        starts = node_launches.starts(launch, str(tasks))
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
    is_open_mpi = program in MPI_LAUNCHERS and program != "mpiexec.hydra" and _is_open_mpi(site)
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


# --- Warnings about what drops the variables of the task between the launcher and the program
#
# Each task would then be rank 0 of a world of size 1, train alone and exit 0.


class _Loss(NamedTuple):
    """A program that starts another one without its variables.

    ``subcommands``: which drop them, any if empty. ``by``: the options that drop them, always if empty;
    ``keeps``: the options that keep them. ``instead``: what to write.
    """

    subcommands: frozenset[str] = frozenset()
    by: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    instead: str = ""


def _leaves(*by: str, subcommands: tuple[str, ...] = ()) -> _Loss:
    return _Loss(frozenset(subcommands), by=frozenset(by), instead="leave the option out")


_AS_YOURSELF: Final = "let the program run as yourself"
_ON_NODES: Final = "let hpcdist start the program on each node"
_IMAGE: Final = "name the image by `build: {image: ...}`, and hpcdist starts the container"
_SANDBOXES: Final = _leaves("-e", "--cleanenv", "-C", "--containall", subcommands=("exec", "run", "shell"))
_PODMAN: Final = _Loss(
    frozenset({"run", "exec"}), keeps=frozenset({"--env-host"}), instead="add `--env-host`"
)
_LOSSES: Final = {
    "env": _leaves("-", "-i", "--ignore-environment"),
    "exec": _leaves("-c", "-cl", "-lc"),
    "setpriv": _leaves("--reset-env"),
    "su": _leaves("-", "-l", "--login"),
    "apptainer": _SANDBOXES,
    "singularity": _SANDBOXES,
    "docker": _Loss(frozenset({"run", "exec"}), instead=_IMAGE),
    "podman": _PODMAN,
    "podman-hpc": _PODMAN,
    "udocker": _Loss(frozenset({"run"}), keeps=frozenset({"--hostenv"}), instead="add `--hostenv`"),
    "enroot": _Loss(frozenset({"start"}), keeps=frozenset({"-c", "--conf"}), instead=_IMAGE),
    "ch-run": _leaves("--unset-env"),
    "bwrap": _leaves("--clearenv"),
    "nix-shell": _leaves("--pure"),
    "nix": _leaves("-i", "--ignore-environment", "--ignore-env", subcommands=("develop", "shell")),
    "guix": _leaves("--pure", "-C", "--container", subcommands=("shell", "environment")),
    "pixi": _leaves("--clean-env", subcommands=("run",)),
    "tox": _Loss(instead="leave it out"),
    "sudo": _Loss(keeps=frozenset({"-E", "--preserve-env"}), instead=_AS_YOURSELF),
    "doas": _Loss(instead=_AS_YOURSELF),
    "systemd-run": _Loss(instead="leave it out"),
    **dict.fromkeys(
        ("ssh", "rsh", "pdsh", "clush", "ds_ssh", "pbsdsh", "blaunch", "qrsh"), _Loss(instead=_ON_NODES)
    ),
    "flux": _Loss(frozenset({"exec"}), instead=_ON_NODES),
    "parallel": _Loss(by=frozenset({"-S", "--sshlogin", "--slf", "--sshloginfile"}), instead=_ON_NODES),
}
"""By the manuals: env(1), bash(1), setpriv(1), su(1), apptainer-exec(1), docker-run(1), podman-run(1),
udocker(1), enroot's start.md, ch-run(1), bwrap(1), nix(1), guix-shell(1), pixi-run, tox's pass_env, sudo(8),
doas(1), systemd-run(1), ssh(1), pdsh(1), clush(1), pbsdsh(1B), blaunch(1), qrsh(1), flux-exec(1),
parallel(1). conda, uv and the like, sarus and shifter keep them."""


def about_lost_variables(job: PreparedJob) -> Iterator[str]:
    """Yield a warning for each such part of the command, where several tasks run it."""
    if job.launch.mode != "tasks" or job.placement.size < 2:  # noqa: PLR2004 - one task has no others
        return
    for command in simple_commands(job.identity.command):
        for shown, instead in _losses(command):
            size = job.placement.size
            lost = f"starts the program without the variables of its task, so that each of the {size} tasks"
            if instead == _ON_NODES:
                lost = f"starts the program on other nodes, in each of the {size} tasks, so that all"
            yield f"`{shown}` {lost} would train alone; {instead}"


def _losses(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield what to show of each part that loses the variables, and what to write instead."""
    before = [unquoted(word) for word in command.before]
    words = [unquoted(word) for word in command.words]
    for at, word in enumerate(before):
        yield from _loss_of(word, before[at + 1 :])
    if words:
        yield from _loss_of(words[0], words[1:])
    if words and words[0] in ("xargs", "parallel", "tmux", "screen"):
        yield from (
            (name, _ON_NODES) for name in ("ssh", "pdsh") if re.search(rf"\b{name}\b", " ".join(words))
        )


def _loss_of(word: str, rest: Sequence[str]) -> Iterator[tuple[str, str]]:
    name = word.rsplit("/", 1)[-1]
    loss = _LOSSES.get(name)
    subcommand = rest[:1] if loss and loss.subcommands else ()
    if loss and (not loss.subcommands or loss.subcommands.intersection(subcommand)):
        options = {*_options(rest[len(subcommand) :])}
        found = sorted(options & loss.by)
        if (found or not loss.by) and not options & loss.keeps:
            yield " ".join((name, *subcommand, *found)), loss.instead


def _options(words: Sequence[str]) -> Iterator[str]:
    """Yield the options in front of what is started; the word behind one may be its value."""
    for last, word in pairwise(("", *words)):
        if word.startswith("-"):
            yield word.partition("=")[0]
        elif not last.startswith("-"):
            return


# --- Warnings about the QOS that an experiment names: its limits, and names that the site's file lacks

_PATH: Path = ("batch", "qos")


def about_qos(name: str | None, site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning for what a job exceeds of a QOS, and for a name that is most likely misspelt.

    Site files seldom list all QOS, and some QOS belong to projects: names may differ in a number.
    """
    known = {*site.qos, *filter(None, (partition.qos for partition in site.partitions.values()))}
    if name in site.qos:
        yield from _beyond(name, site.qos[name], job)
    elif (
        name and name not in known and (near := closest(name, known, 1)) and _letters(near) != _letters(name)
    ):
        yield Problem(
            f"site {site.name} may have no QOS {name!r}", _PATH, f"did you mean {near!r}?", "warning"
        )


def _letters(name: str) -> str:
    return re.sub(r"\d", "", name)


def _beyond(name: str, qos: Qos, job: PreparedJob) -> Iterator[Problem]:
    nodes, walltime = job.placement.nodes, job.request.walltime
    if qos.max_nodes and nodes > qos.max_nodes:
        yield warning(f"QOS {name} gives a job {qos.max_nodes} nodes, {nodes} are needed", _PATH)
    if qos.max_walltime and walltime and walltime > qos.max_walltime:
        message = f"QOS {name} allows {qos.max_walltime}, {walltime} requested"
        yield warning(message, ("batch", "walltime"))


# --- Advice


def advice(experiment: Experiment, site: Site, job: PreparedJob, choice: LaunchChoice) -> Iterator[Problem]:
    """Yield what the user should know before submitting."""
    is_body = experiment.backend == "mpi" and len(simple_commands(experiment.run.command)) > 1
    found = about_launch(job, site, choice.launch, is_body=is_body)
    for text in (*found, *about_lost_variables(job)):
        yield warning(text, ("run", "cmd"))
    yield from _about_the_site(experiment, site, job)
    yield from _array_size(site, job)
    yield from _about_the_image(experiment, job)
    kinds = {(block.first.path, block.first.selector_path): block.first for block in choice.replicas}
    for replica in kinds.values():
        yield from _about_a_replica(replica)
    yield from map(warning, about_devices(experiment, job, choice))
    if isinstance(choice.launcher, AdvisingLauncher) and not choice.by_user:
        yield from choice.launcher.advice(job, site.options(choice.launcher.name))
    yield from _unused(experiment, [*kinds.values()], site, job)


def _unused(
    experiment: Experiment, kinds: Sequence[Replica], site: Site, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning for each part of the experiment that has no effect on this site."""
    for variable in job.environment.task_variables:
        if variable.name in experiment.environment.env_vars:
            path = ("environment", "env_vars", variable.name)
            yield warning(f"{variable.name} has no effect: hpcdist sets it for each task", path)
    name = job.gpus.variable
    has_gpus = job.launch.mode == "tasks" and any(group.gpus for group in job.placement.groups)
    if has_gpus and name in experiment.environment.env_vars:
        path = ("environment", "env_vars", name)
        hint = "ask for as many GPUs as the program uses by `environment.resources.gpu`"
        yield Problem(f"{name} has no effect: hpcdist sets it for each task", path, hint, "warning")
    yield from dict.fromkeys(found for kind in kinds for found in _selectors(kind, site))
    groups = [*_groups_of(kinds, job)]
    yield from dict.fromkeys(_unlisted_partitions(groups, site, experiment))
    yield from dict.fromkeys(_few_cpus(groups, site))
    yield from about_qos(experiment.batch.qos, site, job)
    if job.request.qos not in site.qos:
        yield from dict.fromkeys(_limits_of_another_qos(groups, site, job))
    yield from (found for replica, group in groups for found in gpu_type_advice(replica, group, site))
    yield from dict.fromkeys(found for kind in groups for found in gpus.advice(*kind, site, job))
    yield from dict.fromkeys(_memory(groups, site, job))


def _selectors(replica: Replica, site: Site) -> Iterator[Problem]:
    for key, value in replica.node_selector:
        is_read = key in ("partition", "constraint", KEY, gpu_label_of(replica, site)[0])
        if not is_read and value not in site.node_selectors.get(key, {}):
            known = f"; known: {', '.join(site.node_selectors[key])}" if key in site.node_selectors else ""
            what = f"the node selector {key}: {value} has no meaning on site {site.name} and is not used"
            yield warning(f"{what}{known}", (*replica.selector_path, key))


def _unlisted_partitions(
    groups: Sequence[tuple[Replica, Group]], site: Site, experiment: Experiment
) -> Iterator[Problem]:
    """Yield a warning for each partition that the site file lacks; the user may know better."""
    for replica, group in groups:
        name = group.site_partition
        if name and site.partitions and name not in site.partitions:
            own = "partition" in dict(replica.node_selector)
            path = (*replica.selector_path, "partition") if own else ("batch", "partition")
            message = f"the file of site {site.name} has no partition {name!r}, and {site.scheduler} decides"
            if group.node_type:
                message += f"; its nodes are taken to be {group.node_type}, of which all others are"
            elif group.nodes > 1 and not NodeCounts.of(experiment).paths:
                message += "; how large its nodes are is not known, so each replica gets one (`batch.nodes`)"
            yield Problem(message, path, did_you_mean(name, site.partitions), "warning")


def _few_cpus(groups: Sequence[tuple[Replica, Group]], site: Site) -> Iterator[Problem]:
    """Yield a warning for each replica with GPUs that has one CPU a task because no number is set."""
    for replica, group in groups:
        is_known = group.node_type or group.site_partition in site.partitions
        if replica.gpus and not (is_known or replica.cpus or site.replica.cpus):
            message = f"{replica.name} gets one CPU a task: how many its nodes have is not known"
            yield Problem(message, (*replica.path, "gpu"), "write `cpu: {requests: N}`", "warning")


def _limits_of_another_qos(
    groups: Sequence[tuple[Replica, Group]], site: Site, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning for what a job exceeds of its partition by a QOS that the partition does not name."""
    qos, walltime = job.request.qos, job.request.walltime
    for _, group in groups:
        partition = site.partitions.get(group.site_partition or "")
        if partition is None or qos == partition.qos:
            continue
        unknown = f"whether {qos} allows more is not known"
        limit, most = partition.walltime_of(group.nodes), partition.max_nodes
        if limit and walltime and walltime > limit:
            known = f"partition {group.site_partition} allows {limit}, {walltime} requested"
            yield warning(f"{known}; {unknown}", ("batch", "walltime"))
        if most and group.nodes > most:
            known = f"partition {group.site_partition} gives a job {most} nodes, {group.nodes} are needed"
            yield warning(f"{known}; {unknown}", ("batch", "qos"))


def _memory(groups: Sequence[tuple[Replica, Group]], site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning for each memory request that the batch system does not get.

    Whole nodes of known memory need no request.
    """
    for replica, group in groups:
        counted = replica.all_memory or _is_counted(group, site)
        lacks = group.memory is None and not (group.all_memory and site.scheduler == "slurm")
        if (replica.memory or replica.all_memory) and lacks and not (job.request.exclusive and counted):
            silent = [other for other, own in groups if own == group and replica.memory and not other.memory]
            if silent and memory_in(site, group.site_partition)[0]:
                yield _of_some(silent[0])
            else:
                why = _without_memory(site, group)
                yield warning(f"memory is not requested: {why}", (*replica.path, "memory"))


def _of_some(silent: Replica) -> Problem:
    """Return the warning where the share of a replica without a request is unknown."""
    why = f"{silent.name} asks for none, and how much a node has is not known"
    message = f"memory is not requested: {why}; a job gets the default of its partition"
    return Problem(message, silent.path or REPLICAS, "write it for all replicas", "warning")


def _groups_of(kinds: Sequence[Replica], job: PreparedJob) -> Iterator[tuple[Replica, Group]]:
    """Yield each replica with its group of nodes.

    Of the replicas that one torchrun starts on a node only the first has a row.
    """
    groups, rows = job.placement.groups, defaultdict[str, list[Row]](list)
    for row in job.placement.rows:
        rows[row.role].append(row)
    for replica in kinds:
        later = bisect_right(rows[replica.role], replica.index, key=lambda row: row.index)
        node = rows[replica.role][later - 1].node if later else 0
        yield replica, groups[bisect_right(groups, node, key=lambda group: group.node) - 1]


def _is_counted(group: Group, site: Site) -> bool:
    """Whether it is known how much memory these nodes have, so that tasks are placed by it."""
    nodes = site.partitions[group.site_partition].nodes if group.site_partition in site.partitions else ()
    kinds = [site.node_types[kind] for kind in ([group.node_type] if group.node_type else nodes)]
    return any(kind.memory or kind.job_memory for kind in kinds)


def _without_memory(site: Site, group: Group) -> str:
    if group.all_memory:
        return f"{site.scheduler} takes a number, and how much a node has is not known; write the amount"
    return why_no_memory(site, group)


def _about_the_image(experiment: Experiment, job: PreparedJob) -> Iterator[Problem]:
    container = job.container
    if experiment.build and experiment.build.image and container is None:
        yield warning(
            f"the image {experiment.build.image} is not used (--no-container): the program runs with what "
            "the site's `modules` and `setup` give"
        )
    starter = container_choice.starter(job)
    if container and starter and not (starter.in_workdir or container.workdir):
        message = (
            f"{container.runtime} starts the image's entrypoint in the submit directory, not in the image's "
            "WORKDIR; if it needs that, write it as `run.workdir`"
        )
        yield warning(message, ("run", "entrypoint"))
    asked = [f"`{name}`" for name in ("modules", "spack_env") if getattr(experiment.batch, name)]
    if container and asked:
        yield warning(
            f"what {' and '.join(asked)} give is outside of the container: the program sees what is in "
            f"{container.image}; give --no-container to run with them"
        )


def _about_the_site(experiment: Experiment, site: Site, job: PreparedJob) -> Iterator[Problem]:
    if not site.partitions and job.placement.nodes > 1 and not NodeCounts.of(experiment).paths:
        yield warning(
            f"site {site.name} does not say how large its nodes are: each replica gets a node of its own; "
            "write `batch: {nodes: N}`, or a site file of your own (docs/how-to/add-a-site.md)"
        )
    scheduler = schedulers.get(site.scheduler)
    yield from scheduler.advice(job, site)
    if site.status == "unverified" and folding.lacks_gpu_assignment(job) and _has_part_of_a_node(job, site):
        yield warning(
            f"other jobs may be on the same nodes, and {site.scheduler} sets for no job which GPUs are "
            f"its own: tasks fail where {job.gpus.variable} is not set; ask for all GPUs of a node, or for "
            "whole nodes by `batch: {exclusive: true}`"
        )
    if job.request.walltime is None and scheduler.is_batch_system:
        yield warning(
            "no walltime is requested, so the partition's default applies; write `batch: {walltime: 2h}`"
        )
    persistence = experiment.environment.persistence
    for name in (persistence.data if persistence else ()) + experiment.environment.data_refs:
        if name not in site.volumes:
            yield warning(
                f"site {site.name} has no volume {name!r}; a site file gives its path under `volumes`"
            )


def _array_size(site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning where the batch system refuses the array unless the site has raised its limit."""
    scheduler = schedulers.get(site.scheduler)
    if job.request.array is None or job.sweep or scheduler.array_limit is None:
        return
    largest, (most, setting) = job.request.array.largest, scheduler.array_limit
    if largest > most:
        yield warning(
            f"{scheduler.name} takes indices up to {most}, unless the site has raised {setting}; "
            f"{largest} may be refused",
            ("batch", "array"),
        )


def _has_part_of_a_node(job: PreparedJob, site: Site) -> bool:
    """Whether the job has some, and as far as is known not all, of a node's GPUs."""
    for group in job.placement.groups:
        node = site.node_types.get(group.node_type or "")
        if group.gpus and not (node and node.gpus == group.gpus):
            return True
    return False


def _about_a_replica(replica: Replica) -> Iterator[Problem]:
    if replica.cpus and replica.cpus > replica.tasks and replica.cpus % replica.tasks:
        each, idle = divmod(replica.cpus, replica.tasks)
        yield warning(
            f"the {replica.cpus} CPUs of {replica.name} are {each} for each of its {replica.tasks} tasks: "
            f"{replica.cpus - idle} are requested"
        )
