"""Launcher choice: which launcher starts the tasks, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, Literal, NamedTuple

import msgspec

from hpcdist.base.errors import PlanError, Problem, did_you_mean
from hpcdist.experiment.launch_line import UserLaunch, launch_in
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import Block, blocks, own_commands
from hpcdist.layers.frameworks import framework_of
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import AbbreviatingLauncher, Framework, Launcher, Topology
from hpcdist.plan.model import Container
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Origin, Where, Word
from hpcdist.site.fabric import JobFacts, active_groups
from hpcdist.site.model import Site

_PATH = ("batch", "launcher")
_ENDS: Final = ("-K", "--kill", "-X", "--exit_on_error", "--abort-on-failure", "--no-abort-on-failure")
"""What launchers call `kill_on_failure`."""


class LaunchRequest(NamedTuple):
    """What decides the launch: the framework and its topology, the user's own launch line, the replicas."""

    framework: Framework
    topology: Topology
    launch: UserLaunch | None
    replicas: tuple[Block, ...]


class LaunchChoice(NamedTuple):
    """How the job's tasks are started: what decides it, and the launcher."""

    framework: Framework
    topology: Topology
    launch: UserLaunch | None
    replicas: tuple[Block, ...]
    launcher: Launcher

    @property
    def by_user(self) -> bool:
        """Whether the user's own command starts all tasks."""
        return self.launch is not None and self.launch.runs == "once"

    @property
    def mode(self) -> Literal["tasks", "once"]:
        """Whether the launcher starts each task, or one program on the head node starts all."""
        return "once" if self.by_user or self.launcher.rank_variables is None else "tasks"


def launch_request(experiment: Experiment) -> LaunchRequest:
    """Return what the experiment requires of the launch."""
    launch = launch_in(experiment)
    framework = framework_of(experiment)
    topology = framework.topology(experiment)
    if launch and launch.runs == "per_node":
        topology = msgspec.structs.replace(topology, spread=True, task="replica")
    replicas = tuple(blocks(experiment, per_gpu=topology.task != "replica"))
    return LaunchRequest(framework, topology, launch, replicas)


REMOVED_LAUNCHERS: Final = {
    "aprun": "aprun belonged to ALPS, which is gone with the Cray XC and XE machines: HPE Cray EX machines "
    "start tasks by srun under Slurm, and by PALS mpiexec (launcher pals) under PBS",
}
"""Launchers of earlier versions, and what to use instead."""


def launcher_of(experiment: Experiment, site: Site, asked: LaunchRequest) -> Launcher:
    """Return the launcher: the file's, else one that the framework asks for, else the site's.

    Raises:
        PlanError: where it cannot do what is asked, or the command is a launch already.
    """
    topology, launch = asked.topology, asked.launch
    if launch and topology.required_by:
        by = launch.program if experiment.backend != "mpi" else "the user (`backend: mpi`)"
        hint = "remove this, or let the command be the program that it starts"
        path = tuple(topology.required_by.split("."))
        raise PlanError(Problem(f"the command is a launch by {by} already", path, hint))
    name = experiment.batch.launcher_name or next(iter(topology.launchers), site.launcher)
    if name not in launchers:
        if name in REMOVED_LAUNCHERS:
            raise PlanError(Problem(REMOVED_LAUNCHERS[name], _PATH, _one_of(site)))
        hint = did_you_mean(name, launchers.names())
        raise PlanError(Problem(f"there is no launcher {name!r}", _PATH, hint))
    launcher = launchers.get(name)
    if launch and launch.runs == "per_node" and experiment.environment.processes_per_replica:
        path = ("environment", "processes_per_replica")
        hint = "remove it, and set it in the command"
        raise PlanError(Problem(f"{launch.program} starts the processes of a node itself", path, hint))
    if topology.launchers and name not in topology.launchers:
        message = f"launcher {name} does not work with `{topology.required_by}`"
        hint = f"write {' or '.join(topology.launchers)}, or remove it"
        raise PlanError(Problem(message, _PATH, hint))
    if launcher.rank_variables is None and not topology.launchers:
        raise PlanError(
            Problem(f"launcher {name} is used only where a framework requires it", _PATH, _one_of(site))
        )
    if site.scheduler not in launcher.schedulers:
        message = f"launcher {name} does not start tasks under scheduler {site.scheduler} (site {site.name})"
        raise PlanError(Problem(message, _PATH, _one_of(site)))
    return launcher


def own_arguments(
    experiment: Experiment, site: Site, choice: LaunchChoice, job: JobFacts, where: Where
) -> tuple[Word, ...]:
    """Return the launcher options that the site and the experiment add.

    Raises:
        PlanError: where an option of the experiment is set by the plan, or has no effect.
    """
    return tuple(_arguments(experiment, site, None if choice.by_user else choice.launcher, job, where))


def _arguments(
    experiment: Experiment, site: Site, launcher: Launcher | None, job: JobFacts, where: Where
) -> Iterator[Word]:
    path = (*_PATH, "args")
    if launcher is None or "args" not in launcher.site_options:
        if experiment.batch.launcher_args:
            who = (
                f"launcher {launcher.name} takes no options"
                if launcher
                else "the command is a launch already"
            )
            raise PlanError(Problem(f"{who}, so they have no effect", path, "remove them"))
        return
    for text in site.options(launcher.name).args:
        yield Word(text=text, origin=Origin("site", site.name, f"launchers.{launcher.name}.args"))
    for index, group in active_groups(site.fabric, job):
        for text in group.args:
            yield Word(text=text, origin=Origin("site", site.name, f"fabric.together.{index}", group.why))
    if problems := [*_argument_problems(experiment, launcher)]:
        raise PlanError(*problems)
    for index, text in enumerate(experiment.batch.launcher_args):
        yield Word(text=text, origin=where((*path, index)))


