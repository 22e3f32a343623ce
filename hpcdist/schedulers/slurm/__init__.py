"""Slurm: sbatch, squeue, sacct, scontrol and scancel, of version 20.11 and later.

Sources: the manual pages of 22.05; every answer that is read here was seen on a real 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import SchedulerError
from hpcdist.schedulers import INSTALLATIONS, answers, hostlist
from hpcdist.schedulers.base import (
    RUN_DIR,
    ArrayLimit,
    BatchSystem,
    LibraryStatus,
    NodeRequest,
    Query,
    Submission,
)
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.slurm import queries
from hpcdist.schedulers.slurm.queries import DROP, KEEP, Sacct, Scontrol, Squeue, base_id, by_cluster, command

if TYPE_CHECKING:
    from hpcdist.schedulers.base import Nodes, ShellRequest

_ANSWER: Final = re.compile(
    r"(?P<id>[0-9]+)(?:;(?P<cluster>[A-Za-z0-9_.-]+))?"
    r"|Submitted batch job (?P<number>[0-9]+)(?: on cluster (?P<on>[A-Za-z0-9_.-]+))?"
)
"""What sbatch prints with ``--parsable``, or without it, if a site's wrapper drops it."""

_LOST: Final = re.compile(r"(?:down|fail|failing|rebooting|powered_down|unknown)\S?|\w+\*")

_NOT_SET_UP: Final = (
    "no Slurm is set up for this machine's commands: submit from a login node, or let SLURM_CONF name the "
    "slurm.conf of the cluster"
)

_HINTS: Final = {
    "Invalid account or account/partition": "`sacctmgr show assoc user=$USER` lists the accounts you may "
    "use: set `batch.account`, and a `batch.partition` open to it",
    "Invalid partition name": "`sinfo -s` lists the partitions: correct `batch.partition`, or the site file",
    "node configuration is not available": "no node of this partition has so many CPUs or GPUs, so much "
    "memory or that GPU type, or it has too few: compare `hpcdist plan` with `sinfo -o '%P %D %c %m %G'`",
    "time limit is invalid": "`sinfo -o '%P %l'` shows each partition's limit: shorten `batch.walltime`",
    "More processors requested": "the partition or your account allows fewer CPUs: ask for fewer replicas",
    "Invalid qos": "`sacctmgr show assoc user=$USER format=account,qos%60` lists yours: correct `batch.qos`",
    "Invalid node name": "Slurm has no node of a name in `batch.exclude_nodes` or a directive; "
    "`--set batch.exclude_bad_nodes=false` leaves out those that hpcdist added",
    "Invalid feature": "`sinfo -o '%P %f'` lists the features: correct `batch.constraint`",
    "Job dependency problem": "the job it waits for is unknown to Slurm: correct `batch.dependency`",
    "violates accounting/QOS policy": "a limit of your account or QOS is reached (number, size or time of "
    "jobs): `sacctmgr show qos` lists them",
    "Unable to contact slurm controller (connect failure)": "Slurm is down or unreachable from here; try "
    "again later",
    # sbatch itself, before it asks the controller; squeue and scontrol, too
    "Could not establish a configuration source": _NOT_SET_UP,
    "Unable to process configuration file": _NOT_SET_UP,
}

_REFUSALS: Final = (
    *_HINTS,
    # slurmctld, as slurm_errno.c words it; not "Invalid authentication credential", nor "job credential"
    *(
        f"Invalid {what}"
        for what in (
            "accounting frequency",
            "cluster",
            "extra constraints",
            "generic resource",
            "group",
            "GRES",
            "job array",
            "license",
            "mcs_label",
            "--nice",
            "node name",
            "or unknown association",
            "preferred feature",
            "QOS",
            "time",
            "Trackable RESource",
            "user",
            "wckey",
        )
    ),
    "Requested ",
    "Required ",
    "Job violates",
    "Access/permission denied",
    "User's group not permitted",
    "Node count specification invalid",
    "Task count specification invalid",
    "Memory specification can not be satisfied",
    "Memory required by task is not available",
    "Pathname of a file, directory or other parameter too long",
    "MaxJobCount limit reached",
    "System submissions disabled",
)
"""Messages of the controller by which the job was certainly not made; with others, it may exist."""

_OWN_REFUSALS: Final = (
    *_HINTS,
    "Unable to open file",
    "Batch script is empty",
    "This does not look like a batch script",
    "Batch script contains DOS line breaks",
    "Invalid ",
    "invalid ",
    "unrecognized option",
    "requires an argument",
)
"""Messages of sbatch itself, before it asks the controller."""

_A_NUMBER: Final = re.compile(r"(?m)^\s*[0-9]+(?:;\S+)?\s*$|Submitted batch job")

_OF_MESSAGES: Final = re.compile("credential|authent|protocol|message|socket", re.IGNORECASE)
"""Words of errors about sbatch's messages to the controller: the job may exist."""


