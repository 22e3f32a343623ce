"""IBM Spectrum LSF: bsub, bjobs, bhist and bkill, of version 9.1 and later; plain, or with CSM and jsrun.

Sources: the manual pages of 10.1 (https://www.ibm.com/docs/en/spectrum-lsf/10.1.0), the Summit user guide for
CSM, and published answers of real clusters (``tests/transcripts/lsf``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import SchedulerError
from hpcdist.plan.values import Origin
from hpcdist.schedulers import INSTALLATIONS, answers, base
from hpcdist.schedulers.job import (
    Job,
    JobState,
    Status,
    Usage,
    count,
    element_id,
    fold,
    reused_id,
    seconds,
    size,
    split_id,
)

if TYPE_CHECKING:
    from hpcdist.plan.model import Plan
    from hpcdist.site.model import Site


# --- The states of jobs in LSF: bjobs for queued, running and just ended jobs, bhist for finished jobs
#
# Ids: a job is ``123``, an element of an array ``123[4]``. Sources: bjobs(1) and bhist(1) of LSF 10.1,
# https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bjobs, and "Termination reasons displayed
# by bacct, bhist, and bjobs" there.

_STATES: Final = {
    "PEND": JobState.PENDING,
    "PROV": JobState.PENDING,  # its host is being powered on
    "WAIT": JobState.PENDING,  # in a chunk: jobs that run one after the other
    "PSUSP": JobState.SUSPENDED,
    "USUSP": JobState.SUSPENDED,
    "SSUSP": JobState.SUSPENDED,
    "RUN": JobState.RUNNING,
    "DONE": JobState.COMPLETED,
    "EXIT": JobState.FAILED,
    # The host does not answer; the job's fate is not known yet.
    "UNKWN": JobState.UNKNOWN,
    "ZOMBI": JobState.UNKNOWN,
}

_REASONS: Final = {
    JobState.TIMEOUT: "RUNLIMIT DEADLINE CPULIMIT",
    JobState.OUT_OF_MEMORY: "MEMLIMIT SWAP",
    # An orphan: its dependency can never be met.
    JobState.CANCELLED: "OWNER FORCE_OWNER ADMIN FORCE_ADMIN BUCKET_KILL CHKPNT ORPHAN_SYSTEM",
    # Other jobs, its queue, another cluster or the cloud wanted its hosts, or somebody requeued it.
    JobState.PREEMPTED: "PREEMPT LOAD WINDOW RC RC_RECLAIM MC_RECALL REQUEUE_OWNER REQUEUE_ADMIN REQUEUE_RC",
    JobState.NODE_FAIL: "ZOMBIE REMOVE_HUNG_JOB CSM_ALLOC RMS SLURM CTRL_PID",
    JobState.FAILED: "PROCESSLIMIT THREADLIMIT EXTERNAL_SIGNAL CWD_NOTEXIST PRE_EXEC_FAIL DATA KUBE "
    "OTHER UNKNOWN",
}
REASONS: Final = {f"TERM_{word}": state for state, words in _REASONS.items() for word in words.split()}
"""Why a job exited; FAILED if the program failed, or its start."""

DROP: Final = ("BSUB_", "LSB_BJOBS_")
"""Variables that change what LSF's commands do or show: BSUB_QUIET hides the id of a new job."""

COLUMNS: Final = "jobid jobindex stat exit_code exit_reason pend_reason job_description"

# JSON needs 10.1.0.2, `-o` needs 9.1; older versions, and OpenLava, print one fixed table.
_ASK: Final = """\
output=$(bjobs -a -json -o "$1" 2>&1) ||
  output=$(bjobs -a -noheader -o "$1 delimiter='|'" 2>&1) ||
  output=$(bjobs -a -w 2>&1)
code=$?
[[ $output != *"No "*"job found"* ]] || code=0
((code == 0)) || exec >&2
printf '%s\\n' "$output"
exit "$code"
"""

_OTHER: Final = reused_id("bjobs")
_NOT_OVER: Final = Status(JobState.UNKNOWN, "not over", source="bhist")
_ID: Final = re.compile(r"([0-9]+)(?:\[([0-9]+)\])?")
_TABLE: Final = re.compile(
    r"([0-9]+)[ ]+\S+[ ]+([A-Z]+)[ ]+\S.*?(?:\[([0-9]+)\][ ]+[A-Z][a-z]+[ ]+[0-9]+[ ]+[0-9:]+)?"
)
"""A row of the table; an array's element has its index after the job's name, before the time."""


