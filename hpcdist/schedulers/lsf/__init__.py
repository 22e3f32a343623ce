"""IBM Spectrum LSF: bsub, bjobs, bhist and bkill, of version 9.1 and later; plain, or with CSM and jsrun.

Sources: the manual pages of 10.1 (https://www.ibm.com/docs/en/spectrum-lsf/10.1.0), the Summit user guide for
CSM, and answers of real clusters that others have kept (``tests/transcripts/lsf``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.host.command import Command, Completed
from hpcdist.plan.origin import Origin
from hpcdist.schedulers import answers, installations
from hpcdist.schedulers.base import ArrayLimit, Nodes, Query, Scheduler, Submission
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.lsf.queries import DROP, Bhist, Bjobs, MaxMem, ask, records, tokens

if TYPE_CHECKING:
    from hpcdist.plan.model import Plan, PreparedJob
    from hpcdist.plan.values import Directive
    from hpcdist.schedulers.base import Accounting, ShellRequest
    from hpcdist.site.model import Site

BY_STDIN: Final = "# bsub reads it from its standard input: bsub <job.sh"
BY_NAME: Final = "# bsub reads it by its name: bsub job.sh"
"""How a script for LSF is given to bsub: it says so itself, to its user and to hpcdist."""

# $1 the token, $2 the script, which says how it wants to be read.
_SUBMIT: Final = f"""\
[[ -r $2 ]] || {{ echo "$2 cannot be read. Job not submitted." >&2; exit 255; }}
if grep -qxF -e '{BY_STDIN}' -- "$2"; then
  exec bsub -Jd "$1" "${{@:3}}" <"$2"
else
  exec bsub -Jd "$1" "${{@:3}}" "$2"
