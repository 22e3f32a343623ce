"""Reading Slurm by its commands, or through pyslurm where one is installed and a command is missing.

It is a ``Runner`` around another: where squeue or scontrol is not there, as in images that have libslurm
alone, a Python of its own is asked for what ``pyslurm_answers`` can answer. Whoever reads the answer does not
see which it was. Where the commands are there they are quicker: 518 jobs took squeue 0.014 s and pyslurm
0.09 s. pyslurm X.Y fits Slurm X.Y alone: 22.5.3 that of 22.05.
"""

from __future__ import annotations

import grp
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.host.command import Command, Completed, Runner
from hpcdist.schedulers import base
from hpcdist.schedulers.slurm.queries import command

# --- What squeue and scontrol would print, asked through pyslurm
#
# A program that runs in a process of its own.
#
# libslurm ends the process that it is loaded in where it finds no configuration, so hpcdist itself never
# imports pyslurm: ``reader`` starts this file, which imports nothing of hpcdist, with the release of Slurm
# (``22.5``, empty where no command prints it) and the command's words.
#
# pyslurm gives exit codes of 128 and more without their 128 (143 is 15; ``_get_exit_code`` in its
# utils/helpers.pyx), so the ends of jobs stay with sacct and scontrol. Where a partition has DenyAccounts
# it says AllowAccounts=ALL, which scontrol leaves out: both mean all others. Of cloud nodes it may show
# those that are off too, which commands show where slurm.conf has ``PrivateData=cloud``. Sources:
# core/job/job.pyx, core/node.pyx and core/partition.pyx of pyslurm 25.11.2; by its CHANGELOG.md none of the
# names that are read here has changed since 22.5.3.


class User(NamedTuple):
    """Who asks: the number, and the names of all groups."""

    number: int
    groups: frozenset[str]


def this_user() -> User:
    """Return who runs this process."""
    return User(os.getuid(), frozenset(_groups()))


def _groups() -> Iterator[str]:
    for number in {os.getgid(), *os.getgroups()}:
        try:
            yield grp.getgrgid(number).gr_name
        except KeyError:  # a group without a name, as containers have them
            continue


def _version(pyslurm: Any, _: User) -> Iterator[str]:
    """Yield the version of a pyslurm that has what is asked here, as 22.5.3 is the first to have."""
    missing = [name for name in ("Jobs", "Nodes", "Partitions") if not hasattr(pyslurm, name)]
    if missing:
        sys.exit(f"pyslurm {pyslurm.__version__} has no {', '.join(missing)}")
    yield pyslurm.__version__


def _queue(pyslurm: Any, user: User) -> Iterator[str]:
    for job in _own_jobs(pyslurm, user):
        yield f"{_id(job)}|{job.state}|{job.state_reason}|{job.comment or '(null)'}"


def _tokens(pyslurm: Any, user: User) -> Iterator[str]:
    for job in _own_jobs(pyslurm, user):
        yield f"{_id(job)}|{job.comment or '(null)'}"


def _own_jobs(pyslurm: Any, user: User) -> list[Any]:
    """Return the user's jobs in the order of squeue: by partition, state and priority, the highest first."""
    own = [job for job in pyslurm.Jobs.load().values() if job.user_id == user.number]
    return sorted(own, key=lambda job: (job.partition or "", job.state, -(job.priority or 0)))


def _id(job: Any) -> int:
    """Return the id of the whole job: pyslurm does not tell element 0 of an array from none."""
    number: int = job.array_id or job.heterogeneous_id or job.id
    return number


def _nodes(pyslurm: Any, user: User) -> Iterator[str]:
    seen = {partition.name for partition in _seen_partitions(pyslurm, user)}
    for node in pyslurm.Nodes.load().values():
        if node.name and (not node.partitions or seen & set(node.partitions)):
            gres = [f"{name}:{count}" for name, count in node.configured_gres.items()]
            yield (
                f"NodeName={node.name} CPUTot={node.total_cpus} RealMemory={node.real_memory} "
                f"AvailableFeatures={_list(node.available_features)} Gres={_list(gres)}"
            )


def _partitions(pyslurm: Any, user: User) -> Iterator[str]:
    for partition in _seen_partitions(pyslurm, user):
        yield (
            f"PartitionName={partition.name} AllowGroups={_list(partition.allowed_groups)} "
            f"AllowAccounts={_list(partition.allowed_accounts)} AllowQos={_list(partition.allowed_qos)} "
            f"Default={'YES' if partition.is_default else 'NO'} QoS={partition.qos or 'N/A'} "
            f"DefaultTime={_time(partition.default_time, 'NONE')} MaxNodes={partition.max_nodes} "
            f"MaxTime={_time(partition.max_time, 'UNLIMITED')} Nodes={partition.nodes or '(null)'} "
            f"OverSubscribe={partition.oversubscribe} State={partition.state}"
        )


def _seen_partitions(pyslurm: Any, user: User) -> list[Any]:
    """Return what scontrol shows without ``--all``: what is hidden or closed to one, root alone sees."""
    own = {"ALL", *user.groups}
    partitions = pyslurm.Partitions.load().values()
    return [p for p in partitions if user.number == 0 or (not p.is_hidden and own & {*p.allowed_groups})]


def _list(words: Sequence[str]) -> str:
    return ",".join(words) or "(null)"


def _time(minutes: int | str | None, none: str) -> str:
    """Write a limit as Slurm does: ``1-02:30:00``; ``UNLIMITED`` is a word of pyslurm's too."""
    if not isinstance(minutes, int):
        return minutes or none
    days, rest = divmod(minutes, 24 * 60)
    return f"{f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00"


