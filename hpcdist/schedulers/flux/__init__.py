"""Flux: flux batch, flux jobs, flux job info and flux cancel.

Sources: the manual pages of flux-core 0.88 and its Python (src/bindings/python/flux/job/info.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers import INSTALLATIONS, answers, base, hostlist
from hpcdist.schedulers.job import Job, JobState, Status, Usage

# --- Ids: 64-bit numbers, which Flux writes in base 58 after U+0192, or after ``f`` in a plain locale
#
# hpcdist writes the ``f``, which Flux accepts everywhere and any locale can have in a folder's name.
# Source: RFC 19 of Flux (https://flux-framework.readthedocs.io/projects/flux-rfc/en/latest/spec_19.html).

_DIGITS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_F58: Final = re.compile(rf"(?:\u0192|f)([{_DIGITS}]{{1,11}})")
_DECIMAL: Final = re.compile(r"[0-9]{1,20}")


def plain_id(text: str) -> str:
    """Return an id in any form that Flux prints as ``f...``; empty for other text."""
    if match := _F58.fullmatch(text):
        return f"f{match[1]}"
    number = int(text) if _DECIMAL.fullmatch(text) else 1 << 64
    return f58(number) if number < 1 << 64 else ""


def f58(number: int) -> str:
    """Return a number as an id."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return f"f{digits}"


# --- States: ``flux jobs --json``, of all jobs at once, or of one that has left the listing
#
# The answer has only what is known: a pending job has no ``result``, a running job no
# ``returncode``. Source: flux-jobs(1), JOB STATUS and ``--json``; RFC 21 names the states.

STATES: Final = {
    "NEW": JobState.PENDING,
    "DEPEND": JobState.PENDING,
    "PRIORITY": JobState.PENDING,
    "SCHED": JobState.PENDING,
    "RUN": JobState.RUNNING,
    "CLEANUP": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
}
"""What the states mean, and the results of INACTIVE jobs."""

LOST_NODE: Final = re.compile(r"node failure on (\S+) \(")
"""The note about a lost node, of type node-failure, or exec for the first node (bulkexec.c)."""

_NEVER_RAN: Final = -128
_HELD: Final = 0


class Listing(base.Query):
    """The latest jobs of this user, in all states."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:  # noqa: ARG002 - it names all
        """Yield one command."""
        yield Command(("flux", "jobs", "-a", "--json", "--count=5000"))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that are listed."""
        return _read(completed, jobs)


class ById(base.Query):
    """A job that the listing no longer shows; if Flux has forgotten it, the answer is an error."""

    one_by_one: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield Command(("flux", "jobs", "--json", job.id))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the state of that job."""
        return _read(completed, jobs)


def _read(completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
    wanted = {job.id for job in jobs}
    found = {}
    for job_id, record in jobs_of(completed.stdout):
        if job_id in wanted:
            found[job_id] = status(record)
    return found


def jobs_of(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the jobs of an answer with their ids: an array of them, or a single one."""
    yield from ((plain_id(str(record.get("id", ""))), record) for record in _records(text))


def _records(text: str) -> Iterator[dict[str, Any]]:
    try:
        answer = json.loads(text[text.find("{") :]) if "{" in text else None
    except (ValueError, RecursionError):
        return
    if isinstance(answer, dict):
        listed = answer.get("jobs", [answer])
        yield from (
            (record for record in listed if isinstance(record, dict)) if isinstance(listed, list) else ()
        )


def status(record: Mapping[str, Any]) -> Status:
    """Return the status of a job; an unknown state is ``UNKNOWN``, never a guess."""
    word = str(record.get("state", ""))
    if word == "INACTIVE":
        word = str(record.get("result", word))
    state = STATES.get(word, JobState.UNKNOWN)
    exception = _section(record, "exception")
    lost = exception.get("type") == "node-failure" or LOST_NODE.match(str(exception.get("note")))
    if state is JobState.FAILED and lost:
        state = JobState.NODE_FAIL
    code = _exit_code(record, exception) if state.is_final else None
    return Status(state, word, code, _reason(record, state, exception), "flux jobs")


