"""This machine as a scheduler: a job is a session of processes in the background.

A job's id is the pid of its script, which leads its own session and so survives the terminal. Pids are
reused, so a process counts as the job only while its environment has the job's token. The event log is
``DIR/events``: this file adds ``submitted PID EPOCH HOST`` and ``cancelled PID EPOCH 0`` to the lines
``started``, ``timeout`` and ``ended`` of the script. Needs Linux's /proc, and setsid(1) of util-linux.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import PlanError, Problem, SchedulerError, SubmissionUnknown
from hpcdist.schedulers.base import Nodes, Query, Scheduler, Submission
from hpcdist.schedulers.job import Job, JobState, Status

if TYPE_CHECKING:
    from hpcdist.plan.model import JobSpec, Plan, PreparedJob
    from hpcdist.plan.values import Directive, Origin
    from hpcdist.schedulers.base import ShellRequest
    from hpcdist.site.model import Site

_NUMBER = re.compile(r"[0-9]+")
_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_ORPHANED: Final = "orphaned"
"""The native word for a job whose script has ended while other processes run."""

# $1: script, $2: run directory. `setsid --fork` instead of `&`, with which bash ignores SIGINT for good.
_SUBMIT: Final = """\
(umask 077 && mkdir -p -- "$2/logs" && : >>"$2/events" && : >>"$2/logs/job.out") || exit
exec setsid --fork bash -c '
echo "submitted $$ $(date +%s) $(uname -n)" >>"$2/events"
echo "$$"
exec bash -- "$1" </dev/null >>"$2/logs/job.out" 2>&1
' hpcdist "$1" "$2"
"""

_SHELL: Final = """\
(umask 077 && echo "submitted $$ $(date +%s) $(uname -n)" >>"$2/events") && exec bash -- "$1"
"""

_ALIVE: Final = """\
alive() { grep -qszxF -e "HPCDIST_TOKEN=$2" -- "/proc/$1/environ"; }
"""

# The pids of all processes of the job with this token, in whatever group or session.
_PIDS: Final = """\
pids() { grep -lszxF -e "HPCDIST_TOKEN=$1" /proc/[0-9]*/environ | cut -d/ -f3; }
"""

# Triples of id, token, run directory. Processes are checked first: a script writes its end before it exits.
# A killed script writes none, and its children survive: mpirun does not watch its parent.
# A process in execve has no environment for a moment.
_QUERY: Final = (
    _ALIVE
    + _PIDS
    + """\
