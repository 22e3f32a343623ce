"""Problems of a user's own launch line that the file alone shows: hosts that no job has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from hpcdist.errors import Path, Problem, comma_list
from hpcdist.experiment.launch.bash_words import (
    Simple,
    assignments,
    filled,
    is_computed,
    known_values,
    unquoted,
)
from hpcdist.experiment.launch.hosts import (
    FOREIGN_HOSTFILES,
    HOSTFILE,
    foreign_hostfiles,
    hosts_in,
    is_foreign,
    with_hostfile,
)
from hpcdist.experiment.launch.line import UserLaunch, launches_of
from hpcdist.experiment.launch.options import Option
from hpcdist.experiment.model import Experiment, Run

_MOST: Final = 20
"""How many problems are shown."""
_PATH: Final[Path] = ("run", "cmd")
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
"""Variables by which launchers and programs know hosts."""
_OURS: Final = {"hostfile": HOSTFILE, "address": _HEAD, "endpoint": _MEETING}
_PARAMETERS: Final = frozenset({"orte_default_hostfile", "prte_default_hostfile"})
_SERVICE: Final = re.compile(r"etcd(?:-v2)?$")
_CHOSEN: Final = re.compile(r"--nodelist|--requires|-w\b|-m\b|\b(?:host|hostname|h|vnode)=")
"""Directives by which users say themselves which nodes a job has."""
_KNOWING: Final = frozenset({"srun", "aprun", "ccc_mprun"})
"""Launchers that know the nodes of a job by themselves."""
_NAMING: Final = frozenset({"hosts", "include", "address", "endpoint"})
_NOT_THIS_JOBS: Final = "which cannot name the nodes of this job"
_NONE: Final = frozenset({"", "/dev/null", "None", "none"})


def with_own_hostfile(experiment: Experiment) -> Experiment:
    """Return the experiment with hpcdist's list of hosts in place of other systems'."""
    cmd = experiment.run.cmd
    ours = with_hostfile(cmd) if isinstance(cmd, str) else tuple(map(with_hostfile, cmd))
    return experiment if ours == cmd else msgspec.structs.replace(experiment, run=Run(cmd=ours))


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield an error for hosts that are none of the job's, a warning where hpcdist mends it; not too many."""
    return islice(_problems_of(experiment), _MOST)


def _problems_of(experiment: Experiment) -> Iterator[Problem]:
    command = experiment.run.command
    for name in foreign_hostfiles(command):
        message = f"{name} is {FOREIGN_HOSTFILES[name]}'s list of hosts; the job's own is read in its place"
        yield Problem(message, _PATH, f"write {HOSTFILE}", "warning", word=name)
    env = {name: str(value) for name, value in experiment.environment.env_vars.items()}
    yield from _of_variables(env)
    found = launches_of(with_hostfile(command), env)
    commands = [simple for simple, launch in found if launch is None]
    known = known_values([simple for simple, _ in found], env)
    elsewhere = [filled(unquoted(word), known) for simple in commands for word in simple.words]
    chosen = any(map(_CHOSEN.search, experiment.batch.directives))
    for simple, launch in found:
        yield from _of_assignments(simple, elsewhere)
        if launch:
            yield from _of_launch(launch, elsewhere, chosen=chosen)


def _of_launch(launch: UserLaunch, elsewhere: Sequence[str], *, chosen: bool) -> Iterator[Problem]:
    """Yield what is wrong with the hosts of a launch; the first has the line in which all of it is right."""
    found: list[tuple[Option, str, str]] = []
    for option in launch.options:
        kind, value = _said(launch, option)
        names = [] if chosen or kind not in _NAMING else list(filter(is_foreign, hosts_in(kind, value)))
        if names and option.sure:
            found.append((option, _no_hosts(f"{launch.written(option)} of {launch.program}", names), ""))
        elif kind == "hostfile" and option.sure and _is_foreign_file(value, elsewhere):
            message = f"{launch.program} is to read its hosts from {value}, {_NOT_THIS_JOBS}"
            made = f"; where the command itself makes that file, write `test -s {value} &&` in front"
            found.append((option, message, made))
    hint = f"write `{_mended(launch, [option for option, *_ in found])}`" if found else ""
    for option, message, more in found:
        word = launch.words[launch.head + option.end - 1]
        yield Problem(message, _PATH, f"{hint}{more}".removeprefix("; "), word=word)
        hint = ""


