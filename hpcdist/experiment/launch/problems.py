"""Problems of a user's own launch line: hosts that are not the job's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from hpcdist.errors import Path, Problem, comma_list
from hpcdist.experiment.launch.bash_words import (
    SimpleCommand,
    assignments,
    filled,
    is_computed,
    known_values,
    unquoted,
)
from hpcdist.experiment.launch.line import UserLaunch, launches_of
from hpcdist.experiment.launch.options import (
    FOREIGN_HOSTFILES,
    HOSTFILE,
    Option,
    foreign_hostfiles,
    hosts_in,
    is_foreign,
    with_hostfile,
)
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import Run

_MOST: Final = 20
"""The most problems that are shown."""
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
_NONE: Final = frozenset({"", "/dev/null", "None", "none"})


def with_own_hostfile(experiment: Experiment) -> Experiment:
    """Return the experiment with other systems' hostfiles replaced by hpcdist's."""
    cmd = experiment.run.cmd or ""
    ours = with_hostfile(cmd) if isinstance(cmd, str) else tuple(map(with_hostfile, cmd))
    return experiment if ours == cmd else msgspec.structs.replace(experiment, run=Run(cmd=ours))


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield an error for hosts that are not the job's, a warning where hpcdist replaces them; at most 20."""
    return islice(_problems_of(experiment), _MOST)


def _problems_of(experiment: Experiment) -> Iterator[Problem]:
    command = experiment.run.command
    for name in foreign_hostfiles(command):
        message = f"{name} is {FOREIGN_HOSTFILES[name]}'s hostfile; the job's own is used instead"
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
        yield Problem(message, _PATH, f"{hint}{more}".removeprefix("; "), word=word)
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
    """Whether the job does not create this hostfile: its name is plain, and no other command contains it."""
    return value not in _NONE and not is_computed(value) and not any(value in text for text in elsewhere)


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
            yield Problem(message, _PATH, f"write {name}={_OURS[_VARIABLES[name]]}", word=f"{name}=")


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