here=$(uname -n)
lives() {
  local try
  for try in 1 2 3; do
    ! alive "$1" "$2" || return 0
    ! grep -q "^ended $1 " "$3/events" || return 1
    sleep 0.1
  done
  return 1
}
for ((; $#; )); do
  if lives "$1" "$2" "$3"; then
    read -r line <"/proc/$1/stat" && line=${line##*) } && echo "$1 alive ${line%% *}"
  else
    echo "$1 gone $here"
    ended=
    while read -r what id epoch value; do
      [[ $id == "$1" ]] && echo "$1 $what $value" && [[ $what == ended ]] && ended=1
    done <"$3/events"
    [[ $ended ]] || echo "$1 left $(pids "$2" | wc -l)"
  fi
  shift 3
done 2>/dev/null
exit 0
"""
)

# TERM goes to the script, which passes it on once: at a second TERM mpirun kills its tasks. If the script
# is gone, TERM goes to processes whose parent is not in the job: mpirun, not its tasks. After $1 half
# seconds a background process kills the rest of the job.
_CANCEL: Final = (
    _ALIVE
    + _PIDS
    + """\
unset HPCDIST_TOKEN
export -f pids
here=$(uname -n)
topmost() {
  local all pid line parent
  all=" $(pids "$1" | tr '\\n' ' ')"
  for pid in $all; do
    read -r line <"/proc/$pid/stat" && read -r _ parent _ <<<"${line##*) }" || continue
    [[ $all == *" $parent "* ]] || echo "$pid"
  done 2>/dev/null
}
grace=$1
shift
for ((; $#; )); do
  heads=$1
  alive "$1" "$2" || heads=$(topmost "$2")
  if [[ $heads ]]; then
    echo "cancelled $1 $(date +%s) 0" >>"$3/events"
    kill -TERM -- $heads
    setsid --fork bash -c '
      for ((i = 0; i < $2; i++)); do sleep 0.5; [[ $(pids "$1") ]] || exit 0; done
      kill -KILL $(pids "$1")
    ' hpcdist "$2" "$grace" </dev/null >/dev/null 2>&1
  elif while read -r what id epoch host; do
    [[ $what == submitted && $id == "$1" && $host != "$here" ]] && break
  done <"$3/events"; then
    [[ $what == submitted ]] && { echo "job $1 runs on $host: cancel it there" >&2; code=1; }
  fi
  shift 3
done
exit "${code:-0}"
"""
)

# Session leaders only: a job's children have its token, too.
_FIND: Final = """\
for process in /proc/[0-9]*; do
  read -r line <"$process/stat" && line=${line##*) } && read -r _ _ _ session _ <<<"$line" || continue
  [[ $process == "/proc/$session" ]] || continue
  while IFS= read -r -d "" entry; do
    [[ $entry == HPCDIST_TOKEN=* ]] && echo "$session ${entry#*=}"
  done <"$process/environ"
done 2>/dev/null
exit 0
"""


def _bash(script: str, *words: str, timeout: float = 60.0) -> Command:
    return Command(("bash", "-c", script, "hpcdist", *words), timeout=timeout)


def _triples(jobs: Sequence[Job]) -> Iterator[str]:
    return itertools.chain.from_iterable((job.id, job.token, job.directory) for job in jobs)


class _Processes(Query):
    """The processes of this machine and the events of the run directories, all jobs at once."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command."""
        yield _bash(_QUERY, *_triples(jobs))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the state of each job that the answer names."""
        records: dict[str, dict[str, str]] = {job.id: {} for job in jobs}
        for line in completed.stdout.splitlines():
            job_id, what, value = (*line.split(" ", 2), "", "")[:3]
            if job_id in records:
                records[job_id][what] = value
        return {job_id: status for job_id, words in records.items() if (status := _status(words))}


def _status(words: Mapping[str, str]) -> Status | None:
    if "alive" in words:
        stopped = words["alive"] in ("T", "t")
        return Status(JobState.SUSPENDED if stopped else JobState.RUNNING, words["alive"], source="processes")
    return _ended_status(words) if "gone" in words else None


def _ended_status(words: Mapping[str, str]) -> Status:
    if (left := words.get("left", "0")) != "0":
        reason = (
            f"its script was killed, and its processes live on ({left} of them): end them by `hpcdist cancel`"
        )
        return Status(JobState.FAILED, _ORPHANED, None, reason, "processes")
    code = int(words["ended"]) if _NUMBER.fullmatch(words.get("ended", "")) else None
    if "cancelled" in words:
        return Status(JobState.CANCELLED, "cancelled", code, source="events")
    if "timeout" in words:
        return Status(JobState.TIMEOUT, "timeout", code, source="events")
    if code is not None:
        return Status(JobState.FAILED if code else JobState.COMPLETED, "ended", code, source="events")
    if (host := words.get("submitted", words["gone"])) != words["gone"]:
        return Status(JobState.UNKNOWN, "elsewhere", None, f"it was started on {host}: ask there", "events")
    reason = "no end was recorded (killed, the machine restarted, or its disk is full)"
    return Status(JobState.FAILED, "vanished", None, reason, "processes")


class Local(Scheduler):
    """This machine; it starts every job at once and enforces no limits."""

    name = "local"
    is_batch_system = False
    has_arrays = False

    def __init__(self, grace: float = 10.0) -> None:
        self._grace = grace

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return nothing: there is no scheduler to read directives."""
        problems = tuple(_unsupported(job, site))
        if problems:
            raise PlanError(*problems)
        return ()

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:  # noqa: ARG002
        """Return no lines: no scheduler reads them, and the submit command redirects the output."""
        return iter(())

    def submit(self, submission: Submission) -> Command:
        """Return the command that starts the script in its own session and prints its pid.

        The job runs in the folder of submission, as with sbatch. Variables of a Slurm allocation are
        dropped: mpirun would use its nodes.
        """
        words = ("bash", "-c", _SUBMIT, "hpcdist", submission.script, submission.directory)
        token = (("HPCDIST_TOKEN", submission.token),)
        return Command(
            words,
            environment=token,
            drop_environment=("SLURM_", "SBATCH_", "PMI", "OMPI_COMM_"),
            keep_environment=("LC_ALL",),
            timeout=30,
        )

    def read_submit(self, completed: Completed) -> str:
        """Return the script's pid."""
        answer = completed.stdout.strip()
        if completed.missing:
            raise SchedulerError("there is no `bash` on this machine")
        if _NUMBER.fullmatch(answer):
            return answer
        message = completed.stderr.strip() or f"exit code {completed.returncode}"
        if completed.returncode > 0 and not completed.timed_out:
            raise SchedulerError(f"the job could not be started: {message}")
        raise SubmissionUnknown(f"the job's process did not print its pid: {message}")

    def find(self) -> Iterator[Command]:
        """Yield the command that lists this user's processes; finished jobs have their event logs."""
        yield _bash(_FIND)

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return pids by token."""
        rows = (line.partition(" ") for line in completed.stdout.splitlines())
        return {token: pid for pid, _, token in rows if _NUMBER.fullmatch(pid) and _TOKEN.fullmatch(token)}

    def queries(self) -> tuple[Query, ...]:
        """Return the one query: processes and events together."""
        return (_Processes(),)

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that sends TERM to these jobs, and KILL to what is left after the grace."""
        return _bash(_CANCEL, str(round(2 * self._grace)), *_triples(jobs))

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield the words themselves: a running job is on this machine, with its terminals."""
        del nodes, terminal
        yield Command(tuple(words), keep_environment=("LC_ALL",))

    def shell(self, request: ShellRequest) -> Command:
        """Return the script itself; its token is in the environment of its processes."""
        words = ("bash", "-c", _SHELL, "hpcdist", *request.submission[:2])
        return self.submit(request.submission)._replace(argv=words)

    def has_leftovers(self, status: Status) -> bool:
        """Return whether processes of a job run on after its script was killed."""
        return status.native == _ORPHANED


def _unsupported(job: JobSpec, site: Site) -> Iterator[Problem]:
    from hpcdist.schedulers.directives import (
        is_requested_by_user,  # loads the plan package, which queries do not need
    )

    groups = job.placement.groups
    asked = {
        "account": job.request.account,
        "array": job.request.array,
        "constraint": any(group.constraint for group in groups),
        "dependency": job.request.dependency,
        "directives": job.request.extra_directives,
        "exclusive": job.request.exclusive and is_requested_by_user(job, "exclusive"),
        "mail": job.request.mail,
        "partition": any(group.partition not in (None, site.default_partition) for group in groups),
        "qos": job.request.qos,
        "requeue": job.request.requeue,
        "signal": job.request.signal,
    }
    for name, value in asked.items():
        if value:
            message = f"there is no batch system on site {site.name} that could honour it"
            yield Problem(message, ("batch", name), "remove it, or choose another site with --site")
    if job.placement.nodes > 1:
        message = f"these replicas need {job.placement.nodes} nodes, and site {site.name} is one machine"
        yield Problem(message, ("environment", "replicas"), "choose another site with --site")


LOCAL: Final = Local()
