"""Commands that are a launch already: the user's own mpirun, horovodrun, torchrun or srun line.

Such a command stays as it is: it runs once, on the head node, with the hostfile at ``$HPCDIST_HOSTFILE``;
torchrun and similar launchers run once per replica, each on its own node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

from hpcdist.base.errors import Path, Problem, comma_list
from hpcdist.experiment.launch_options import (
    FOREIGN_HOSTFILES,
    HOSTFILE,
    IF_TOLD,
    ONCE,
    PER_NODE,
    TORCH_LAUNCHERS,
    Option,
    foreign_hostfiles,
    hosts_in,
    is_foreign,
    is_program,
    read_options,
    with_hostfile,
)
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import Run
from hpcdist.experiment.shell_words import (
    SimpleCommand,
    assignments,
    commands_of,
    expand,
    expanded,
    filled,
    is_computed,
    known_values,
    simple_commands,
    unquoted,
)

# --- The launch of a command

_LONGEST: Final = 400
"""The longest line that is shown in a message."""
_NOTHING: Final[Mapping[int, str]] = MappingProxyType({})
_ALIASES: Final = {
    "deepspeed.pt": "deepspeed",
    "accelerate-launch": "accelerate launch",
    "torchelastic.distributed.launch": "torch.distributed.run",
    "fleetrun": "paddle.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "horovod.runner.launch": "horovodrun",
    "deepspeed.launcher.runner": "deepspeed",
    "lightning.fabric.cli": "fabric run",
    "lightning_fabric.cli": "fabric run",
    "colossalai.cli": "colossalai run",
    "mindspore.parallel.cluster.run": "msrun",
    "composer.cli.launcher": "composer",
    "lightning run": "fabric run",
    "lightning run model": "fabric run",
    "fabric run model": "fabric run",
    "lmf train": "llamafactory-cli train",
    "llamafactory.cli train": "llamafactory-cli train",
    "byteps.launcher.launch": "bpslaunch",
}
"""Other names of launchers: programs, Python modules, and subcommands."""
_WHICH: Final = re.compile(r"\$\(\s*(?:which|command -v|type -P)\s+([\w.]+)\s*\)|`which\s+([\w.]+)`")
"""A program by its path."""
_VALUE_OF_PYTHON: Final = frozenset({"-W", "-X"})


class UserLaunch(NamedTuple):
    """A launch that the user wrote."""

    program: str
    runs: Literal["once", "per_node"]
    tasks: int | None
    """The number of processes; None if it sets none."""
    words: tuple[str, ...] = ()
    """The words of the line as written, from the launcher on."""
    head: int = 1
    """How many words name the launcher."""
    before: tuple[str, ...] = ()
    """The words in front of the launcher."""
    options: tuple[Option, ...] = ()
    """Its options, whose indices count from the end of the head."""
    end: int = 0
    """Where its program begins, counted as the options are."""
    within: bool = False
    """Whether another launch starts this one."""
    starts: UserLaunch | None = None
    """The launch that this one starts."""

    def options_of(self, *kinds: str) -> tuple[Option, ...]:
        """Return the options of these kinds."""
        return tuple(option for option in self.options if option.kind in kinds)

    @property
    def is_torch(self) -> bool:
        """Whether it has the options of torchrun."""
        return self.program in TORCH_LAUNCHERS

    @property
    def is_open(self) -> bool:
        """Whether a variable before its program may contain further options (`torchrun $ARGS t.py`)."""
        words = [unquoted(word) for word in self.words[self.head + self.end :]]
        if not words or not is_computed(words[0]):
            return False
        following = words[1] if len(words) > 1 else ""
        is_before = following.startswith("-") or is_program(following)
        return bool(_HOLDS_OPTIONS.search(words[0]) or is_before)

    def written(self, option: Option) -> str:
        """Return the name of an option as the user wrote it."""
        return self.words[self.head + option.start].partition("=")[0]

    def line(self, *add: str, without: Iterable[Option] = (), instead: Mapping[int, str] = _NOTHING) -> str:
        """Return the line with changed options, and its program's arguments shortened.

        ``instead``: new options by the index of the option that they replace; ``add``: options to append.
        """
        dropped = {at: "" for option in without for at in range(option.start, option.end)} | {**instead}
        words = [dropped.get(at, word) for at, word in enumerate(self.words[self.head :])]
        line = [*self.before, *self.words[: self.head], *words[: self.end], *add, *_short(words[self.end :])]
        text = " ".join(filter(None, line))
        return text if len(text) <= _LONGEST else " ".join(["...", *instead.values(), *add, "..."])


SLOTS: Final = {
    **dict.fromkeys(("deepspeed", "horovodrun", "mpirun.openmpi", "mpiexec.openmpi"), "%s slots=%s"),
    **dict.fromkeys(("mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich", "mpirun_rsh"), "%s:%s"),
    "colossalai run": "%s%.0s",
}
"""A host and its number of tasks in the hostfile that a launcher reads, whatever the site's own reads.

