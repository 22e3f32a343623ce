"""Grid Engine: qsub, qstat, qacct and qdel, of Son of Grid Engine 8.1 and its like.

Sources: the manual pages of 8.1.9; every answer that is read here was seen on Debian's 8.1.9.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import answers, installations
from hpcdist.schedulers.base import ArrayLimit, Nodes, Query, Scheduler, Submission
from hpcdist.schedulers.inside import by_ssh
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.sge.queries import DROP, KEEP, Qacct, Qstat, Records, bash, tokens

if TYPE_CHECKING:
    from hpcdist.plan.model import Plan, PreparedJob
    from hpcdist.plan.origin import Origin
    from hpcdist.plan.values import Directive
    from hpcdist.schedulers.base import Accounting, ShellRequest
    from hpcdist.site.model import Site

_JOB_ID: Final = r"([0-9]+)(?:\.[0-9]+-[0-9]+:[0-9]+)?"
_ANSWERS: Final = (
    re.compile(_JOB_ID),
    re.compile(rf'Your job(?:-array)? {_JOB_ID} \(".*"\) has been submitted'),
)
"""What qsub prints with ``-terse``, or without, where a site's wrapper drops that."""

_SILENT: Final = re.compile(r"(?m)^(\S+)(?: +\S+){5} +- ")
"""A line of qhost without a load behind the name, the architecture and the four numbers of processors."""

_HINTS: Final = {
    "the requested parallel environment": "`qconf -spl` lists them: correct `sge` in the site file",
    "unknown queue": "`qconf -sql` lists the queues: correct `batch.partition`, or the site file",
    "the requested project": "`qconf -sprjl` lists the projects: correct `batch.account`",
    "unknown resource": "`qconf -sc` lists them: correct `batch.constraint` or `sge` in the site file",
    "is not a valid object name": "start `name` with a letter",
    "does not allow you to submit": "your account has no access here; ask the site",
    "unable to send message to qmaster": "Grid Engine is down or unreachable from here; try again later",
    "SGE_ROOT": "load the site's Grid Engine first (its settings.sh), then submit again",
}

_REFUSALS: Final = (
    *_HINTS,
    # sge_qmaster
    "denied: ",
    "job rejected",
    "Job was rejected",
    "job is not allowed",
    "is not a time value",
    "is not a memory value",
    "no suitable queues",
    "two files are specified",
    "can't resolve hostname",
    # qsub itself, before it asks anyone
    "Unable to read script file",
    "Unknown option",
    "nvalid option argument",
    "option must",
    "Script length does not match",
)
"""Words after which the job was certainly not made; whatever else qsub says, it may have been."""

_A_NUMBER: Final = re.compile(rf"(?m)^\s*{_JOB_ID}\s*$|has been submitted")
_LOST: Final = re.compile("time-?out|read error|failed receiving", re.IGNORECASE)
"""What qsub says of its messages to the master, of which any may have arrived."""

# $1 ID, $2 run directory, and so on. A job that is deleted while it waits leaves no trace in the accounting.
_CANCEL: Final = """\
code=0
for ((; $#; )); do
  output=$(qdel "$1" 2>&1)
  case $?:$output in
  0:*) (umask 077 && echo "cancelled $1 $(date +%s) 0" >>"$2/events") ;;
  *'does not exist'* | *'already in deletion'*) ;;
  *) echo "$output" >&2; code=1 ;;
  esac
  shift 2
done
exit "$code"
"""

_CANCEL_ELEMENT: Final = """\
output=$(qdel "$1" -t "$2" 2>&1) && exit
[[ $output == *'does not exist'* || $output == *'already in deletion'* ]] || { echo "$output" >&2; exit 1; }
"""

# qstat shows what a job was given besides, such as its token, only for jobs that are named.
_FIND: Final = """\
list=$(qstat -u "$(id -un)") || exit
ids=$(awk '$1 ~ /^[0-9]+$/ { print $1 }' <<<"$list" | sort -un | paste -sd,)
[[ -z $ids ]] || qstat -xml -j "$ids"
"""