def _argument_problems(experiment: Experiment, launcher: Launcher) -> Iterator[Problem]:
    """Yield what is wrong with each option of the experiment."""
    path = (*_PATH, "args")
    for index, text in enumerate(experiment.batch.launcher_args):
        flag, *more = text.partition("=")[0].split() or [""]
        reserved = flag in launcher.reserved_options or _is_joined(flag, launcher)
        if reserved or (not flag.startswith("-") and not index):
            message = f"{text} is set by hpcdist" if reserved else f"{text!r} is not an option"
            kill = flag.startswith(_ENDS)
            hint = f"{launcher.name} gets its counts and hosts from the plan"
            hint = "write `batch: {kill_on_failure: ...}`" if kill else hint
            hint = f"write `batch: {{directives: [{text}]}}`" if flag == "--distribution" else hint
            yield Problem(message, (*path, index), hint)
        elif flag.startswith("-") and more:
            hint = f"write it as items of their own: {', '.join(text.split())}"
            message = f"{launcher.name} gets {text!r} as one word, with its blanks"
            yield Problem(message, (*path, index), hint)


def _is_joined(flag: str, launcher: Launcher) -> bool:
    """Whether it is a reserved option in short: ``-n4``, ``-wHOST``, ``-uN2``, ``--ntas``."""
    if isinstance(launcher, AbbreviatingLauncher):
        if flag.startswith("--"):
            return any(option.startswith(flag) for option in launcher.reserved_options)
        letters = takewhile(lambda letter: letter in launcher.bare_options, flag[1:])
        upto = flag[1 : len([*letters]) + 2]
        return any(f"-{letter}" in launcher.reserved_options for letter in upto)
    short = flag[:2] in launcher.reserved_options and not flag.startswith("--")
    words = any(len(name) > len("-n") and name[1] != "-" for name in launcher.reserved_options)
    return short and (flag[2:].isdecimal() or not words)


def must_provide_mpi(choice: LaunchChoice, site: Site) -> None:
    """Check that the launcher provides MPI where the tasks need it.

    Raises:
        PlanError: where it does not, and does not connect them in another way either.
    """
    framework, topology, launcher = choice.framework.name, choice.topology, choice.launcher
    without_mpi = topology.allows_non_mpi and framework in launcher.frameworks
    if not without_mpi and not launcher.provides_mpi:
        message = f"framework {framework} needs MPI, which launcher {launcher.name} does not provide"
        raise PlanError(
            Problem(message, _PATH, _one_of(site, framework if topology.allows_non_mpi else "", mpi=True))
        )


def must_start_replicas(experiment: Experiment, choice: LaunchChoice) -> None:
    """Check that each replica is a separate task, where a replica has its own command.

    Raises:
        PlanError: where one is no separate task.
    """
    path = next(iter(own_commands(experiment)), None)
    together = choice.mode == "once" or choice.launch is not None or choice.topology.task == "node"
    if path and (together or experiment.hptuning or experiment.run.starts_entrypoint):
        message = "a replica can have a command of its own only where hpcdist starts each by itself"
        what = "in a search, nor with `entrypoint`" if not together else "with a launcher as the command"
        raise PlanError(Problem(f"{message}: not {what}", path, "write one command as `run.cmd`"))


def must_go_on(experiment: Experiment, site: Site, choice: LaunchChoice) -> None:
    """Check that the launcher can let the other tasks continue when one fails, if the file wants that.

    Raises:
        PlanError: where it cannot.
    """
    if experiment.batch.kill_on_failure is False and (choice.by_user or not choice.launcher.can_go_on):
        path = ("batch", "kill_on_failure")
        if choice.by_user:
            hint = "remove it, and write the launcher's own option in the command"
            raise PlanError(Problem("the command is a launch already", path, hint))
        here = (launcher for launcher in launchers.objects() if site.scheduler in launcher.schedulers)
        able = " or ".join(launcher.name for launcher in here if launcher.can_go_on)
        message = f"launcher {choice.launcher.name} ends all tasks when one fails"
        hint = f"remove it{f', or write `batch: {{launcher: {able}}}`' * bool(able)}"
        raise PlanError(Problem(message, path, hint))


def pmi_of(
    experiment: Experiment,
    site: Site,
    choice: LaunchChoice,
    placement: Placement,
    container: Container | None,
) -> str | None:
    """Return the type of PMI that the launcher provides: the site's, where tasks may use MPI.

    Tasks that connect in another way do not need it. They get it where the site is known to have it, since a
    program may use MPI besides its framework; over several components they get what the launcher provides
    there (``pmi_over_components``).
    """
    mpi = site.options(choice.launcher.name).mpi
    mpi = site.container.mpi or mpi if container and site.container else mpi
    if choice.topology.needs_mpi or not experiment.framework:
        return mpi
    if len(placement.groups) > 1:
        return choice.launcher.pmi_over_components
    return None if site.status == "unverified" else mpi


def _one_of(site: Site, framework: str = "", *, mpi: bool = False) -> str:
    """Return a hint with the launchers for the site's scheduler; ``mpi``: those for MPI or this framework."""
    able = [
        launcher.name
        for launcher in map(launchers.get, launchers.names())
        if site.scheduler in launcher.schedulers and launcher.rank_variables
        if launcher.provides_mpi or not mpi or framework in launcher.frameworks
    ]
    if not able:
        what = f"launcher that {'provides MPI and ' * mpi}has {site.scheduler} among its `schedulers`"
        return f"there is no {what}: plug one in (docs/how-to/plug-ins.md)"
    return f"write one of {', '.join(able)}"