def _said(launch: UserLaunch, option: Option) -> tuple[str, str]:
    """Return what an option says of hosts, and its value.

    Open MPI has a parameter for a list of hosts too; torchrun may meet at a service (etcd) that is no node.
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
    """Whether a list of hosts is none that the job makes: its name is plain, and no other command has it."""
    return value not in _NONE and not is_computed(value) and not any(value in text for text in elsewhere)


def _no_hosts(who: str, names: Sequence[str]) -> str:
    what = "is no host" if len(names) == 1 else "are no hosts"
    found = comma_list(dict.fromkeys(names))
    return f"{who} names {found}, which {what} of this job: its nodes are known only when it begins"


def _mended(launch: UserLaunch, wrong: Sequence[Option]) -> str:
    """Return the line with the job's own hosts in place of what these options say."""
    instead: dict[int, str] = {}
    theirs = [option for option in wrong if option.kind not in ("address", "endpoint")]
    for option in wrong:
        if option.kind in ("address", "endpoint"):
            instead[option.start] = f"{launch.written(option)}={_OURS[option.kind]}"
    if launch.program == "paddle.distributed.launch" and theirs:
        return launch.line(without=wrong, instead={**instead, theirs[0].start: f"--master={_MEETING}"})
    if theirs and launch.program not in _KNOWING:
        theirs += launch.says("hosts", "hostfile", "include")
        instead[theirs[0].start] = hostfile_option(launch, theirs)
    return launch.line(without=[*wrong, *theirs], instead=instead)


def hostfile_option(launch: UserLaunch, theirs: Sequence[Option] = ()) -> str:
    """Return the option of a launcher that names the job's list of hosts, as the user would write it."""
    for option in theirs:
        if option.kind == "hostfile":
            name, equals, _ = launch.words[launch.head + option.start].partition("=")
            return f"{name}{equals or ' '}{HOSTFILE}"
    hydra = launch.program == "mpiexec.hydra" or any(option.name == "hosts" for option in theirs)
    if hydra and launch.program != "horovodrun":
        return f"-f {HOSTFILE}"
    return f"-hostfile {HOSTFILE}" if launch.program == "mpirun_rsh" else f"--hostfile {HOSTFILE}"


def _of_assignments(simple: Simple, elsewhere: Sequence[str]) -> Iterator[Problem]:
    """Yield what is wrong with variables that the command sets itself."""
    for name, value in assignments(simple):
        message = _misled(name, value)
        if message and not (_VARIABLES[name] == "hostfile" and any(value in text for text in elsewhere)):
            yield Problem(message, _PATH, f"write {name}={_OURS[_VARIABLES[name]]}", word=f"{name}=")


def _of_variables(env: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what is wrong with variables of the file, in which bash fills nothing."""
    for name, value in env.items():
        if message := _misled(name, value):
            hint = f"remove it, and write `export {name}={_OURS[_VARIABLES[name]]}` in the command"
            yield Problem(message, ("environment", "env_vars", name), hint)


def _misled(name: str, value: str) -> str:
    """Return what is wrong with a variable that names a host or a list of hosts, nothing for a good one."""
    kind = _VARIABLES.get(name)
    if kind == "hostfile":
        wrong = _is_foreign_file(value, ())
        return f"{name} is {value}, {_NOT_THIS_JOBS}" if wrong else ""
    names = list(filter(is_foreign, hosts_in(kind, value))) if kind else []
    return _no_hosts(name, names) if names else ""