fi
"""

# What is over already is no failure; anything else that bkill says is.
_CANCEL: Final = """\
output=$(bkill "$@" 2>&1) && exit
[[ $output ]] || output="bkill ended without a message"
left=$(grep -v -e 'is being terminated' -e 'has already finished' <<<"$output") || exit 0
echo "$left" >&2
exit 1
"""

_HINTS: Final = {
    "No such queue": "`bqueues` lists the queues: correct `batch.partition`, or the site file",
    "Bad queue name": "`bqueues` lists the queues: correct `batch.partition`, or the site file",
    "cannot use the queue": "`bqueues -u $USER` lists the queues that you may use: correct `batch.partition`",
    "Queue is closed": "`bqueues` lists the open queues: try again later, or correct `batch.partition`",
    "Cannot exceed queue's hard limit": "`bqueues -l` shows the queue's limits: shorten `batch.walltime`, or "
    "ask for fewer replicas",
    "RUNLIMIT": "`bqueues -l` shows each queue's RUNLIMIT: shorten `batch.walltime`",
    "roject": "set `batch.account` to a project of yours",
    "Too many processors requested": "`bqueues -l` shows PROCLIMIT: ask for fewer replicas",
    "resource requirement": "compare `hpcdist plan` with `lsinfo` and `bhosts`: correct `batch.constraint`",
    "Dependency condition": "the job it waits for is unknown to LSF: correct `batch.dependency`",
    "Pending job threshold": "a limit on your waiting jobs is reached: try again later",
    "daemon not responding": "LSF is down or unreachable from here; try again later",
}

_DOUBTS: Final = re.compile(
    r"time[d ]*-?out|not respond|connect|lib call|internal|protocol|receiv|network", re.IGNORECASE
)
"""Words of a lost answer: bsub says "Job not submitted" after those too."""

_USAGE: Final = re.compile(r"illegal option|[Uu]sage: bsub|Illegal job name|option requires|[Bb]ad option")


class Lsf(Scheduler):
    """LSF as a scheduler; jobs are found again by their description, ``hpcdist:TOKEN``."""

    name = "lsf"
    array_limit = ArrayLimit(1000, "MAX_JOB_ARRAY_SIZE")  # lsb.params(5)
    orphan_directive = "-ti"
    installation = installations.LSF
    open_mpi_support = "LSF"
    node_flags = ("-m", "-hostfile")

    def cannot_exclude(self, site: Site) -> str:
        """Return why, where the request is for whole nodes."""
        whole = "asks for whole nodes by -nnodes, beside which LSF takes no names of nodes"
        return f"site {site.name} {whole}" if site.lsf.request == "nodes" else ""

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the request where that is for whole nodes: ``-nnodes`` takes no memory."""
        return "lsf.request" if site.lsf.request == "nodes" else ""

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the ``#BSUB`` lines."""
        from hpcdist.schedulers.lsf import directives  # with all of a plan; asking for jobs needs none

        return directives.directives(job, site)

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield the ``#BSUB`` lines with their origins.

        Raises:
            PlanError: for a value that no directive can hold.
        """
        from hpcdist.schedulers.header import header
        from hpcdist.schedulers.lsf.directives import HEADER

        by_stdin = plan.request.lsf.submit == "stdin"
        yield BY_STDIN if by_stdin else BY_NAME, Origin("site", plan.identity.site, "lsf.submit")
        yield from header(HEADER, plan, run_dir)

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield a problem for each directive of a site file that no job can use."""
        from hpcdist.schedulers.directives import site_directive_problems
        from hpcdist.schedulers.lsf.directives import syntax_of

        return site_directive_problems(syntax_of(site), site)

    def submit(self, submission: Submission) -> Command:
        """Return the bsub command; the script says whether it is read from standard input or by its name."""
        after = ("-w", " && ".join(f"ended({job})" for job in submission.after)) if submission.after else ()
        words = ("bash", "-c", _SUBMIT, "hpcdist", f"hpcdist:{submission.token}", submission.script, *after)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id, from among what an esub of the site prints."""
        message = "\n".join(filter(None, (completed.stderr.strip(), completed.stdout.strip())))
        if completed.missing or (completed.returncode == 127 and "bsub: " in message):  # noqa: PLR2004 - bash: not found
            raise SchedulerError(answers.missing("bsub"))
        ids: list[str] = re.findall(r"(?m)^Job <([0-9]+)> is submitted to ", completed.stdout)
        if completed.ok and len(ids) == 1:
            return ids[0]
        if _may_have_worked(completed, message) or ids:
            raise SubmissionUnknown(
                f"bsub did not say whether the job exists: {answers.why(completed, message)}"
            )
        raise SchedulerError(Problem(f"LSF refused the job: {message}", hint=answers.hint(message, _HINTS)))

    def find(self) -> Iterator[Command]:
        """Yield bjobs, which knows ended jobs for an hour too."""
        yield ask()

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        return tokens(records(completed))

    def queries(self) -> tuple[Query, ...]:
        """Return bjobs and bhist, in this order."""
        return Bjobs(), Bhist()

    def accounting(self) -> Accounting:
        """Return what it keeps of the starts of a job."""
        return MaxMem()

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an lsrun for each node, which runs beside the job and not in it: blaunch works only inside.

        The source is the manual of 10.1 alone; sites may have disabled it (LSF_DISABLE_LSRUN).
        """
        for name in nodes.names:
            argv = ("lsrun", *(["-P"] if terminal else []), "-m", name, *words)
            yield Command(argv, drop_environment=DROP, keep_environment=("LC_ALL",))

    def shell(self, request: ShellRequest) -> Command:
        """Return ``bsub -I``, ``-Is`` for a terminal; it ends with the job's exit code (bsub(1))."""
        from hpcdist.schedulers.shells import options  # where somebody wants one

        token = ("-Jd", f"hpcdist:{request.submission.token}")
        words = ("bsub", "-Is" if request.terminal else "-I", *token, *options(request.directives))
        return Command((*words, "bash", request.submission.script), (), DROP, ("LC_ALL",))

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the bkill command, for which a job that is over is no failure."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", *(job.id for job in jobs)), drop_environment=DROP)

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``bkill 12[3]``."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", f"{job.id}[{index}]"), drop_environment=DROP)

    def wait(self, job: Job) -> Command:
        """Return bwait, which LSF 10.1 has so that nobody needs to call bjobs often."""
        return Command(("bwait", "-w", f"ended({job.id})"), drop_environment=DROP)


def _may_have_worked(completed: Completed, message: str) -> bool:
    """Whether LSF may have the job: only a refusal that speaks of no lost answer is a certain no."""
    if completed.ok or completed.timed_out or completed.returncode < 0:
        return True
    last = message.rpartition("Please wait ...")[2]
    refused = "ob not submitted" in last or "equest aborted by esub" in last
    return not _USAGE.search(message) and (not refused or bool(_DOUBTS.search(last)))


LSF: Final = Lsf()