def ask() -> Command:
    """Return the command that shows all of this user's jobs, in the best form that this LSF has."""
    return Command(("bash", "-c", _ASK, "hpcdist", COLUMNS), drop_environment=DROP)


def records(completed: Completed) -> Iterator[Mapping[str, str]]:
    """Yield the record of each job by column, an element's with its own ``jobid``; none if unreadable."""
    text = completed.stdout
    if not completed.ok:
        return
    for row in list(_from_json(text)) or _from_lines(text):
        index = row.get("jobindex", "0")
        has_own = index in ("0", "") or "[" in row.get("jobid", "")
        yield row if has_own else {**row, "jobid": f"{row.get('jobid', '')}[{index}]"}


def _from_json(text: str) -> Iterator[dict[str, str]]:
    start = re.search(r"(?m)^\s*\{", text)
    if not start:
        return
    try:
        document, _ = json.JSONDecoder(strict=False).raw_decode(text[start.end() - 1 :])
    except (ValueError, RecursionError):
        return
    rows: Any = document.get("RECORDS")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and all(isinstance(value, str) for value in row.values()):
            yield {str(name).lower(): value for name, value in row.items()}


def _from_lines(text: str) -> Iterator[dict[str, str]]:
    names = COLUMNS.split()
    for line in text.splitlines():
        values = line.split("|", len(names) - 1)
        if len(values) == len(names):
            yield {name: "" if value == "-" else value for name, value in zip(names, values, strict=True)}
        elif match := _TABLE.fullmatch(line):
            yield {"jobid": match[1], "stat": match[2], "jobindex": match[3] or "0"}


def base_id(text: str) -> str:
    """Return the id of the whole job: ``12`` of ``12[3]``; empty for junk."""
    match = _ID.fullmatch(text)
    return match[1] if match else ""


def key(text: str) -> str:
    """Return the key of this job, or element of an array, in an answer; empty for junk."""
    match = _ID.fullmatch(text)
    return "" if not match else element_id(match[1], int(match[2])) if match[2] else match[1]


def status(word: str, code: str = "", why: str = "", pending: str = "", source: str = "bjobs") -> Status:
    """Return what a state means, with the reason if the job did not end by itself."""
    state = _STATES.get(word, JobState.UNKNOWN)
    if state is JobState.FAILED:
        state = REASONS.get(why.partition(":")[0].strip(), state)
    number = int(code) if re.fullmatch("[0-9]{1,5}", code) else None
    if state is JobState.COMPLETED:
        number = 0
    reason = why if state.is_final else pending if state is JobState.PENDING else ""
    return Status(state, word, number, reason.strip(" ;\n"), source)


class Bjobs(base.Query):
    """All of this user's jobs at once; bjobs forgets after CLEAN_PERIOD, an hour by default."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:  # noqa: ARG002
        """Yield one command."""
        yield ask()

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that bjobs still knows."""
        tokens = {job.id: job.token for job in jobs}
        found: dict[str, Status] = {}
        for row in records(completed):
            number = base_id(text := row.get("jobid", ""))
            if number in tokens and re.fullmatch("[A-Z]+", row.get("stat", "")):
                status = _of_row(row, tokens[number])
                name = number if status is _OTHER else key(text)
                found[name] = fold([found[name], status]) if name in found else status
        return found


def _of_row(row: Mapping[str, str], token: str) -> Status:
    if token and row.get("job_description", f"hpcdist:{token}") != f"hpcdist:{token}":
        return _OTHER  # LSF begins with 1 again after MAX_JOBID
    reasons = (row.get("exit_reason", ""), row.get("pend_reason", ""))
    return status(row["stat"], row.get("exit_code", ""), *reasons)


