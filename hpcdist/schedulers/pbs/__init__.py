"""PBS Professional and OpenPBS: qsub, qstat, qselect and qdel, of version 19 and later; not Torque.

Sources: states, ids, fields and exit codes were seen on an OpenPBS 23.06; refusals are those of
``pbs_error.h`` and ``pbs_messages.c`` of openpbs/openpbs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import answers, installations
from hpcdist.schedulers.base import Nodes, Query, Scheduler, Submission
from hpcdist.schedulers.inside import by_ssh
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.pbs import queries
from hpcdist.schedulers.pbs.queries import DROP, PREFIX, TOKEN, Qstat, command, find, key, records, token_of

if TYPE_CHECKING:
    from hpcdist.plan.model import Plan, PreparedJob
    from hpcdist.plan.origin import Origin
    from hpcdist.plan.values import Directive
    from hpcdist.schedulers.base import Accounting, ShellRequest, Starts
    from hpcdist.site.model import Site

_QSUB: Final = ("qsub", "-W", "block=false")
"""PBS takes this option and does nothing (``qsub.c`` since 14.1); Grid Engine's qsub, which would make a job
of a script for PBS, refuses it."""

_JOB_ID: Final = re.compile(r"[0-9]+(?:\[\])?\.[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_LOST: Final = re.compile(r"(?:^|,)(?:down|state-unknown)(?:,|$)")

_HINTS: Final = {
    "Unknown queue": "`qstat -Q` lists the queues: correct `batch.partition`, or the site file",
    "Queue is not enabled": "it takes no jobs now: `qstat -Q` shows under Ena which queues do",
    "Bad GID": "correct the group in `directives`: `id -Gn` lists yours",
    "Bad UID": "remove `-u` from `directives`: the job runs as you",
    "Unknown resource": "correct `pbs.gpus`, `pbs.gpu_type`, `pbs.chunk` or `directives` of the site file",
    "Access to queue is denied": "set `batch.account`, or a `batch.partition` that is open to you",
    "Unauthorized Request": "set `batch.account`, or a `batch.partition` that is open to you",
    "exceeds queue": "`qstat -Qf QUEUE` shows its limits: ask for less, or for another queue",
    "violates queue": "`qstat -Qf QUEUE` shows its limits: ask for less, or for another queue",
    "would exceed": "a limit of yours or of your project is reached: wait, or ask for less",
    "Maximum number of jobs": "wait until some of your jobs are over",
    "filesystems": "write `batch: {directives: ['-l filesystems=home:...']}`, or it into the site file",
    "Illegal attribute or resource value": "compare the lines of `hpcdist render` with the site's pages",
    "cannot connect to server": "PBS is down or unreachable from here; try again later",
    **dict.fromkeys(
        ("qmaster", 'invalid option argument "-W"'),
        "this is the qsub of Grid Engine: choose its site with --site",
    ),
    "submit error (": "these are words of Torque, which hpcdist does not know",
    "illegal -k": "this may be Torque, which hpcdist does not know; else write `pbs: {keep: none}`",
}

_REFUSALS: Final = (
    "illegal -",
    "illegally formed",
    "usage:",
    "invalid option",
    "directive error",
    "cannot access script file",
    "script contains cr, lf",
    "script file::",
    "script not a file",
    "Job name is too long",
    "cannot send environment with the job",
    "cannot connect to server",
    "Unknown queue",
    "Unknown resource",
    "Unauthorized Request",
    "Illegal attribute or resource value",
)
"""Words of qsub, before it asks anyone, or of the server after which the job was certainly not made."""

_REFUSAL_CODES: Final = frozenset(
    number % 256
    for number in (
        15002, 15003, 15004, 15007, 15008, 15014, 15018, 15019, 15020, 15021, 15022, 15023, 15032, 15034,
        15035, 15036, 15037, 15039, 15045, 15046, 15048, 15049, 15054, 15055, 15060, 15089, 15107, 15108,
        15109, 15110, 15111, 15116, 15136, 15141, 15142, 15143, 15144, 15156, 15162, 15163, 15169, 15172,
        15173, 15175,
    )
)  # fmt: skip
"""Exit codes of a certain no: PBSE_ numbers, those of a site's hooks (15136, 15169) among them."""