Sources: deepspeed/launcher/runner.py, colossalai/cli/launcher/run.py, the user guide of MVAPICH.
"""
_HOLDS_OPTIONS: Final = re.compile(r"\[[@*]\]|ARG|OPT|FLAG|PARAM|CONF|LAUNCH|DIST", re.IGNORECASE)
UNSPECIFIED: Final = UserLaunch("the command", "once", None)
"""A launch that is only declared: ``backend: mpi``."""
_REDIRECTION: Final = re.compile(r"\d*[<>]")


def _short(words: Sequence[str]) -> list[str]:
    """Return a program with its first arguments, without redirections."""
    own = [*takewhile(lambda word: not _REDIRECTION.match(word), words)][:3]
    return [*own, *["..."] * (len(words) > len(own))]


def user_launch(command: str, env: Mapping[str, str] | None = None) -> UserLaunch | None:
    """Return the launch of this command, None for an ordinary program.

    Of several that run in the same way, it is the one with the most processes, and not one for a single node:
    others prepare or clean up, or are for other numbers of nodes.
    """
    found = list(launches(command, env or {}))
    found = [launch for launch in found if not launch.options_of("alone")] or found
    similar = [launch for launch in found if launch.runs == found[0].runs]
    return max(similar, key=lambda launch: math.inf if launch.tasks is None else launch.tasks, default=None)


def launch_in(experiment: Experiment) -> UserLaunch | None:
    """Return the launch of an experiment's command; with ``backend: mpi`` any command runs once."""
    env = {name: str(value) for name, value in experiment.environment.env_vars.items()}
    launch = user_launch(experiment.run.command, env)
    if experiment.backend == "mpi" and not (launch and launch.runs == "once"):
        return UNSPECIFIED
    return launch


def launches(command: str, env: Mapping[str, str]) -> Iterator[UserLaunch]:
    """Yield the launches of a command; ``env``: the variables that are set before it."""
    return (launch for _, launch in launches_of(command, env) if launch and not launch.within)


def launches_of(command: str, env: Mapping[str, str]) -> list[tuple[SimpleCommand, UserLaunch | None]]:
    """Return the simple commands of a text, each with its launch, None if it is not a launch.

    The first word of each is checked, after variables, keywords, and programs such as ``time``; variables
    that the command itself sets are expanded.
    """
    commands = list(simple_commands(command))
    known = known_values(commands, env)
    for name in _COUNTED.findall(command):
        known.pop(name, None)
    named = (item for simple in commands for item in _with_its_program(simple, known))
    return [pair for simple in named for pair in _with_what_it_starts(simple, known)]


_COUNTED: Final = re.compile(r"\bfor\s*\(\(\s*(\w+)\s*=")
"""The variable of a loop such as ``for ((i = 0; i < n; i++))``."""


def _with_what_it_starts(
    simple: SimpleCommand, known: Mapping[str, str]
) -> Iterator[tuple[SimpleCommand, UserLaunch | None]]:
    """Yield a command with its launch, and the launches that this starts (`srun torchrun ...`)."""
    launch = _launch(simple, known)
    tail = commands_of(launch.words[launch.head + launch.end :]) if launch else ()
    inner = [(started, found._replace(within=True)) for started in tail if (found := _launch(started, known))]
    yield simple, launch and launch._replace(starts=inner[0][1] if inner else None)
    yield from inner


def _with_its_program(simple: SimpleCommand, known: Mapping[str, str]) -> Iterator[SimpleCommand]:
    """Yield a command; where its program is a variable (`$RUN python train.py`), what that holds."""
    first, *more = simple.words or ("",)
    if not (value := expand(first, known)) or value == unquoted(first):
        yield simple
    else:
        yield from simple_commands(" ".join([value, *more]))