class Bhist(base.Query):
    """The history of one job, from all the logs that LSF keeps."""

    one_by_one: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job: bhist reads files, and should read no more than it must."""
        for job in jobs:
            yield Command(("bhist", "-n", "0", "-l", job.id), drop_environment=DROP)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the final state of the job, or of its finished elements."""
        asked = completed.command.argv[-1]
        token = next((job.token for job in jobs if job.id == asked), None)
        text = re.sub(r"\n {21}", "", completed.stdout)  # bhist breaks lines anywhere, even in a word
        parts = re.findall(rf"(?ms)^Job <({re.escape(asked)}(?:\[[0-9]+\])?)>(.*?)(?=^Job <|\Z)", text)
        described = set(re.findall(r"Job Description <(hpcdist:[^>]*)>", text))
        if token is None or (described and described != {f"hpcdist:{token}"}):
            return {}
        ends = {key(job_id): _end(part) or _NOT_OVER for job_id, part in parts}
        return {name: end for name, end in ends.items() if end is not _NOT_OVER or name != asked}


def _end(text: str) -> Status | None:
    """Return how a job ended, by its last event; ``Completed`` comes after ``Exited``."""
    ends = list(re.finditer(r": (Done successfully|Completed <done>|Completed <exit>|Exited\b)", text))
    if not ends or re.search(r": (?:Dispatched|Starting|Requeued)", text[ends[-1].end() :]):
        return None
    if ends[-1][1] in ("Done successfully", "Completed <done>"):
        return status("DONE", source="bhist")
    codes = re.findall(r": Exited with exit code ([0-9]+)", text)
    signals = re.findall(r": Exited by (?:LSF )?signal ([0-9]+)", text)
    code = codes[-1] if codes else str(128 + int(signals[-1])) if signals else ""
    reasons = re.findall(r"Completed <exit>; (TERM_[^.;\n]*)", text)
    return status("EXIT", code, next(iter(reversed(reasons)), ""), source="bhist")