class Pbs(Scheduler):
    """PBS as a scheduler; jobs are found again by a variable that they carry, ``HPCDIST_TOKEN``."""

    name = "pbs"
    names_gpus = False  # only its cgroups hook does
    sets_threads = True  # to the CPUs of a chunk
    rounds_cpus = True
    open_mpi_support = "PBS"
    installation = installations.PBS
    node_flags = ()

    def cannot_exclude(self, site: Site) -> str:
        """Return why: ``-l select=1:host=n1`` names a node, and there is no other relation than ``=``."""
        del site
        return "a job of PBS can name the nodes that it gets, and none that it must not get"

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the ``#PBS`` lines."""
        from hpcdist.schedulers.pbs import directives  # with all of a plan; asking for jobs needs none

        return directives.directives(job, site)

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield the ``#PBS`` lines with their origins.

        Raises:
            PlanError: for a value that no directive can hold.
        """
        from hpcdist.schedulers.header import header
        from hpcdist.schedulers.pbs.directives import HEADER

        return header(HEADER, plan, run_dir)

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield a problem for each directive of a site file that no job can use."""
        from hpcdist.schedulers.directives import site_directive_problems
        from hpcdist.schedulers.pbs.directives import syntax_of

        return site_directive_problems(syntax_of(site), site)

    def submit(self, submission: Submission) -> Command:
        """Return the qsub command; beside ``-V`` in the script, ``-v`` adds the token."""
        after = ("-W", f"depend=afterany:{':'.join(submission.after)}") if submission.after else ()
        words = (*_QSUB, "-v", f"{TOKEN}={PREFIX}{submission.token}", *after, submission.script)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id, with its server."""
        if completed.missing:
            raise SchedulerError(answers.missing("qsub"))
        ids = [line for line in map(str.strip, completed.stdout.splitlines()) if _JOB_ID.fullmatch(line)]
        if completed.ok and len(ids) == 1:
            return ids[0]
        if ids or not _is_refused(completed):
            raise SubmissionUnknown(f"qsub did not say whether the job exists: {answers.why(completed)}")
        message = completed.stderr.strip()
        hint = next((hint for text, hint in _HINTS.items() if text in message), "")
        raise SchedulerError(Problem(f"PBS refused the job: {message}", hint=hint))

    def find(self) -> Iterator[Command]:
        """Yield this user's jobs, then those that are over, where the server keeps a history."""
        yield find()
        yield find("-x")

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        jobs = records(completed.stdout).items()
        return {token: job_id for job_id, record in jobs if key(job_id) and (token := token_of(record))}

    def queries(self) -> tuple[Query, ...]:
        """Return qstat of unfinished jobs, of finished ones with array elements, of arrays without these."""
        return Qstat(), Qstat(("-x", "-t")), Qstat(("-x",), arrays=True)

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return pbsnodes: vnodes have the names of their hosts without the domain."""
        return Command(("pbsnodes", "-F", "json", *dict.fromkeys(node.partition(".")[0] for node in nodes)))

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the nodes that are down, as PBS calls them and as their MoM does."""
        from hpcdist.schedulers.pbs.survey import section  # where a node may have been lost

        found = section(completed.stdout, "nodes").items()
        down = [(name, str(node.get("Mom"))) for name, node in found if _LOST.search(str(node.get("state")))]
        return tuple(dict.fromkeys(itertools.chain(*down)))

    def accounting(self) -> Accounting:
        """Return what it keeps of the starts of a job."""
        return queries.History()

    def starts(self) -> Starts:
        """Return when it expects jobs to start."""
        return queries.Estimated()

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an ssh for each node: pbs_tmrsh works only inside the job (its manual page)."""
        return by_ssh(nodes, words, terminal=terminal)

    def login_shell(self, request: ShellRequest) -> Command:
        """Return ``qsub -I``: it reads the script's directives alone, and takes no program (qsub(1B))."""
        words = (*_QSUB, "-I", "-v", f"{TOKEN}={PREFIX}{request.submission.token}", request.submission.script)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",))

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the qdel command; jobs that are over are no failure."""
        return command("qdel", *(job.id for job in jobs))

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``qdel 12[3].server``."""
        return command("qdel", job.id.replace("[]", f"[{index}]", 1))


def _is_refused(completed: Completed) -> bool:
    """Whether the job was certainly not made: by a known code or a known word of qsub."""
    if completed.returncode <= 0 or completed.timed_out:
        return False
    if "qsub: " not in completed.stderr:
        return any(text in completed.stderr for text in ("usage:", "unable to read qmaster name"))
    return completed.returncode in _REFUSAL_CODES or any(text in completed.stderr for text in _REFUSALS)


PBS: Final = Pbs()