class GridEngine(Scheduler):
    """Grid Engine as a scheduler; jobs are found again by their context, ``hpcdist=TOKEN``."""

    name = "sge"
    array_limit = ArrayLimit(75_000, "max_aj_tasks")  # sge_conf(5)
    names_gpus = False  # only a site's prolog does
    requeues = True  # a script that ends with exit code 99
    installation = installations.SGE
    open_mpi_support = "Grid Engine"
    node_flags = ("-l h=", "-l hostname=", "-q", "-masterq")

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the resource for memory where the site does not name one."""
        return "" if site.sge.memory else "sge.memory"

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the ``#$`` lines."""
        from hpcdist.schedulers.sge import directives  # with all of a plan; asking for jobs needs none

        return directives.directives(job, site)

    def advice(self, job: PreparedJob, site: Site) -> Iterator[Problem]:
        """Yield a warning for a parallel environment whose allocation rule the site file does not give."""
        from hpcdist.schedulers.sge import directives

        return directives.advice(job, site)

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield the ``#$`` lines with their origins.

        Raises:
            PlanError: for a value that no directive can hold.
        """
        from hpcdist.schedulers.header import header
        from hpcdist.schedulers.sge.directives import HEADER

        return header(HEADER, plan, run_dir)

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield a problem for each directive of a site file that no job can use."""
        from hpcdist.schedulers.directives import site_directive_problems
        from hpcdist.schedulers.sge.directives import syntax_of

        return site_directive_problems(syntax_of(site), site)

    def submit(self, submission: Submission) -> Command:
        """Return the qsub command; with ``-V``, nothing of another batch job may reach this one."""
        after = ("-hold_jid", ",".join(submission.after)) if submission.after else ()
        words = ("qsub", "-terse", "-ac", f"hpcdist={submission.token}", *after, *submission.options)
        return Command(
            (*words, submission.script),
            drop_environment=DROP,
            keep_environment=(*KEEP, "LC_ALL"),
            timeout=120,
        )

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id; of an array qsub says ``12.1-10:2``.

        Only an answer that is nothing else is read: in others a number may be anything.
        """
        if completed.missing:
            raise SchedulerError(answers.missing("qsub"))
        found = (form.fullmatch(completed.stdout.strip()) for form in _ANSWERS)
        if completed.ok and (answer := next(filter(None, found), None)):
            return answer[1]
        message = completed.stderr.strip() or completed.stdout.strip()
        if _may_have_worked(completed):
            raise SubmissionUnknown(f"qsub did not say whether the job exists: {answers.why(completed)}")
        raise SchedulerError(
            Problem(f"Grid Engine refused the job: {message}", hint=answers.hint(message, _HINTS))
        )

    def find(self) -> Iterator[Command]:
        """Yield the command that lists this user's unfinished jobs; others have their event logs."""
        yield bash(_FIND)

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        return tokens(completed.stdout)

    def queries(self) -> tuple[Query, ...]:
        """Return qstat for unfinished jobs, then the accounting."""
        return Qstat(), Qacct()

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return qhost of these hosts."""
        return Command(("qhost", "-h", ",".join(nodes)), (), DROP, (*KEEP, "LC_ALL"))

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the hosts without a load: they have not reported for ``max_unheard`` (sge_conf(5))."""
        return tuple(row[1] for row in _SILENT.finditer(completed.stdout) if row[1] != "global")

    def accounting(self) -> Accounting:
        """Return what it keeps of the starts of a job."""
        return Records()

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an ssh for each node: ``qrsh -inherit`` works only inside the job (its manual page)."""
        return by_ssh(nodes, words, terminal=terminal)

    def shell(self, request: ShellRequest) -> Command:
        """Return ``qrsh``, which waits by ``-now no``; it ends as the script does (submit(1))."""
        from hpcdist.schedulers.shells import options  # where somebody wants one

        own = ("-now", "no", "-verbose", "-cwd", "-pty", "yes" if request.terminal else "no")
        token = ("-ac", f"hpcdist={request.submission.token}")
        words = ("qrsh", *own, *token, *options(request.directives, ("-r",)))
        return Command((*words, "bash", request.submission.script), (), DROP, (*KEEP, "LC_ALL"))

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that deletes these jobs, and notes it where they run."""
        return bash(_CANCEL, *itertools.chain.from_iterable((job.id, job.directory) for job in jobs))

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``qdel 12 -t 3``."""
        return bash(_CANCEL_ELEMENT, job.id, str(index))


def _may_have_worked(completed: Completed) -> bool:
    """Whether the master may have the job: only a known refusal is a certain no."""
    if completed.returncode <= 0 or completed.timed_out or _A_NUMBER.search(completed.stdout):
        return True
    refused = any(text in completed.stderr for text in _REFUSALS)
    return not refused or bool(_LOST.search(completed.stderr))


SGE: Final = GridEngine()
