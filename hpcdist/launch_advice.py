"""Advice on a user's own launch: what does not fit the plan's nodes and tasks, and the line that does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from hpcdist.launch import MPI, UNSEEN, UserLaunch
from hpcdist.launch_hosts import hosts_in, is_local
from hpcdist.launch_options import Option
from hpcdist.launch_problems import hostfile_option
from hpcdist.plan import Plan
from hpcdist.site import Site

_STARTS_ALONE: Final = frozenset({"deepspeed", "colossalai run"})
"""Launchers that train on the first node alone, and end well, where nothing names their hosts."""
_NEEDS_HOSTS: Final = frozenset({"horovodrun", "mpirun_rsh", *_STARTS_ALONE})
_TELLS: Final = frozenset({"deepspeed", "colossalai run"})
"""Launchers that tell the processes their place as PyTorch's ``env://`` does
(https://github.com/deepspeedai/DeepSpeed, deepspeed/launcher/launch.py)."""
_WITHOUT_SUPPORT: Final = {"pbs": "PBS", "sge": "Grid Engine", "lsf": "LSF", "flux": "Flux"}
"""Schedulers whose nodes an Open MPI finds only where it was built with their library."""
_OWN_NODE: Final = re.compile(r"\$\(\s*(?:\S*/)?hostname\b|`\s*(?:\S*/)?hostname\b|\$\{?HOSTNAME\b")
_SPOKEN: Final = re.compile(
    r"\bPET_(?:(?P<nodes>NNODES)|(?P<rank>NODE_RANK)|(?P<address>MASTER_ADDR)|(?P<endpoint>RDZV_ENDPOINT)"
    r"|(?P<alone>STANDALONE)|(?P<per_node>NPROC_PER_NODE))\b"
)
"""Options of torchrun that are said by variables."""
_MEETING: Final = {
    "torchrun": ("--nnodes={n}", '--node_rank="$HPCDIST_NODE"', '--master_addr="$HPCDIST_HEAD_ADDRESS"',
                 '--master_port="$HPCDIST_PORT"'),
    "accelerate launch": ("--num_machines={n}", '--machine_rank="$HPCDIST_NODE"',
                          '--main_process_ip="$HPCDIST_HEAD_ADDRESS"', '--main_process_port="$HPCDIST_PORT"'),
    "fabric run": ("--num-nodes={n}", '--node-rank="$HPCDIST_NODE"', '--main-address="$HPCDIST_HEAD_ADDRESS"',
                   '--main-port="$HPCDIST_PORT"'),
    "msrun": ('--node_rank="$HPCDIST_NODE"', '--master_addr="$HPCDIST_HEAD_ADDRESS"',
              '--master_port="$HPCDIST_PORT"'),
    "composer": ('--node_rank="$HPCDIST_NODE"', '--master_addr="$HPCDIST_HEAD_ADDRESS"',
                 '--master_port="$HPCDIST_PORT"'),
    "paddle.distributed.launch": ("--nnodes={n}", '--rank="$HPCDIST_NODE"',
                                  '--master="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"'),
    "deepspeed": ('--hostfile "$HPCDIST_HOSTFILE"', '--node_rank="$HPCDIST_NODE"',
                  '--master_addr="$HPCDIST_HEAD_ADDRESS"', '--master_port="$HPCDIST_PORT"'),
}  # fmt: skip
"""How each launcher that runs on every node is told their number, its own, and where they meet."""
_MEETING_KINDS: Final = ("nodes", "rank", "address", "port", "endpoint", "alone", "hosts")
_NEEDED: Final = {
    "msrun": ("np", "address"),
    "composer": ("np", "rank", "address"),
    "paddle.distributed.launch": ("endpoint",),
    "deepspeed": ("hostfile", "rank", "address"),
}
"""What a launcher must be told to meet others, where it is not the usual three."""
_WORDS: Final = {
    "nodes": "how many nodes there are",
    "np": "how many processes there are in all",
    "rank": "on which of them it is",
    "address": "where they meet",
    "endpoint": "where they meet",
    "hostfile": "which they are",
}
_BY_HPCDIST: Final = {
    "torchrun": "`pytorch: {launch: torchrun}`",
    "accelerate launch": "`framework: accelerate`",
    "fabric run": "`framework: lightning`",
}
"""What lets hpcdist do it instead, with the script alone as the command."""


_ALL: Final = {"msrun": "--worker_num", "composer": "--world_size"}
_EACH: Final = {"fabric run": "--devices"}


class Mended(NamedTuple):
    """Why a line does not do, and what mends it: options to add, to leave out, and to write instead."""

    why: str
    add: tuple[str, ...]
    without: tuple[Option, ...]
    instead: Mapping[int, str] = MappingProxyType({})


def advice(plan: Plan, site: Site, launch: UserLaunch | None) -> Iterator[str]:
    """Yield what of a user's own launch does not fit the plan."""
    if launch is None:
        return
    yield from _about_its_tasks(plan, launch)
    if launch.runs == "per_node":
        yield from _about_every_node(plan, launch)
    else:
        yield from _about_the_whole(plan, site, launch)


def _about_its_tasks(plan: Plan, launch: UserLaunch) -> Iterator[str]:
    told = [variable.name for variable in plan.task_variables if variable.name in plan.told]
    if launch == UNSEEN:
        yield (
            "`backend: mpi` leaves the start of all tasks to the command, and this is no mpirun: it runs "
            "once; remove `backend` if hpcdist is to start them"
        )
    if launch.runs == "once" and launch.program not in _TELLS and told:
        yield (
            f"the tasks that the command starts are not told {', '.join(told)}; let the command be the "
            "program itself, and hpcdist starts it"
        )


# --- Launchers that run on every node


def _about_every_node(plan: Plan, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with a launch on every node, with the line in which all of it is right."""
    said = _said(plan, launch)
    mended = [*_meeting(plan, launch, said), *_processes(plan, launch, said)]
    if mended:
        add = [text for item in mended for text in item.add]
        line = launch.line(*add, without=[option for item in mended for option in item.without])
        yield f"{'; '.join(item.why for item in mended)}; write `{line}`{_instead(launch)}"


def _meeting(plan: Plan, launch: UserLaunch, said: Mapping[str, str]) -> Iterator[Mended]:
    """Yield what a launch must say where its nodes do not become one training."""
    size = plan.placement.size
    if size > 1 and (why := _why_apart(launch, said, size)):
        add = [text.format(n=size) for text in _MEETING.get(launch.program, _MEETING["torchrun"])]
        if launch.program in _ALL and "np" not in said:
            total = sum(row.tasks * max(row.gpus, 1) for row in plan.placement.rows)
            add.append(f"{_ALL[launch.program]}={total}")
        theirs = (option for option in launch.options if option.name.startswith("rdzv-"))
        where = f"{launch.program} runs on each of the {size} nodes, and {why}"
        apart = "they train apart, or wait for each other"
        yield Mended(f"{where}: {apart}", tuple(add), (*launch.says(*_MEETING_KINDS), *theirs))


def _instead(launch: UserLaunch) -> str:
    by = _BY_HPCDIST.get("torchrun" if launch.is_torch else launch.program)
    return f", or the script alone with {by}, and hpcdist starts it" if by else ""


def _said(plan: Plan, launch: UserLaunch) -> dict[str, str]:
    """Return what a launch is told, by kind: by its options, or by variables of torchrun."""
    found = {option.kind: option.value for option in launch.options if option.kind}
    if launch.is_torch:
        texts = [plan.command, *(variable.name for variable in plan.variables)]
        for match in (match for text in texts for match in _SPOKEN.finditer(text)):
            found.setdefault(match.lastgroup or "", "$")
    return found


def _why_apart(launch: UserLaunch, said: Mapping[str, str], size: int) -> str:
    """Return why each node would be alone, nothing where they meet."""
    if "alone" in said:
        return "`--standalone` makes each a training of its own"
    needed = _NEEDED.get(launch.program, ("nodes", "rank", "address"))
    if "endpoint" in said:
        needed = ("nodes",) if "nodes" in needed else ("endpoint",)
    missing = [_WORDS[kind] for kind in needed if kind not in said]
    if missing:
        first = ", ".join(missing[:-1])
        return f"the line does not say {f'{first} or ' * bool(first)}{missing[-1]}"
    if said.get("rank", "$").isdecimal():
        return f"each is told that it is number {said['rank']}"
    if not _has(said.get("nodes", "$"), size):
        return f"the line says that there are {said['nodes']}"
    where = [host for kind in ("address", "endpoint") for host in hosts_in(kind, said.get(kind, ""))]
    own = [host for host in where if is_local(host) or _OWN_NODE.match(host)]
    return f"{own[0]} is another machine on each" if own else ""


def _has(nodes: str, size: int) -> bool:
    """Whether a number of nodes, or a range of them (``1:4``), is this one; what bash makes may be."""
    bounds = nodes.split(":")
    return not all(map(str.isdecimal, bounds)) or int(bounds[0]) <= size <= int(bounds[-1])


def _processes(plan: Plan, launch: UserLaunch, said: Mapping[str, str]) -> Iterator[Mended]:
    """Yield what a launch must say where a node has other GPUs than it starts processes for."""
    gpus = {row.gpus for row in plan.placement.rows}
    number = gpus.pop() if len(gpus) == 1 else 0
    usual = "1" if launch.is_torch or launch.program == "fabric run" else ""
    each, total = said.get("per_node", usual), said.get("np", "")
    kind, least = ("per_node", each) if each.isdecimal() else ("np", total)
    most = number * (plan.placement.size if kind == "np" else 1)
    if number and least.isdecimal() and int(least) != most:
        theirs = launch.says(kind)
        name = launch.written(theirs[0]) if theirs else _EACH.get(launch.program, "--nproc_per_node")
        where = "on each node, where it has" if kind == "per_node" else "in all, and the job has"
        yield Mended(f"{_starts(launch, least)} {where} {_gpus(most)}", (f"{name}={most}",), theirs)


def _starts(launch: UserLaunch, number: str) -> str:
    return f"{launch.program} starts {number} process{'es' * (number != '1')}"


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' * (number != 1)}"


# --- Launchers that run once


def _about_the_whole(plan: Plan, site: Site, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with a launch of the whole job, with the line in which all of it is right."""
    over_nodes = [*_hosts(plan, site, launch), *_nodes(plan, launch)] if plan.placement.nodes > 1 else []
    counted = [*_counts(plan, launch)]
    if mended := [*over_nodes, *counted]:
        line = launch.line(
            *(text for item in mended for text in item.add),
            without=[option for item in mended for option in item.without],
            instead={at: text for item in mended for at, text in item.instead.items()},
        )
        other = f", or {_instead_of_a_count(plan, launch)}" if counted else ""
        yield f"{'; '.join(item.why for item in mended)}; write `{line}`{other}"


def _instead_of_a_count(plan: Plan, launch: UserLaunch) -> str:
    """Return what makes room for as many processes as a launch starts."""
    if plan.framework is None and launch.tasks == sum(row.gpus * row.tasks for row in plan.placement.rows):
        framework = "horovod" if launch.program == "horovodrun" else "mpi"
        return f"`framework: {framework}`, under which each GPU has a process"
    return "ask for other `environment.replicas`"


def _hosts(plan: Plan, site: Site, launch: UserLaunch) -> Iterator[Mended]:
    """Yield what a launch must say where it stays on the first node."""
    named = [option for option in launch.says("hosts", "hostfile", "discovery", "include") if option.value]
    if not named and (why := _why_on_the_first(plan, site, launch)):
        yield Mended(why, (hostfile_option(launch),), launch.says("hosts", "hostfile"))
    alone = [host for option in named if option.kind in ("hosts", "include")
             for host in hosts_in(option.kind, option.value)]  # fmt: skip
    if alone and all(is_local(host) or _OWN_NODE.match(host) for host in alone):
        where = f"{alone[0]}, the first of {plan.placement.nodes} nodes, and the others stay idle"
        instead = {named[0].start: hostfile_option(launch)}
        yield Mended(f"{launch.program} starts everything on {where}", (), tuple(named), instead)


def _nodes(plan: Plan, launch: UserLaunch) -> Iterator[Mended]:
    """Yield what a launch must say that names another number of nodes."""
    for option in launch.says("nodes"):
        if not _has(option.value, plan.placement.nodes):
            number = f"{option.value} node{'s' * (option.value != '1')}"
            why = f"{launch.program} uses {number}, and the job has {plan.placement.nodes}"
            yield _with(launch, option, str(plan.placement.nodes), why)


def _counts(plan: Plan, launch: UserLaunch) -> Iterator[Mended]:
    """Yield what a launch must say where it starts other processes than the job has room for."""
    size = plan.placement.size
    runs = list(plan.placement.tasks_per_node())
    if launch.tasks is not None and launch.tasks != size:
        why = f"{_starts(launch, str(launch.tasks))}, and the job is for {size}"
        yield _with(launch, launch.says("np")[0], str(size), why)
        return
    for option in launch.says("per_node", "map"):
        ppr = re.fullmatch(r"(ppr:)?(\d+)(:node.*)?", option.value)
        if ppr and bool(ppr[1]) == (option.kind == "map") and len(runs) == 1 and int(ppr[2]) != runs[0][1]:
            why = f"{_starts(launch, ppr[2])} on each node, where the job is for {runs[0][1]}"
            yield _with(launch, option, f"{ppr[1] or ''}{runs[0][1]}{ppr[3] or ''}", why)


def _with(launch: UserLaunch, option: Option, value: str, why: str) -> Mended:
    """Return a line with another value for an option, which may be glued to its name (`-n4`, `--np=4`)."""
    name, equals, _ = launch.words[launch.head + option.start].partition("=")
    glued = option.end == option.start + 1 and not equals
    name = name.removesuffix(option.value) if glued else name
    return Mended(why, (), (option,), {option.start: f"{name}{equals or ' '}{value}"})


def _why_on_the_first(plan: Plan, site: Site, launch: UserLaunch) -> str:
    """Return why a launch without hosts stays on the first node, nothing where it finds the others."""
    nodes, program = plan.placement.nodes, launch.program
    if program in _STARTS_ALONE:
        return f"{program} without a list of hosts trains on the first of {nodes} nodes alone, and ends well"
    if program in _NEEDS_HOSTS:
        return f"{program} without a list of hosts knows the first of {nodes} nodes alone"
    is_open_mpi = program in MPI and program != "mpiexec.hydra" and _is_open_mpi(site)
    if not is_open_mpi or plan.scheduler not in _WITHOUT_SUPPORT:
        return ""
    name = _WITHOUT_SUPPORT[plan.scheduler]
    return f"an Open MPI that was built without {name} starts all processes on the first of {nodes} nodes"


def _is_open_mpi(site: Site) -> bool:
    """Whether the site's mpirun may be Open MPI's; the others find the nodes of every scheduler."""
    others = ("pals", "hydra", "ibrun", "jsrun")
    return site.launcher not in others and site.options("mpirun").flavour in (None, "openmpi")