def _launch(simple: SimpleCommand, known: Mapping[str, str]) -> UserLaunch | None:
    words = expanded(simple.words, known)
    texts = [expand(word, known) for word in words]
    program, head = _launcher(texts)
    if program not in ONCE and program not in PER_NODE:
        return None
    if program in IF_TOLD and ("--launcher" in texts or not {"NNODES", "NPROC_PER_NODE"} & known.keys()):
        return None
    if program == "axolotl train" and any(map(_OF_AXOLOTL.match, texts)):
        return None
    options, end = read_options(program, texts[head:])
    every = program in PER_NODE or any(option.kind == "every" for option in options)
    count = None if every else _count(options, texts[head:])
    runs: Literal["once", "per_node"] = "per_node" if every else "once"
    return UserLaunch(program, runs, count, words, head, simple.before, options, end)


_OF_AXOLOTL: Final = re.compile(r"--$|--(?:num|main|machine)[-_]|--use[-_]ray|\$")
"""Options by which axolotl gets further nodes (https://docs.axolotl.ai/docs/multi-node.html)."""


def _launcher(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that begins there, and how many words name it."""
    if not words:
        return "", 0
    name = words[0].rsplit("/", 1)[-1]
    if found := _WHICH.fullmatch(words[0]):
        name = found[1] or found[2]
    elif name.startswith("python") and (found := _WHICH.fullmatch("".join(words[1:2]))):
        called, count = _launcher([found[1] or found[2], *words[2:]])
        return called, count + 1 if called else 0
    if name.startswith("python") or is_computed(name):
        return _module(words)
    for count in (3, 2, 1):
        called = " ".join([name, *words[1:count]])
        called = _ALIASES.get(called, called)
        if len(words) >= count and (called in ONCE or called in PER_NODE):
            return called, count
    return "", 0


def _module(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that `python -m` starts."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            name = words[at + 1] if at + 1 < len(words) else ""
            name = _ALIASES.get(name, name)
            run = name in ("fabric run", "colossalai run") and words[at + 2 : at + 3] == ["run"]
            return (name, at + 2 + run) if name in ONCE or name in PER_NODE else ("", 0)
        if words[at] == "-c":
            return "", 0
        at += 2 if words[at] in _VALUE_OF_PYTHON else 1
    return "", 0


def _count(options: Iterable[Option], words: Sequence[str]) -> int | None:
    """Return the number of processes, None for several programs."""
    values = [option.value for option in options if option.kind == "np"]
    return int(values[0]) if values and values[0].isdecimal() and ":" not in words else None


# --- Hosts that no job has

_MOST_PROBLEMS: Final = 20
"""The most problems that are shown."""
_CMD: Final[Path] = ("run", "cmd")
_HEAD: Final = '"$HPCDIST_HEAD_ADDRESS"'
_MEETING: Final = '"$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"'
_VARIABLES: Final = {
    **dict.fromkeys(
        ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_prte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
         "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "SLURM_HOSTFILE", "DLTS_HOSTFILE"), "hostfile",
    ),
    **dict.fromkeys(("MASTER_ADDR", "PET_MASTER_ADDR", "MS_SCHED_HOST"), "address"),
    "PET_RDZV_ENDPOINT": "endpoint",
}  # fmt: skip
"""Variables that give launchers and programs their hosts."""
_OURS: Final = {"hostfile": HOSTFILE, "address": _HEAD, "endpoint": _MEETING}
_PARAMETERS: Final = frozenset({"orte_default_hostfile", "prte_default_hostfile"})
_SERVICE: Final = re.compile(r"etcd(?:-v2)?$")
_CHOSEN: Final = re.compile(r"--nodelist|--requires|-w\b|-m\b|\b(?:host|hostname|h|vnode)=")
"""Directives by which users choose the nodes of a job themselves."""
_KNOWING: Final = frozenset({"srun", "aprun", "ccc_mprun"})
"""Launchers that find the nodes of a job themselves."""
_NAMING: Final = frozenset({"hosts", "include", "address", "endpoint"})
_NOT_THIS_JOBS: Final = "which cannot list the nodes of this job"
_PLAIN_VARIABLES: Final = re.compile(
    r"\$\{?(?:(?:SLURM|PBS|LSB)_JOB_?ID|JOB_ID|SLURM_SUBMIT_DIR|PBS_O_WORKDIR|USER|HOME|PWD)\b\}?"
)
_NONE: Final = frozenset({"", "/dev/null", "None", "none"})


_LAST_PORT: Final = 65535
_PORT: Final = re.compile(
    r"(?:-port[= ]|_port[= ]|\bport=|_PORT=|-endpoint[= ]\S+:|_endpoint[= ]\S+:|_ENDPOINT=\S+:|-master=\S+:)"
    r"[\"']?(\d{5,9})\b"
)
"""A port in an option or a variable of a command: ``--master_port=29500``, ``--rdzv_endpoint host:29500``."""
_PORT_VARIABLE: Final = re.compile(r"_(?:PORT|ENDPOINT)$")
_INSTEAD_OF_PORT: Final = 'write "$HPCDIST_PORT", which no other job has'


def with_own_hostfile(experiment: Experiment) -> Experiment:
    """Return the experiment with other systems' hostfiles replaced by hpcdist's."""
    cmd = experiment.run.cmd or ""
    ours = with_hostfile(cmd) if isinstance(cmd, str) else tuple(map(with_hostfile, cmd))
    return experiment if ours == cmd else msgspec.structs.replace(experiment, run=Run(cmd=ours))


def launch_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield an error for hosts that are not the job's, a warning where hpcdist replaces them; at most 20."""
    return islice(_launch_problems(experiment), _MOST_PROBLEMS)


def _launch_problems(experiment: Experiment) -> Iterator[Problem]:
    command = experiment.run.command
    for name in foreign_hostfiles(command):
        message = f"{name} is {FOREIGN_HOSTFILES[name]}'s hostfile; the job's own is used instead"
        yield Problem(message, _CMD, f"write {HOSTFILE}", "warning", word=name)
    env = {name: str(value) for name, value in experiment.environment.env_vars.items()}
    yield from _of_variables(env)
    yield from _of_ports(command, env)
    found = launches_of(with_hostfile(command), env)
    commands = [simple for simple, launch in found if launch is None]
    known = known_values([simple for simple, _ in found], env)
    elsewhere = [filled(unquoted(word), known) for simple in commands for word in simple.words]
    chosen = any(map(_CHOSEN.search, experiment.batch.directives))
    for simple, launch in found:
        yield from _of_assignments(simple, elsewhere)
        if launch:
            yield from _of_launch(launch, elsewhere, chosen=chosen)


def _of_ports(command: str, env: Mapping[str, str]) -> Iterator[Problem]:
    """Yield an error for each port above 65535, the last of TCP (RFC 9293)."""
    for port in missing_ports(command):
        yield Problem(no_port(port), _CMD, _INSTEAD_OF_PORT, word=port)
    for name, value in env.items():
        port = value.rpartition(":")[2]
        if _PORT_VARIABLE.search(name) and port.isdecimal() and int(port) > _LAST_PORT:
            yield Problem(no_port(port), ("environment", "env_vars", name), "write one from 1024 to 65535")


def missing_ports(text: str) -> Iterator[str]:
    """Yield the ports of a text that do not exist."""
    return (match[1] for match in _PORT.finditer(text) if int(match[1]) > _LAST_PORT)


def no_port(port: str) -> str:
    """Return what is wrong with such a port."""
    return f"{port} is no port: they end at {_LAST_PORT}"


def _of_launch(launch: UserLaunch, elsewhere: Sequence[str], *, chosen: bool) -> Iterator[Problem]:
    """Yield the problems of the hosts of a launch; the first has the corrected line as its hint."""
    found: list[tuple[Option, str, str]] = []
    for option in launch.options:
        kind, value = _host_option(launch, option)
        names = [] if chosen or kind not in _NAMING else list(filter(is_foreign, hosts_in(kind, value)))
        if names and option.sure:
            found.append((option, _no_hosts(f"{launch.written(option)} of {launch.program}", names), ""))
        elif kind == "hostfile" and option.sure and _is_foreign_file(value, elsewhere):
            message = f"{launch.program} reads its hosts from {value}, {_NOT_THIS_JOBS}"
            made = f"; if the command itself creates that file, write `test -s {value} &&` in front"
            found.append((option, message, made))
    hint = f"write `{_corrected_line(launch, [option for option, *_ in found])}`" if found else ""
    for option, message, more in found:
        word = launch.words[launch.head + option.end - 1]
        yield Problem(message, _CMD, f"{hint}{more}".removeprefix("; "), word=word)
        hint = ""


def _host_option(launch: UserLaunch, option: Option) -> tuple[str, str]:
    """Return the kind of an option that names hosts, and its value.

    Open MPI has a parameter for a hostfile too; torchrun may use a service (etcd) that is not a node.
    """
    if option.kind == "endpoint" and any(_SERVICE.match(item.value) for item in launch.options):
        return "", option.value
    key, _, value = option.value.partition(" ")
    if option.kind == "mca" and key in _PARAMETERS:
        return "hostfile", value
    if option.kind == "hosts" and launch.program == "srun" and "/" in option.value:
        return "hostfile", option.value
    return option.kind, option.value


def _is_foreign_file(value: str, elsewhere: Sequence[str]) -> bool:
    """Whether the job does not create this hostfile: no other command contains its name.

    A name with a variable may be the batch system's own file, unless the variable is only a number or folder.
    """
    is_known = not is_computed(_PLAIN_VARIABLES.sub("", value))
    return value not in _NONE and is_known and not any(value in text for text in elsewhere)


def _no_hosts(who: str, names: Sequence[str]) -> str:
    what = "is not a host" if len(names) == 1 else "are not hosts"
    found = comma_list(dict.fromkeys(names))
    return f"{who} names {found}, which {what} of this job: its nodes are known only when it starts"


def _corrected_line(launch: UserLaunch, wrong: Sequence[Option]) -> str:
    """Return the line with these options replaced by the job's own hosts."""
    instead: dict[int, str] = {}
    theirs = [option for option in wrong if option.kind not in ("address", "endpoint")]
    for option in wrong:
        if option.kind in ("address", "endpoint"):
            instead[option.start] = f"{launch.written(option)}={_OURS[option.kind]}"
    if launch.program == "paddle.distributed.launch" and theirs:
        return launch.line(without=wrong, instead={**instead, theirs[0].start: f"--master={_MEETING}"})
    if theirs and launch.program not in _KNOWING:
        theirs += launch.options_of("hosts", "hostfile", "include")
        instead[theirs[0].start] = hostfile_option(launch, theirs)
    return launch.line(without=[*wrong, *theirs], instead=instead)


def hostfile_option(launch: UserLaunch, theirs: Sequence[Option] = ()) -> str:
    """Return the option of a launcher for the job's hostfile, as the user would write it."""
    for option in theirs:
        if option.kind == "hostfile":
            name, equals, _ = launch.words[launch.head + option.start].partition("=")
            return f"{name}{equals or ' '}{HOSTFILE}"
    hydra = launch.program == "mpiexec.hydra" or any(option.name == "hosts" for option in theirs)
    if hydra and launch.program != "horovodrun":
        return f"-f {HOSTFILE}"
    return f"-hostfile {HOSTFILE}" if launch.program == "mpirun_rsh" else f"--hostfile {HOSTFILE}"


def _of_assignments(simple: SimpleCommand, elsewhere: Sequence[str]) -> Iterator[Problem]:
    """Yield the problems of variables that the command sets itself."""
    for name, value in assignments(simple):
        message = _host_problem(name, value)
        if message and not (_VARIABLES[name] == "hostfile" and any(value in text for text in elsewhere)):
            yield Problem(message, _CMD, f"write {name}={_OURS[_VARIABLES[name]]}", word=f"{name}=")


def _of_variables(env: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of variables of the file, in which bash expands nothing."""
    for name, value in env.items():
        if message := _host_problem(name, value):
            hint = f"remove it, and write `export {name}={_OURS[_VARIABLES[name]]}` in the command"
            yield Problem(message, ("environment", "env_vars", name), hint)


def _host_problem(name: str, value: str) -> str:
    """Return what is wrong with a variable that names hosts or a hostfile, empty if nothing is."""
    kind = _VARIABLES.get(name)
    if kind == "hostfile":
        wrong = _is_foreign_file(value, ())
        return f"{name} is {value}, {_NOT_THIS_JOBS}" if wrong else ""
    names = list(filter(is_foreign, hosts_in(kind, value))) if kind else []
    return _no_hosts(name, names) if names else ""
