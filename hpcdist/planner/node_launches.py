"""Launch lines that run on every node (torchrun): whether the nodes connect, and the corrected line."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from hpcdist.experiment.launch_line import UserLaunch, launches, missing_ports, no_port, user_launch
from hpcdist.experiment.launch_options import (
    IF_TOLD,
    MPI_LAUNCHERS,
    TORCH_LAUNCHERS,
    VARIABLES,
    Option,
    by_kind,
    hosts_in,
)
from hpcdist.experiment.shell_words import ASSIGNMENT, assignments, simple_commands, unquoted
from hpcdist.plan.model import PreparedJob
from hpcdist.planner.line_values import WHOLE, about_gpus, is_own, value_in_job, why_empty, why_unequal

_RENDEZVOUS: Final = {
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
    "axolotl train": ("--nnodes={n}", "--nproc_per_node=gpu", '--node_rank="$HPCDIST_NODE"',
                      '--master_addr="$HPCDIST_HEAD_ADDRESS"', '--master_port="$HPCDIST_PORT"',
                      "-m axolotl.cli.train"),
}  # fmt: skip
"""The options of each per-node launcher for the number of nodes, the node rank and the rendezvous."""
_RENDEZVOUS_KINDS: Final = ("nodes", "rank", "address", "port", "endpoint", "alone", "hosts")
_NEEDED: Final = {
    "msrun": ("np", "address"),
    "composer": ("np", "rank", "address"),
    "paddle.distributed.launch": ("endpoint",),
    "deepspeed": ("hostfile", "rank", "address"),
}
"""The options that a launcher needs for a rendezvous, where these are not the usual three."""
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
"""The keys with which hpcdist starts the processes itself, with the script alone as the command."""


_SEPARATE: Final = "each node trains on its own, or all wait at the rendezvous"
_VALUES: Final = by_kind(**{"{n}": "nodes", '"$HPCDIST_NODE"': "rank", '"$HPCDIST_HEAD_ADDRESS"': "address",
                            '"$HPCDIST_PORT"': "port"})  # fmt: skip
_ALL: Final = {"msrun": "--worker_num", "composer": "--world_size", "accelerate launch": "--num_processes"}
_EACH: Final = {"fabric run": "--devices", "composer": "--nproc"}
_ONE: Final = ("fabric run", *TORCH_LAUNCHERS, *IF_TOLD)
"""Launchers that start one process on a node where nothing says how many."""


class Correction(NamedTuple):
    """Why a line is wrong, and its correction: options to add, to remove, and to replace."""

    reason: str
    add: tuple[str, ...]
    without: tuple[Option, ...]
    instead: Mapping[int, str] = MappingProxyType({})


def corrected(launch: UserLaunch, corrections: Sequence[Correction]) -> str:
    """Return why a line is wrong, and the corrected line."""
    add = [*dict.fromkeys(text for item in corrections for text in item.add)]
    in_front = [text for text in add if re.match(r"[A-Z_]+=", text)]
    names = {text.partition("=")[0] for text in in_front}
    kept = tuple(word for word in launch.before if word.partition("=")[0] not in names)
    line = launch._replace(before=kept).line(
        *(text for text in add if text not in in_front),
        without=[option for item in corrections for option in item.without],
        instead={at: text for item in corrections for at, text in item.instead.items()},
    )
    line = line.replace("axolotl train", "torchrun", 1) if launch.program == "axolotl train" else line
    return f"{'; '.join(item.reason for item in corrections)}; write `{' '.join([*in_front, line])}`"


def advice_for_all(job: PreparedJob, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with the launches on every node; of a command with conditions, with this one."""
    found = [launch]
    if not _CONDITIONS.search(job.identity.command):
        env = {item.name: item.value for item in job.environment.variables if not item.shell}
        others = [one for one in launches(job.identity.command, env) if one.runs == "per_node"]
        own = (launch.before, launch.words)
        found += [one for one in others if (one.before, one.words) != own and not one.options_of("alone")]
    for one in found:
        yield from advice(job, one)


_CONDITIONS: Final = re.compile(r"(?m)^\s*(?:if|case)\b|;\s*(?:if|case)\b|\[\s|\|\|")