def tokens(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return job ids by token."""
    found: dict[str, str] = {}
    for row in rows:
        match = re.fullmatch(r"hpcdist:(\w+)", row.get("job_description", ""), re.ASCII)
        if match and (number := base_id(row.get("jobid", ""))):
            found.setdefault(match[1], number)
    return found


# --- What a job used, while bjobs knows it: its times have no year, and are not read
#
# ``max_mem`` and ``cpu_used`` count all processes of the job; ``slots`` are its CPUs at most sites.
# Source: https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bjobs, of 10.1.0.2 and later.

_COLUMNS: Final = "jobid jobindex stat exit_code exit_reason max_mem cpu_used slots"


class LsfAccounting(base.Accounting):
    """The job, or each element of an array."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield Command(("bjobs", "-a", "-json", "-o", _COLUMNS, job.id), drop_environment=DROP)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the last start of the job, or of each element of an array."""
        for record in records(completed):
            if base_id(text := record.get("jobid", "")) == job.id and "max_mem" in record:
                said = status(
                    record.get("stat", ""), record.get("exit_code", ""), record.get("exit_reason", "")
                )
                _, element = split_id(key(text))
                memory = size(record["max_mem"])
                yield Usage(
                    int(element) if element else None,
                    said.state,
                    exit_code=said.exit_code,
                    max_memory=memory,
                    total_memory=memory,
                    cpu_seconds=seconds(record.get("cpu_used", "")),
                    cpus=count(record.get("slots", "")),
                )


# --- IBM Spectrum LSF

BY_STDIN: Final = "# bsub reads it from its standard input: bsub <job.sh"
BY_NAME: Final = "# bsub reads it by its name: bsub job.sh"
"""How bsub reads a script for LSF: a comment in the script tells its user and hpcdist."""

# $1: the token, $2: the script, which has one of these comments.
_SUBMIT: Final = f"""\
[[ -r $2 ]] || {{ echo "$2 cannot be read. Job not submitted." >&2; exit 255; }}
if grep -qxF -e '{BY_STDIN}' -- "$2"; then
  exec bsub -Jd "$1" "${{@:3}}" <"$2"
else
  exec bsub -Jd "$1" "${{@:3}}" "$2"
fi
"""

# It is no failure that a job is over already; any other message of bkill is.
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
"""Words of a lost answer: bsub prints "Job not submitted" even then."""

_USAGE: Final = re.compile(r"illegal option|[Uu]sage: bsub|Illegal job name|option requires|[Bb]ad option")


class Lsf(base.BatchSystem):
    """LSF as a scheduler; jobs are found again by their description, ``hpcdist:TOKEN``."""

    name = "lsf"
    directive_module = "hpcdist.schedulers.lsf.directives"
    array_limit = base.ArrayLimit(1000, "MAX_JOB_ARRAY_SIZE")  # lsb.params(5)
    orphan_directive = "-ti"
    installation = INSTALLATIONS["lsf"]
    open_mpi_support = "LSF"
    accounting = LsfAccounting()
    node_flags = ("-m", "-hostfile")

    def cannot_exclude(self, site: Site) -> str:
        """Return why, if the site requests whole nodes."""
        whole = "asks for whole nodes by -nnodes, with which LSF takes no names of nodes"
        return f"site {site.name} {whole}" if site.lsf.request == "nodes" else ""

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the request if it is for whole nodes: ``-nnodes`` has no memory."""
        return "lsf.request" if site.lsf.request == "nodes" else ""

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield how bsub reads the script, then the ``#BSUB`` lines with their origins.

        Raises:
            PlanError: for a value that no directive can hold.
        """
        by_stdin = plan.request.lsf.submit == "stdin"
        yield BY_STDIN if by_stdin else BY_NAME, Origin("site", plan.identity.site, "lsf.submit")
        yield from super().header(plan, run_dir)

    def submit(self, submission: base.Submission) -> Command:
        """Return the bsub command; a comment in the script tells whether bsub reads it by name."""
        after = ("-w", " && ".join(f"ended({job})" for job in submission.after)) if submission.after else ()
        words = ("bash", "-c", _SUBMIT, "hpcdist", f"hpcdist:{submission.token}", submission.script, *after)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id; an esub of the site may print other lines."""
        message = "\n".join(filter(None, (completed.stderr.strip(), completed.stdout.strip())))
        if completed.returncode == 127 and "bsub: " in message:  # noqa: PLR2004 - bash: not found
            raise SchedulerError(answers.missing("bsub"))
        ids: list[str] = re.findall(r"(?m)^Job <([0-9]+)> is submitted to ", completed.stdout)
        return answers.submission_id(
            completed,
            ids[0] if len(ids) == 1 else None,
            system="LSF",
            program="bsub",
            refused=not ids and _is_refused(message),
            hints=_HINTS,
            message=message,
        )

    def find(self) -> Iterator[Command]:
        """Yield bjobs, which shows ended jobs for an hour."""
        yield ask()

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        return tokens(records(completed))

    def queries(self) -> tuple[base.Query, ...]:
        """Return bjobs and bhist, in this order."""
        return Bjobs(), Bhist()

    def inside(self, nodes: base.Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an lsrun for each node, which runs outside the job: blaunch works only inside.

        The source is the manual of 10.1 alone; sites may have disabled it (LSF_DISABLE_LSRUN).
        """
        for name in nodes.names:
            argv = ("lsrun", *(["-P"] if terminal else []), "-m", name, *words)
            yield Command(argv, drop_environment=DROP, keep_environment=("LC_ALL",))

    def shell(self, request: base.ShellRequest) -> Command:
        """Return ``bsub -I``, ``-Is`` for a terminal; it ends with the job's exit code (bsub(1))."""
        token = ("-Jd", f"hpcdist:{request.submission.token}")
        words = ("bsub", "-Is" if request.terminal else "-I", *token, *answers.options(request.directives))
        return Command((*words, "bash", request.submission.script), (), DROP, ("LC_ALL",))

    def request_nodes(self, names: Sequence[str]) -> base.NodeRequest:
        """Name the candidates: as many as the job has hosts, so that it gets all (bsub(1), ``-m``)."""
        return base.NodeRequest(f"-m '{' '.join(names)}'")

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the bkill command, for which a job that is over is no failure."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", *(job.id for job in jobs)), drop_environment=DROP)

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``bkill 12[3]``."""
        return Command(("bash", "-c", _CANCEL, "hpcdist", f"{job.id}[{index}]"), drop_environment=DROP)

    def wait(self, job: Job) -> Command:
        """Return bwait, which LSF 10.1 offers in place of frequent bjobs calls."""
        return Command(("bwait", "-w", f"ended({job.id})"), drop_environment=DROP)


def _is_refused(message: str) -> bool:
    """Whether bsub prints a refusal, not the error of a lost answer."""
    last = message.rpartition("Please wait ...")[2]
    refused = "ob not submitted" in last or "equest aborted by esub" in last
    return bool(_USAGE.search(message)) or (refused and not _DOUBTS.search(last))


LSF: Final = Lsf()
