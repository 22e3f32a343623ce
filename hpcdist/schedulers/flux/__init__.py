"""Flux: flux batch, flux jobs, flux job info and flux cancel.

Sources: the manual pages of flux-core 0.88 and its Python (src/bindings/python/flux/job/info.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import INSTALLATIONS, common
from hpcdist.schedulers.base import (
    Accounting,
    BatchSystem,
    NodeRequest,
    Nodes,
    Query,
    ShellRequest,
    Submission,
)
from hpcdist.schedulers.flux.queries import LOST_NODE, ById, Listing, Times, plain_id
from hpcdist.schedulers.job import Job, JobState, Status

_FOUND = re.compile(r'(\S+) "hpcdist": ?"hpcdist:([A-Za-z0-9_]+)"')

# A listing shows no attributes of jobs, so each is asked for its jobspec; flux job is no Python, and quick.
# Quotes of the script that a jobspec holds have a backslash in front.
_FIND: Final = """\
jobs=$(flux jobs -a -n --count=1000 -o '{id.f58}') || exit
for job in $jobs; do
  output=$(flux job info "$job" jobspec 2>/dev/null |
    grep -oE '"hpcdist": ?"hpcdist:[A-Za-z0-9_]+"' | head -n 1)
  echo "$job $output"
done
"""

_NOT_ASKED: Final = "Unable to connect to Flux"

# What is over already is no failure; anything else that flux cancel says of a job is.
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
    "not a valid queue": f"{_QUEUES}; inside `flux alloc` there are none: submit from a shell outside it, or "
    "by `--site flux`, which names none",
    "Invalid queue": _QUEUES,
    "dependency": "the job it waits for is unknown to Flux, or ended otherwise than it is waited for: "
    "correct `batch.dependency`",
    "--requires": "correct `batch.constraint`",
    "constraint": "`flux resource list` shows the nodes: correct `batch.constraint`",
    "bank": "`flux account view-user $USER` shows your banks: correct `batch.account`",
    "unsatisfiable": _RESOURCES,
    "cannot be satisfied": _RESOURCES,
}
"""What to do, by words of Flux's refusals; the first that is found counts, so the narrowest come first."""

_LOST: Final = re.compile(r"\[Errno (?:5|32|71|10[0-8]|11[0-3]|125)\]|timed out|reset by peer|Broken pipe")
"""What an answer that was lost on its way is called (I/O, pipe, protocol, network); the job may exist."""


class Flux(BatchSystem):
    """Flux as a scheduler; jobs are found again by their attribute ``user.hpcdist``, ``hpcdist:TOKEN``.

    The word before the token keeps Flux from reading it as JSON: ``123e4567`` would become another number.
    """

    name = "flux"
    directive_module = "hpcdist.schedulers.flux.directives"
    installation = INSTALLATIONS["flux"]
    open_mpi_support = "Flux"
    has_arrays = False
    node_flags = ("--requires",)

    def submit(self, submission: Submission) -> Command:
        """Return the flux command; what is on it beats the script."""
        token = f"--setattr=user.hpcdist=hpcdist:{submission.token}"
        after = (f"--dependency=afterany:{job}" for job in submission.after)
        words = ("flux", "batch", token, *after, submission.script)
        return Command(words, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id; only an answer that is nothing else is read."""
        answer = completed.stdout.strip()
        refused = not answer and _is_refusal(completed)
        return common.submitted(
            completed, plain_id(answer), system="Flux", program="flux batch", refused=refused, hints=_HINTS
        )

    def find(self) -> Iterator[Command]:
        """Yield one look at the jobspecs of this user's latest jobs."""
        yield Command(("bash", "-c", _FIND), timeout=120)

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        rows = (_FOUND.fullmatch(line.strip()) for line in completed.stdout.splitlines())
        return {row[2]: job_id for row in rows if row and (job_id := plain_id(row[1]))}

    def queries(self) -> tuple[Query, ...]:
        """Return the listing, and the question for one job that is no longer in it."""
        return Listing(), ById()

    def lost_nodes(self, status: Status) -> tuple[str, ...]:
        """Return the node that the exception of a job names, which may be up again when somebody asks."""
        return tuple(LOST_NODE.findall(status.reason)) if status.state is JobState.NODE_FAIL else ()

    def accounting(self) -> Accounting:
        """Return what it keeps of the starts of a job."""
        return Times()

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield one ``flux exec`` in the job's own instance, whose ranks are its nodes; it has no terminal.

        flux proxy joins its words by spaces for the user's shell on this machine (src/cmd/builtin/proxy.c).
        """
        del terminal
        ranks = ",".join(map(str, nodes.numbers))
        line = common.line_of(("flux", "exec", "--quiet", f"--rank={ranks}", *words))
        yield Command(("flux", "proxy", nodes.job, line), keep_environment=("LC_ALL",))

    def shell(self, request: ShellRequest) -> Command:
        """Return ``flux alloc``, whose program is the first one of the instance (flux-alloc(1))."""
        token = f"--setattr=user.hpcdist=hpcdist:{request.submission.token}"
        words = ("flux", "alloc", token, *common.options(request.directives))
        return Command((*words, "bash", request.submission.script), keep_environment=("LC_ALL",))

    def request_nodes(self, names: Sequence[str]) -> NodeRequest:
        """Name the candidates, without brackets, which constraints have for a choice (flux-batch(1))."""
        return NodeRequest(constraint=f"host:{','.join(names)}")

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that ends these jobs by TERM, and KILL 5 s later; what is over is no failure."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", *(job.id for job in jobs)))

    def wait(self, job: Job) -> Command:
        """Return the command that waits for the last event of a job."""
        return Command(("flux", "job", "wait-event", "--quiet", job.id, "clean"))


def _is_refusal(completed: Completed) -> bool:
    """Whether the job was certainly not made: flux batch says ``ERROR:`` or ``error:`` and why."""
    if completed.ok or completed.timed_out or completed.returncode < 0:
        return False
    message = completed.stderr
    if not re.search(r"(?m)^flux(?:[- ]batch)?: (?:ERROR|error): ", message):
        return False
    return _NOT_ASKED in message or not _LOST.search(message)


FLUX: Final = Flux()
