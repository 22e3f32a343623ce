"""What squeue and scontrol would print, asked through pyslurm: a program for another process.

Without a configuration libslurm ends the process that loads it, so hpcdist itself never imports
pyslurm: ``reader`` starts this file, which imports nothing of hpcdist, with the release of Slurm
(``22.5``, empty where no command prints it) and the command's words.

pyslurm subtracts 128 from exit codes of 128 and more (143 becomes 15; ``_get_exit_code`` in its
utils/helpers.pyx), so the ends of jobs are read from sacct and scontrol. For a partition with DenyAccounts it
prints AllowAccounts=ALL, which scontrol leaves out: both mean all others. It may show cloud nodes that are
off, which commands show where slurm.conf has ``PrivateData=cloud``.
Sources: core/job/job.pyx, core/node.pyx and core/partition.pyx of pyslurm 25.11.2; by its CHANGELOG.md none
of the names that are read here has changed since 22.5.3.
"""

from __future__ import annotations

import grp
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple


class User(NamedTuple):
    """The user who asks: the uid, and the names of all groups."""

    number: int
    groups: frozenset[str]


def this_user() -> User:
    """Return the user of this process."""
    return User(os.getuid(), frozenset(_groups()))


def _groups() -> Iterator[str]:
    for number in {os.getgid(), *os.getgroups()}:
        try:
            yield grp.getgrgid(number).gr_name
        except KeyError:  # a group without a name, as containers have them
            continue


def _version(pyslurm: Any, _: User) -> Iterator[str]:
    """Yield the version of a pyslurm that has what is used here; 22.5.3 is the first."""
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
    """Return the id of the whole job: in pyslurm, element 0 of an array looks like no element."""
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
    """Return the partitions that scontrol shows without ``--all``; root sees hidden and closed ones."""
    own = {"ALL", *user.groups}
    partitions = pyslurm.Partitions.load().values()
    return [p for p in partitions if user.number == 0 or (not p.is_hidden and own & {*p.allowed_groups})]


def _list(words: Sequence[str]) -> str:
    return ",".join(words) or "(null)"


def _time(minutes: int | str | None, none: str) -> str:
    """Return a limit in Slurm's form: ``1-02:30:00``; pyslurm writes ``UNLIMITED``, too."""
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
"""The answers by the words of the command; only with the columns and fields that hpcdist reads."""


def main(release: str, words: Sequence[str]) -> None:
    """Print the answer; any error ends the process, with the reason as its last line."""
    import pyslurm

    own = ".".join(pyslurm.__version__.split(".")[:2])
    if release and own != release:
        sys.exit(f"pyslurm {pyslurm.__version__} is made for Slurm {own}, and this one is {release}")
    sys.stdout.writelines(f"{line}\n" for line in ANSWERS[tuple(words)](pyslurm, this_user()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