class Slurm(BatchSystem):
    """Slurm as a scheduler; jobs are found again by their comment, ``hpcdist:TOKEN``."""

    name = "slurm"
    directive_module = "hpcdist.schedulers.slurm.directives"
    array_limit = ArrayLimit(1000, "MaxArraySize")  # 1001, one above (slurm.conf(5))
    has_components = True
    requeues = True
    node_flags = ("--exclude", "-x", "--nodelist", "-w", "--nodefile", "-F")
    orphan_directive = "--kill-on-invalid-dep=yes"
    pmi_launcher = "srun"
    accounting = queries.SlurmAccounting()
    balances = queries.SlurmBalances()
    starts = queries.SlurmStarts()
    installation = INSTALLATIONS["slurm"]

    def submit(self, submission: Submission) -> Command:
        """Return the sbatch command, without SBATCH_ variables: they would override the script."""
        comment = f"--comment=hpcdist:{submission.token}"
        ids = ":".join(job.partition(";")[0] for job in submission.after)
        after = (f"--dependency=afterany:{ids}",) if ids else ()
        folder = submission.directory.replace("%", "%%")
        own = (option.replace(RUN_DIR, folder) for option in submission.options)
        words = ("sbatch", "--parsable", comment, *after, *own, submission.script)
        return Command(words, drop_environment=DROP, keep_environment=(*KEEP, "LC_ALL"), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id, with ``;cluster`` behind it where sbatch names one.

        Output with anything else is not read: a number in it may not be an id.
        """
        job_id = None
        if answer := _ANSWER.fullmatch(completed.stdout.strip()):
            cluster = answer["cluster"] or answer["on"]
            job_id = f"{answer['id'] or answer['number']}{f';{cluster}' if cluster else ''}"
        refused = _is_refused(completed)
        return answers.submission_id(
            completed, job_id, system="Slurm", program="sbatch", refused=refused, hints=_HINTS
        )

    def find(self) -> Iterator[Command]:
        """Yield squeue (it shows ended jobs for some minutes), then sacct, where some sites keep comments."""
        yield command("squeue", "--me", "-h", "-t", "all", "-o", "%i|%k")
        yield command("sacct", "-n", "-P", "-X", "-S", "now-7days", "-o", "jobid,comment")

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        found: dict[str, str] = {}
        for line in completed.stdout.splitlines():
            text, _, comment = line.partition("|")
            token = comment.strip().removeprefix("hpcdist:")
            if token != comment.strip() and re.fullmatch(r"\w+", token, re.ASCII) and base_id(text):
                found.setdefault(token, base_id(text))
        return found

    def queries(self) -> tuple[Query, ...]:
        """Return squeue, sacct and scontrol, in this order."""
        return Squeue(), Sacct(), Scontrol()

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return sinfo: before 24.05 no command of Slurm shows which node a job lost."""
        return command("sinfo", "-h", "-N", "-o", "%N|%T", "-n", ",".join(nodes))

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the nodes that are down; a star after a state means that the node does not answer."""
        rows = (line.partition("|") for line in completed.stdout.splitlines())
        return tuple(dict.fromkeys(name for name, _, state in rows if _LOST.fullmatch(state.strip())))

    def request_nodes(self, names: Sequence[str]) -> NodeRequest:
        """Return ``--nodelist``: the job gets exactly these nodes if it has as many (sbatch(1))."""
        return NodeRequest(f"--nodelist={hostlist.compress(names)}")

    def library_status(self, runner: Runner) -> LibraryStatus:
        """Return whether pyslurm can read Slurm on this host."""
        from hpcdist.schedulers.slurm import reader  # for the doctor alone

        found = reader.probe(runner)
        detail = found.why if found.works else f"Slurm's commands are used instead: {found.why}"
        return LibraryStatus("pyslurm", detail, found.hint)

    def list_pmi_types(self) -> Command:
        """Return ``srun --mpi=list``."""
        from hpcdist.schedulers.slurm.survey import MPI  # for the doctor alone

        return MPI

    def read_pmi_types(self, completed: Completed) -> tuple[str, ...]:
        """Return the types of the list and the versions of PMIx below it."""
        from hpcdist.schedulers.slurm.survey import pmi_types

        return pmi_types(completed.stdout + completed.stderr)

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield one srun, which shares the job's resources."""
        yield queries.inside(nodes, words, terminal=terminal)

    def shell(self, request: ShellRequest) -> Command:
        """Return salloc, and in it the script."""
        return queries.shell(request)

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the scancel command; it does not fail for jobs that are over.

        Raises:
            SchedulerError: for jobs of several clusters, since their numbers may be equal.
        """
        clusters = by_cluster(jobs)
        if len(clusters) > 1:
            names = ", ".join(name or "the default one" for name in clusters)
            raise SchedulerError(f"these jobs are on several clusters ({names}): cancel them one by one")
        return next(command("scancel", *numbers, cluster=cluster) for cluster, numbers in clusters.items())

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``scancel 12_3``."""
        number, _, cluster = job.id.partition(";")
        return command("scancel", f"{number}_{index}", cluster=cluster)


def _is_refused(completed: Completed) -> bool:
    """Whether sbatch prints no id but a known refusal; the controller's comes first."""
    _, asked, message = completed.stderr.rpartition("submission failed: ")
    if _A_NUMBER.search(completed.stdout):
        return False
    if asked:
        return any(text in message for text in _REFUSALS)
    refused = "sbatch: " in message and any(text in message for text in _OWN_REFUSALS)
    return refused and not _OF_MESSAGES.search(message)


SLURM: Final = Slurm()