ANSWERS: Final[Mapping[tuple[str, ...], Callable[[Any, User], Iterator[str]]]] = {
    (): _version,
    ("squeue", "--me", "-h", "-t", "all", "-o", "%i|%T|%r|%k"): _queue,
    ("squeue", "--me", "-h", "-t", "all", "-o", "%i|%k"): _tokens,
    ("scontrol", "--oneliner", "show", "node"): _nodes,
    ("scontrol", "--oneliner", "show", "partition"): _partitions,
}
"""What is answered, by the words of the command; of its columns and fields only those that hpcdist reads."""


def main(release: str, words: Sequence[str]) -> None:
    """Print the answer; whatever goes wrong ends the process with its reason as the last line it says."""
    import pyslurm

    own = ".".join(pyslurm.__version__.split(".")[:2])
    if release and own != release:
        sys.exit(f"pyslurm {pyslurm.__version__} is made for Slurm {own}, and this one is {release}")
    sys.stdout.writelines(f"{line}\n" for line in ANSWERS[tuple(words)](pyslurm, this_user()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])


# --- Reading Slurm by its commands, or through pyslurm where one is installed and a command is missing

VARIABLE: Final = "HPCDIST_SLURM_READER"
"""``auto`` (or nothing): pyslurm where a command is missing; ``commands``: never."""

_VERSION: Final = command("squeue", "--version", timeout=15)
_RELEASES: Final = "https://github.com/PySlurm/pyslurm/releases"


class Probe(NamedTuple):
    """Whether pyslurm can read Slurm here, why in a sentence, and what could be done about it."""

    works: bool
    why: str
    hint: str = ""


class Reader(NamedTuple):
    """The runner that asks pyslurm where a command is missing; ``limit`` is how long it may take, in seconds.

    A process is started for each answer, so a pyslurm that dies or hangs costs its time and nothing else.
    """

    runner: Runner
    python: str = sys.executable
    limit: float = 15.0

    def run(self, command: Command) -> Completed:
        """Run the command, else what prints the same; never raises for what the process does."""
        done = self.runner.run(command)
        if done.missing and command.argv in ANSWERS:
            answer = self.ask(_release(self.runner.run(_VERSION)), command)
            if answer.ok:
                return answer._replace(command=command)
        return done

    def ask(self, release: str, command: Command) -> Completed:
        """Run the program that answers for this command, or prints its version where that has no words.

        ``release`` is that of Slurm, empty where squeue, which prints it, is missing.
        """
        program = (self.python, __file__, release)
        return self.runner.run(command._replace(argv=(*program, *command.argv), timeout=self.limit))


def is_installed() -> bool:
    """Return whether there is a pyslurm beside hpcdist, which is not imported for that."""
    return find_spec("pyslurm") is not None


def over(
    runner: Runner,
    environment: Mapping[str, str] = os.environ,
    installed: Callable[[], bool] = is_installed,
) -> Runner:
    """Return what reads Slurm: the runner alone where pyslurm is not installed, or not wanted.

    Raises:
        ConfigError: for a ``$HPCDIST_SLURM_READER`` that is neither ``auto`` nor ``commands``.
    """
    return Reader(runner) if _is_wanted(environment) and installed() else runner


def probe(
    runner: Runner,
    environment: Mapping[str, str] = os.environ,
    installed: Callable[[], bool] = is_installed,
) -> Probe:
    """Find out whether pyslurm can read Slurm here; a process of its own imports it.

    Raises:
        ConfigError: for a ``$HPCDIST_SLURM_READER`` that is neither ``auto`` nor ``commands``.
    """
    if not _is_wanted(environment):
        return Probe(works=False, why=f"{VARIABLE}=commands: pyslurm is not asked")
    if not installed():
        return Probe(works=False, why="pyslurm is not installed beside hpcdist")
    return check(Reader(runner))


def check(reader: Reader) -> Probe:
    """Return whether this pyslurm fits this Slurm."""
    version = reader.runner.run(_VERSION)
    release = _release(version)
    if not (release or version.missing):
        return Probe(works=False, why=f"squeue does not print the version of Slurm: {base.why(version)}")
    answer = reader.ask(release, _VERSION._replace(argv=()))
    if answer.ok and version.missing:
        return Probe(works=True, why=f"pyslurm {answer.stdout.strip()} reads Slurm, since there is no squeue")
    if answer.ok:
        fits = f"pyslurm {answer.stdout.strip()} fits Slurm {version.stdout.split()[-1]}"
        return Probe(works=True, why=f"{fits}; the commands are there, and quicker")
    last = next(reversed(answer.stderr.strip().splitlines()), None)
    which = f"pyslurm {release}.*" if release else "the pyslurm of your Slurm"
    hint = f"install {which} ({_RELEASES}), or do without: Slurm's commands print the same"
    return Probe(works=False, why=f"pyslurm cannot be used: {base.why(answer, last)}", hint=hint)


def _is_wanted(environment: Mapping[str, str]) -> bool:
    value = environment.get(VARIABLE) or "auto"
    if value not in ("auto", "commands"):
        message = f"{VARIABLE}={value} is no way to read Slurm"
        raise ConfigError(Problem(message, hint="set it to auto or commands, or not at all"))
    return value == "auto"


def _release(version: Completed) -> str:
    """Return the release as pyslurm has it, ``22.5`` of ``slurm-wlm 22.05.8``, empty where unknown."""
    found = re.search(r"\b(\d+)\.(\d+)\.\d", version.stdout) if version.ok else None
    return f"{int(found[1])}.{int(found[2])}" if found else ""