def advice(job: PreparedJob, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with a launch on every node, with the corrected line."""
    settings = _settings(job, launch)
    if corrections := [*_rendezvous(job, launch, settings), *_processes(job, launch, settings)]:
        yield f"{corrected(launch, corrections)}{_instead(launch)}"


def other_framework(job: PreparedJob, launch: UserLaunch) -> str:
    """Return what to write where a launcher of MPI starts processes under another framework."""
    framework = "horovod" if launch.program == "horovodrun" else "mpi"
    is_mpi = launch.program in ("horovodrun", *MPI_LAUNCHERS)
    is_launcher = launch.starts is not None and launch.starts.runs == "per_node"
    if not is_mpi or is_launcher or job.identity.framework in (None, "mpi", "horovod"):
        return ""
    return (
        f"{launch.program} starts the processes, and not `framework: {job.identity.framework}`; write "
        f"`framework: {framework}`, or the program alone"
    )


def about_ray(job: PreparedJob) -> Iterator[str]:
    """Yield a warning where each task would start its own cluster of Ray."""
    size, command = job.placement.size, job.identity.command
    if size == 1 or job.identity.framework == "ray" or _CONDITIONS.search(command):
        return
    for simple in simple_commands(command):
        if [unquoted(word) for word in simple.words[:2]] == ["ray", "start"] and "--head" in simple.words:
            yield (
                f"each of the {size} tasks runs `ray start --head`, and so has its own cluster; "
                "write `framework: ray` and the program alone, and hpcdist starts Ray on all nodes"
            )
            return


def within(job: PreparedJob, launch: UserLaunch) -> Iterator[str]:
    """Yield what is wrong with a launch that another launcher starts on every node (`srun torchrun ...`)."""
    inner, nodes = launch.starts, job.placement.nodes
    if not (inner and inner.runs == "per_node" and nodes > 1) or inner.is_open:
        return
    settings = _expanded_before(launch, _settings(job, inner))
    corrections = [*_processes(job, inner, settings, of_node=True)]
    if why := _why_separate(job, inner, settings, nodes, early=_is_early(launch)):
        where = f"{launch.program} starts {inner.program} on {nodes} nodes, and {why}: {_SEPARATE}"
        corrections.insert(0, Correction(where, _options(job, inner, nodes), _rendezvous_options(inner)))
    if corrections:
        yield f"{corrected(inner, corrections)}, which hpcdist starts on each{_instead(inner)}"


def _expanded_before(launch: UserLaunch, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with what the first node expands in double quotes as one place for all nodes."""
    quoted = [word for word in launch.words if word[:1] == '"']

    def neutral(match: re.Match[str]) -> str:
        early = any(re.search(rf"(?<!\\){re.escape(match[0])}", word) for word in quoted)
        return "$HPCDIST_HEAD_ADDRESS" if early else match[0]

    meets = ("address", "endpoint", "port", "id")
    return {kind: WHOLE.sub(neutral, value) if kind in meets else value for kind, value in settings.items()}


def _is_early(launch: UserLaunch) -> bool:
    """Whether the first node expands what a launch starts, and not each task (`bash -c '...'`)."""
    words = launch.words[launch.head + launch.end :]
    inner = launch.starts.words[0] if launch.starts else ""
    is_late = any(word[:1] == "'" or "\\$" in word for word in words)
    return not is_late and any(inner in word for word in words)


def separate(job: PreparedJob, launch: UserLaunch, text: str) -> str:
    """Return why the tasks that each run this launch of a script would train separately, and what to write.

    Empty where they connect, or where a variable may say so.
    """
    why = _why_separate(job, launch, _settings(job, launch, text), job.placement.size)
    if launch.is_open or not why:
        return ""
    return f"{why}: {_SEPARATE}; write the launch as `run.cmd`, which runs once a replica{_instead(launch)}"


def _rendezvous(job: PreparedJob, launch: UserLaunch, settings: Mapping[str, str]) -> Iterator[Correction]:
    """Yield the missing options where each node would train separately."""
    size = job.placement.size
    if size > 1 and not launch.is_open and (why := _why_separate(job, launch, settings, size)):
        where = f"{launch.program} runs on each of the {size} nodes, and {why}"
        yield Correction(f"{where}: {_SEPARATE}", _options(job, launch, size), _rendezvous_options(launch))


def _options(job: PreparedJob, launch: UserLaunch, nodes: int) -> tuple[str, ...]:
    """Return the options by which a launch connects to those on the other nodes."""
    variables = VARIABLES.get(launch.program, {}) if launch.program not in _RENDEZVOUS else {}
    own = tuple(f"{name}={_VALUES[kind]}" for name, kind in variables.items() if kind in _VALUES)
    usual = _RENDEZVOUS["torchrun"] if launch.is_torch else own
    add = [text.format(n=nodes) for text in _RENDEZVOUS.get(launch.program, usual)]
    if launch.program in _ALL and not launch.options_of("np"):
        total = sum(row.tasks * max(row.gpus, 1) for row in job.placement.rows)
        add.append(f"{_ALL[launch.program]}={total}")
    if launch.program == "composer" and not launch.options_of("per_node"):
        add.append(f"--nproc={max(max(row.gpus, 1) for row in job.placement.rows)}")
    return tuple(add)


def _rendezvous_options(launch: UserLaunch) -> tuple[Option, ...]:
    """Return the rendezvous options of a launch, which those for the job replace."""
    rendezvous = (option for option in launch.options if option.name.startswith("rdzv-"))
    return (*launch.options_of(*_RENDEZVOUS_KINDS), *rendezvous)


def _instead(launch: UserLaunch) -> str:
    by = _BY_HPCDIST.get("torchrun" if launch.is_torch else launch.program)
    return f", or the script alone with {by}, and hpcdist starts it" if by else ""


def _settings(job: PreparedJob, launch: UserLaunch, script: str = "") -> dict[str, str]:
    """Return the settings of a launch by kind, from its options or its variables."""
    found = {option.kind: option.value for option in launch.options if option.kind}
    if names := VARIABLES.get(launch.program):
        commands = (one for text in (job.identity.command, script) for one in simple_commands(text))
        own = [(match[1], unquoted(match[2])) for match in map(ASSIGNMENT.fullmatch, launch.before) if match]
        own += [pair for one in commands for pair in assignments(one) if pair not in own]
        own += [(one.name, "$" if one.shell else one.value) for one in job.environment.variables]
        for name, value in own:
            if name in names:
                found.setdefault(names[name], value)
    return found


def _why_separate(
    job: PreparedJob, launch: UserLaunch, settings: Mapping[str, str], size: int, *, early: bool = False
) -> str:
    """Return why each node would train separately, empty where the nodes connect.

    ``early``: the first node expands the line, once for all.
    """
    if "alone" in settings:
        return "`--standalone` makes each a training of its own"
    needed = _NEEDED.get(launch.program, ("nodes", "rank", "address"))
    numbers = settings.get("backend", "static") != "static"  # itself: torchrun ignores --node_rank then
    if numbers or "endpoint" in settings:
        own = ("nodes",) if numbers else ("nodes", "rank")
        meets = "endpoint" if "nodes" not in needed or launch.is_torch else "address"
        needed = (*(kind for kind in own if kind in needed), meets)
    missing = [_WORDS[kind] for kind in needed if kind not in settings]
    if missing:
        first = ", ".join(missing[:-1])
        return f"the line does not say {f'{first} or ' * bool(first)}{missing[-1]}"
    texts = ("$" if numbers else settings.get("rank", "$"), settings.get("nodes", "$"))
    rank, nodes = (value_in_job(job, text, early=early) for text in texts)
    if rank.isdecimal():
        return f"each is given the number {rank}"
    if not has(nodes, size):
        return f"the line says --nnodes={nodes}"
    return why_empty(job, f"{rank} {nodes}") or _why_elsewhere(job, settings, early=early)


def _why_elsewhere(job: PreparedJob, settings: Mapping[str, str], *, early: bool) -> str:
    """Return why the nodes would not meet at one address, port and id, empty where they do."""
    where = [host for kind in ("address", "endpoint") for host in hosts_in(kind, settings.get(kind, ""))]
    own = [host for host in where if is_own(host)]
    if own and not early:
        return f"{own[0]} is another machine on each"
    shared = (settings.get(kind, "") for kind in ("address", "endpoint", "port", "id"))
    return next(filter(None, (why_unequal(job, text, early=early) for text in shared)), "")


def has(nodes: str, size: int) -> bool:
    """Whether this is the number of nodes, or a range with it (``1:4``), or may be (a bash expression)."""
    bounds = nodes.split(":")
    return not all(map(str.isdecimal, bounds)) or int(bounds[0]) <= size <= int(bounds[-1])


def _processes(
    job: PreparedJob, launch: UserLaunch, settings: Mapping[str, str], *, of_node: bool = False
) -> Iterator[Correction]:
    """Yield the corrected option where a launch starts another number of processes than it has GPUs.

    ``of_node``: it has all GPUs of its node, not one task's alone.
    """
    owners = job.placement.groups if of_node else job.placement.rows
    gpus = {owner.gpus for owner in owners}
    number = gpus.pop() if len(gpus) == 1 else 0
    own = {item.name for item in (*job.environment.variables, *job.environment.task_variables)}
    is_one = launch.program in _ONE or (launch.program == "composer" and "LOCAL_WORLD_SIZE" in own)
    usual = "1" if is_one and not launch.is_open else ""
    each, total = (
        value_in_job(job, text) for text in (settings.get("per_node", usual), settings.get("np", ""))
    )
    if (
        launch.program == "accelerate launch"
        and "nodes" in settings
        and not (total or launch.is_open or any(option.name == "config-file" for option in launch.options))
    ):
        total = str(number)  # of all nodes together: accelerate counts the GPUs of this one
    empty = why_empty(job, each)
    kind, least = ("per_node", each) if each.isdecimal() or empty else ("np", total)
    most = number * (job.placement.size if kind == "np" else 1)
    if number and (empty or (least.isdecimal() and int(least) != most)):
        theirs = launch.options_of(kind)
        by_variable = "NPROC_PER_NODE" in VARIABLES.get(launch.program, {})
        usual = "NPROC_PER_NODE" if by_variable else "--nproc_per_node"
        names = _ALL if kind == "np" else _EACH
        name = launch.written(theirs[0]) if theirs else names.get(launch.program, usual)
        where = "on each node, where it has" if kind == "per_node" else "in all, and the job has"
        reason = empty or f"{starts(launch, least)} {where} {_gpus(most)}"
        yield Correction(reason, (f"{name}={most}",), theirs)


def starts(launch: UserLaunch, number: str) -> str:
    """Return in words how many processes a launch starts."""
    return f"{launch.program} starts {number} process{'es' * (number != '1')}"


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' * (number != 1)}"


# --- Warnings about the script that a command runs: libraries without rank variables, and launches

MOST: Final = 1 << 18
"""How many bytes of a script are read; imports stand at its head."""


class _Library(NamedTuple):
    """A Python library that trains alone without rank variables: who sets them, and what to write.

    ``told``: the frameworks that set them. ``trains``: matches a script that trains with it.
    """

    framework: str
    told: frozenset[str]
    trains: re.Pattern[str] = re.compile("")


_BY_TORCH: Final = frozenset({"accelerate", "pytorch", "deepspeed"})
_LIGHTNING: Final = _Library("lightning", frozenset({"lightning"}))
_TRAINER: Final = r"\w*Train(?:er|ingArguments)\b"
_OF_TRANSFORMERS: Final = re.compile(
    rf"from\s+transformers[\w.]*\s+import\s+(?:\([^)]*|[^\n]*)\b{_TRAINER}|\btransformers\.{_TRAINER}"
    rf"|import\s+transformers\s+as\s+(\w+)(?s:.*?)\b\1\.{_TRAINER}|from\s+transformers\s+import\s+\*(?s:.*?)\b{_TRAINER}"
)
_OF_TORCH: Final = re.compile(
    r"\A(?!(?s:.*)(?:OMPI_COMM|SLURM_PROCID|PMI_RANK|PMIX_RANK|\bMPI\b|init_method|backend=.mpi|\.spawn\())"
    r"(?s:.*)\binit_process_group\("
)
"""A program that finds its rank in RANK alone."""
_LIBRARIES: Final = {
    "lightning": _LIGHTNING,
    "pytorch_lightning": _LIGHTNING,
    "lightning_fabric": _LIGHTNING,
    "accelerate": _Library("accelerate", _BY_TORCH),
    "transformers": _Library("pytorch", _BY_TORCH, _OF_TRANSFORMERS),
    "trl": _Library("pytorch", _BY_TORCH),
    "sentence_transformers": _Library("pytorch", _BY_TORCH, re.compile(rf"\b{_TRAINER}|\.fit\(")),
    "composer": _Library("pytorch", _BY_TORCH),
    "horovod": _Library("horovod", frozenset({"horovod", "mpi"}), re.compile(r"\bhvd\.init\(")),
    "ray": _Library("ray", frozenset({"ray"}), re.compile(r"\bray\.init\(")),
    "torch": _Library("pytorch", _BY_TORCH | {"lightning", "horovod", "ray"}, _OF_TORCH),
}
"""Python modules that read such variables."""
_IMPORT: Final = re.compile(
    rf"^[^\S\n]*(?:import|from)[^\S\n]+({'|'.join(_LIBRARIES)})(?=[\s.,;]|$)", re.MULTILINE
)
_SCRIPT: Final = re.compile(r"[^/$`~][^$`]*\.(?:py|sh|bash)")
_MODULE: Final = re.compile(r"\w+(?:\.\w+)*")
_STARTS: Final = re.compile(r"(?:.*/)?(?:python[\d.]*|bash|sh)|source|\.")


_SUBMITTED: Final = re.compile(r"^\$\{?(?:SLURM_SUBMIT_DIR|PBS_O_WORKDIR|LS_SUBCWD|SGE_O_WORKDIR|PWD)\}?/*")


def scripts_of(command: str) -> Iterator[str]:
    """Yield the relative paths of the scripts that a command runs by Python or bash, or sources.

    For a module (``-m``), its file if it is in the command's folder; behind ``cd DIR``, the files of DIR.
    """
    folder = ""
    for simple in simple_commands(command):
        words = [unquoted(word) for word in simple.words]
        found = ""
        if words[:1] == ["cd"]:
            target = _SUBMITTED.sub("", words[-1])
            if len(words) != 2 or re.search(r"[$`~]", target):  # noqa: PLR2004
                return
            folder = posixpath.join(folder, target)
        elif words and _SCRIPT.fullmatch(words[0]):
            found = words[0]
        elif words and _STARTS.fullmatch(words[0]):
            at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
            if words[at - 1] == "-m" and _MODULE.fullmatch(words[at]):
                found = f"{words[at].replace('.', '/')}.py"
            elif _SCRIPT.fullmatch(words[at]) and words[at - 1] not in ("-m", "-c"):
                found = words[at]
        if found:
            yield posixpath.normpath(posixpath.join(folder, found))


def script_advice(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a script imports a library that gets no rank variables, or launches processes.

    A launch in the user's command, or hpcdist's own torchrun, sets them itself.
    """
    if job.launch.by_user:
        return
    if not script.endswith(".py"):
        yield from _launch_of(job, script, text)
    elif not job.launch.starts_processes:
        yield from _imports_of(job, script, text)


def _imports_of(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a Python script imports a library that gets no rank variables."""
    gpus = max((row.gpus for row in job.placement.rows), default=0)
    named = {_LIBRARIES[name]: name for name in reversed(_IMPORT.findall(text))}
    for library, name in reversed(named.items()):
        if job.identity.framework in library.told or not library.trains.search(text):
            continue
        mend = f"write `framework: {library.framework}`"
        if job.placement.size > 1:
            tasks = f"each of the {job.placement.size} tasks"
            yield f"{script} imports {name}, and {tasks} would train alone; {mend}"
        elif gpus > 1 and (
            name in ("accelerate", "composer")
            # Lightning starts processes itself, but under srun (fabric/plugins/environments/slurm.py).
            or (library is _LIGHTNING and job.identity.scheduler == "slurm")
        ):
            yield f"{script} imports {name}, and one process uses one of its {gpus} GPUs; {mend}"


def _launch_of(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield the warnings on a shell script: a launch that each task would run, its GPUs and ports."""
    yield from about_gpus(job, text, script)
    yield from (f"{script}: {no_port(port)}" for port in missing_ports(text))
    launch = user_launch(text)
    size = sum(row.tasks * max(row.processes, 1) for row in job.placement.rows)
    if launch is None or size == 1:
        return
    lines = enumerate(text.splitlines(), 1)
    line = next((number for number, line in lines if launch.words[0] in line.partition("#")[0]), 1)
    starts = f"{script}:{line} starts processes by {launch.program} itself, and each of the {size}"
    if launch.runs == "once" or job.launch.starts_processes:
        tasks = "processes" if job.launch.starts_processes else "tasks"
        yield f"{starts} {tasks} runs it; write what it does as `run.cmd`: a launch there runs once"
    elif why := separate(job, launch, text):
        yield f"{starts} tasks runs it, and {why}"
    elif launch.runs == "per_node":
        wrong = _processes(job, launch, _settings(job, launch, text))
        yield from (f"{script}:{line}: {one.reason}; write `{' '.join(one.add)}`" for one in wrong)