def _section(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = record.get(name)
    return section if isinstance(section, dict) else {}


def _exit_code(record: Mapping[str, Any], exception: Mapping[str, Any]) -> int | None:
    """Return the code as a shell shows it, without the invented one of a job that never ran (-128, 1)."""
    code = record.get("returncode")
    if not isinstance(code, int) or code == _NEVER_RAN or (exception and "waitstatus" not in record):
        return None
    return 128 - code if code < 0 else code


def _reason(record: Mapping[str, Any], state: JobState, exception: Mapping[str, Any]) -> str:
    if exception.get("type") or exception.get("note"):
        return ": ".join(str(exception[key]) for key in ("type", "note") if exception.get(key))
    if state is not JobState.PENDING:
        return ""
    if record.get("urgency") == _HELD:
        return "held (urgency 0)"
    waits = record.get("dependencies")
    if isinstance(waits, list) and waits:
        return f"waits for {', '.join(map(str, waits))}"
    schedule = _section(_section(record, "annotations"), "sched")
    return str(schedule.get("reason_pending", ""))


# --- The start of a job: Flux never restarts jobs, and measures neither memory nor CPU time
#
# Sources: flux-jobs(1); answers of flux-core 0.88.


class FluxAccounting(base.Accounting):
    """The job by its id."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        yield from ById().commands(jobs)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield its start."""
        for job_id, record in jobs_of(completed.stdout):
            if job_id == job.id:
                yield _usage(record)


def _usage(record: Mapping[str, Any]) -> Usage:
    said = status(record)
    queued, started, ended = (_time(record.get(name)) for name in ("t_submit", "t_run", "t_cleanup"))
    try:
        hosts = tuple(hostlist.expand(str(record.get("nodelist", ""))))
    except ValueError:
        hosts = ()
    cpus = record.get("ncores")
    usage = Usage(None, said.state, queued, started, ended, said.exit_code, hosts)
    return replace(usage, cpus=cpus if type(cpus) is int else None)


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


# --- Flux

_FOUND = re.compile(r'(\S+) "hpcdist": ?"hpcdist:([A-Za-z0-9_]+)"')

# A listing has no attributes, so each job's jobspec is read; flux job is not Python, so it is fast.
# The script is part of the jobspec, so its quotes have a backslash before them.
_FIND: Final = """\
jobs=$(flux jobs -a -n --count=1000 -o '{id.f58}') || exit
for job in $jobs; do
  output=$(flux job info "$job" jobspec 2>/dev/null |
    grep -oE '"hpcdist": ?"hpcdist:[A-Za-z0-9_]+"' | head -n 1)
  echo "$job $output"
done
"""

_NOT_ASKED: Final = "Unable to connect to Flux"

# It is no failure that a job is over already; any other message of flux cancel is.
_CANCEL: Final = """\
output=$(flux cancel "$@" 2>&1) && exit
[[ $output ]] || output="flux cancel ended without a message"
left=$(grep -v ': job is inactive$' <<<"$output") || exit 0
echo "$left" >&2
exit 1
"""

_ELSEWHERE: Final = "or choose another queue by `batch.partition`"
_LIMITS: Final = "`flux queue list` shows the limits"
_QUEUES: Final = "`flux queue list` shows the queues: correct `batch.partition`, or the site file"
_RESOURCES: Final = "`flux resource list` shows what there is: compare it with `hpcdist plan`"

_HINTS: Final = {
    _NOT_ASKED: "no Flux runs here, or it is down: submit from a login node of the site, or "
    "inside `flux start` or `flux alloc`",
    "requested duration": f"{_LIMITS}: shorten `batch.walltime`, {_ELSEWHERE}",
    "instance lifetime": "the allocation in which you submit ends before: shorten `batch.walltime`, or "
    "submit from a shell outside it",
    "Flux standard duration": "correct `batch.walltime`",
    "requested nnodes": f"{_LIMITS}: ask for fewer replicas, {_ELSEWHERE}",
    "requested ncores": f"{_LIMITS}: ask for fewer replicas or CPUs, {_ELSEWHERE}",
    "requested ngpus": f"{_LIMITS}: ask for fewer replicas or GPUs, {_ELSEWHERE}",
    "is disabled": f"`flux queue list` shows which queues take jobs: try again later, {_ELSEWHERE}",
    "not a valid queue": f"{_QUEUES}; there are no queues inside `flux alloc`: submit from a shell outside "
    "it, or by `--site flux`, which names none",
    "Invalid queue": _QUEUES,
    "dependency": "the job it waits for is unknown to Flux, or ended otherwise than it is waited for: "
    "correct `batch.dependency`",
    "--requires": "correct `batch.constraint`",
    "constraint": "`flux resource list` shows the nodes: correct `batch.constraint`",
    "bank": "`flux account view-user $USER` shows your banks: correct `batch.account`",
    "unsatisfiable": _RESOURCES,
    "cannot be satisfied": _RESOURCES,
}
"""Hints by words of Flux's refusals; the first match counts, so the most specific come first."""

_LOST: Final = re.compile(r"\[Errno (?:5|32|71|10[0-8]|11[0-3]|125)\]|timed out|reset by peer|Broken pipe")
"""Errors of a lost answer (I/O, pipe, protocol, network): the job may exist."""


class Flux(base.BatchSystem):
    """Flux as a scheduler; jobs are found again by their attribute ``user.hpcdist``, ``hpcdist:TOKEN``.

    The word before the token keeps Flux from reading it as JSON: ``123e4567`` would become another number.
    """

    name = "flux"
    directive_module = "hpcdist.schedulers.flux.directives"
    installation = INSTALLATIONS["flux"]
    open_mpi_support = "Flux"
    has_arrays = False
    node_flags = ("--requires",)
    accounting = FluxAccounting()

    def submit(self, submission: base.Submission) -> Command:
        """Return the flux command; its options override the script's."""
        token = f"--setattr=user.hpcdist=hpcdist:{submission.token}"
        after = (f"--dependency=afterany:{job}" for job in submission.after)
        words = ("flux", "batch", token, *after, submission.script)
        return Command(words, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id; output with anything else is not read."""
        answer = completed.stdout.strip()
        refused = not answer and _is_refusal(completed)
        return answers.submission_id(
            completed, plain_id(answer), system="Flux", program="flux batch", refused=refused, hints=_HINTS
        )

    def find(self) -> Iterator[Command]:
        """Yield the command that prints the jobspecs of this user's latest jobs."""
        yield Command(("bash", "-c", _FIND), timeout=120)

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        rows = (_FOUND.fullmatch(line.strip()) for line in completed.stdout.splitlines())
        return {row[2]: job_id for row in rows if row and (job_id := plain_id(row[1]))}

    def queries(self) -> tuple[base.Query, ...]:
        """Return the listing, and the query for one job that is no longer in it."""
        return Listing(), ById()

    def lost_nodes(self, status: Status) -> tuple[str, ...]:
        """Return the node that the exception of a job names, which may be up again by now."""
        return tuple(LOST_NODE.findall(status.reason)) if status.state is JobState.NODE_FAIL else ()

    def inside(self, nodes: base.Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield one ``flux exec`` in the job's own instance, whose ranks are its nodes; it has no terminal.

        flux proxy joins its words by spaces for the user's shell on this machine (src/cmd/builtin/proxy.c).
        """
        del terminal
        ranks = ",".join(map(str, nodes.numbers))
        line = answers.line_of(("flux", "exec", "--quiet", f"--rank={ranks}", *words))
        yield Command(("flux", "proxy", nodes.job, line), keep_environment=("LC_ALL",))

    def shell(self, request: base.ShellRequest) -> Command:
        """Return ``flux alloc``, whose program is the first one of the instance (flux-alloc(1))."""
        token = f"--setattr=user.hpcdist=hpcdist:{request.submission.token}"
        words = ("flux", "alloc", token, *answers.options(request.directives))
        return Command((*words, "bash", request.submission.script), keep_environment=("LC_ALL",))

    def request_nodes(self, names: Sequence[str]) -> base.NodeRequest:
        """Name the candidates, without brackets, which mean a choice in constraints (flux-batch(1))."""
        return base.NodeRequest(constraint=f"host:{','.join(names)}")

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that ends these jobs by TERM, and KILL 5 s later; ended jobs are no failure."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", *(job.id for job in jobs)))

    def wait(self, job: Job) -> Command:
        """Return the command that waits for the last event of a job."""
        return Command(("flux", "job", "wait-event", "--quiet", job.id, "clean"))


def _is_refusal(completed: Completed) -> bool:
    """Whether the job was certainly not made: flux batch says ``ERROR:`` or ``error:`` and why."""
    message = completed.stderr
    if not re.search(r"(?m)^flux(?:[- ]batch)?: (?:ERROR|error): ", message):
        return False
    return _NOT_ASKED in message or not _LOST.search(message)


FLUX: Final = Flux()
