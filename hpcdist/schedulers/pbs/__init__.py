"""PBS Professional and OpenPBS: qsub, qstat, qselect and qdel, of version 19 and later; not Torque.

Sources: states, ids, fields and exit codes were seen on an OpenPBS 23.06; refusals are in ``pbs_error.h`` and
``pbs_messages.c`` of openpbs/openpbs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers import INSTALLATIONS, answers, base
from hpcdist.schedulers.job import (
    Job,
    JobState,
    Status,
    Usage,
    count,
    element_id,
    moment,
    reused_id,
    seconds,
    size,
)

if TYPE_CHECKING:
    from hpcdist.site.model import Site


# --- The states of jobs in PBS
#
# ``qstat -f -F dsv`` for queued and running jobs, with ``-x`` for finished jobs.
#
# Ids: ``1234.server``, an array ``1234[].server``, its elements ``1234[5].server``. ``-F dsv`` writes each
# job as one line; ``-F json`` of OpenPBS's main branch holds the first of several ids only (openpbs/openpbs
# issue 2672), and the submitter's environment may make it invalid JSON (issues 1255, 2541). Sources:
# answers of an OpenPBS 23.06; field separators: ``prt_attr`` of its ``qstat.c``; exit codes:
# ``pbs_error.h``, modulo 256.

# --- The state, exit code and reason of a job from its fields
#
# Sources: answers of an OpenPBS 23.06; negative exit codes: ``job.h`` of openpbs/openpbs; substates: its
# ``job.h`` as well (91 deleted, 92 finished, 93 failed).

Attributes = Mapping[str, str]

_PENDING: Final = frozenset("QHWT")
_RUNNING: Final = frozenset("RE")
_SUSPENDED: Final = frozenset("SU")
_OVER: Final = frozenset("FX")

_DELETED, _FAILED = "91", "93"
"""Substates of a job that qdel ended, and of one that failed (JOB_SUBSTATE_TERMINATED, _FAILED)."""
_SIGNALLED: Final = 256
_TERM: Final = 15

_WALLTIME: Final = -29
_REASONS: Final = {
    -1: (JobState.FAILED, "PBS could not start it (before its files were there)"),
    -2: (JobState.FAILED, "PBS could not start it (after its files were there)"),
    -3: (JobState.FAILED, "PBS could not start it, and was to try again"),
    -4: (JobState.NODE_FAIL, "its first node was restarted"),
    -5: (JobState.NODE_FAIL, "its first node was restarted, with a checkpoint"),
    -6: (JobState.NODE_FAIL, "its first node was restarted, with a checkpoint of another"),
    -7: (JobState.FAILED, "PBS could not start it again from its checkpoint"),
    -10: (JobState.FAILED, "its user or group is not known on the node"),
    -11: (JobState.FAILED, "it was to be run again"),
    -12: (JobState.PREEMPTED, "it was checkpointed and ended"),
    -13: (JobState.FAILED, "the user's password is wrong"),
    -14: (JobState.NODE_FAIL, "a node failed"),
    -15: (JobState.FAILED, "it was to be run again from its checkpoint"),
    -16: (JobState.FAILED, "a hook of the site failed"),
    -17: (JobState.FAILED, "a hook of the site failed"),
    -18: (JobState.FAILED, "a hook of the site refused it for now"),
    -19: (JobState.FAILED, "a hook of the site refused it"),
    -20: (JobState.NODE_FAIL, "its first node could not be reached"),
    -21: (JobState.FAILED, "a folder of PBS on the node is not safe"),
    -22: (JobState.FAILED, "a hook of the site failed or took too long"),
    -23: (JobState.FAILED, "there were no Kerberos credentials"),
    -24: (JobState.FAILED, "it used more CPUs than it had asked for"),
    -25: (JobState.FAILED, "it used more CPUs than it had asked for"),
    -26: (JobState.OUT_OF_MEMORY, "it used more virtual memory than it had asked for"),
    -27: (JobState.OUT_OF_MEMORY, "it used more memory than it had asked for"),
    -28: (JobState.TIMEOUT, "it used more CPU time than it had asked for"),
    _WALLTIME: (JobState.TIMEOUT, "its walltime was over"),
    -30: (JobState.NODE_FAIL, "its nodes could not join it"),
}
"""PBS's own reasons, by Exit_status."""

_COMPLETED: Final = Status(JobState.COMPLETED, exit_code=0)
_UNTOLD: Final = {
    "interactive": Status(JobState.VANISHED, reason="PBS does not keep what a shell of qsub -I returned"),
    "array": Status(JobState.VANISHED, reason="PBS does not say how each of its elements ended"),
}
"""Jobs that end with 0 even if they failed: an element may have been deleted while it waited."""
_COUNT: Final = re.compile(r"(Queued|Running|Exiting):([0-9]+)")
_HOLDERS: Final = {"u": "its owner", "o": "an operator", "s": "the system", "p": "its owner's wrong password"}


def status(record: Attributes) -> Status:
    """Return the status of a job from its record."""
    word, comment = record.get("job_state", ""), record.get("comment", "").strip()
    if word in _PENDING:
        return Status(JobState.PENDING, word, None, comment or _waits(record), "qstat")
    if word == "B":
        return Status(_of_array(record), word, source="qstat")
    if word in _RUNNING:
        return Status(JobState.RUNNING, word, source="qstat")
    if word in _SUSPENDED:
        return Status(JobState.SUSPENDED, word, None, comment, "qstat")
    if word in _OVER:
        return replace(_end(record), native=word, source="qstat")
    reason = "it was moved to another server: ask there" if word == "M" else comment
    return Status(JobState.UNKNOWN, word, None, reason, "qstat")


def _waits(record: Attributes) -> str:
    """Return the reason why a job without a comment is pending."""
    if record.get("Execution_Time"):
        return f"it is to begin at {record['Execution_Time']}"
    if others := _others(record):
        return f"it waits for {others}"
    holder = _HOLDERS.get(record.get("Hold_Types", "n")[:1])
    return f"it is held by {holder}" if holder and record.get("job_state") == "H" else ""


def _others(record: Attributes) -> str:
    """Return the jobs on which a job depends, in qsub's syntax, without jobs that depend on it."""
    parts = re.sub(r"@[^:,]+", "", record.get("depend", "")).split(",")
    return ",".join(part for part in parts if not part.startswith("before"))


def _of_array(record: Attributes) -> JobState:
    counts = {name: int(count) for name, count in _COUNT.findall(record.get("array_state_count", ""))}
    waits = counts.get("Queued", 0) and not counts.get("Running", 0) + counts.get("Exiting", 0)
    return JobState.PENDING if waits else JobState.RUNNING


def _end(record: Attributes) -> Status:
    """Read Exit_status: the script's own code, 256 and a signal, or a reason of PBS's own below zero."""
    text, substate = record.get("Exit_status", ""), record.get("substate")
    code = int(text) if re.fullmatch(r"-?[0-9]{1,9}", text, re.ASCII) else None
    if code is None or (code >= 0 and _never_ran(record)):
        return Status(JobState.CANCELLED, reason=_why_never(record))
    if code < 0:
        state, reason = _REASONS.get(code, (JobState.FAILED, "PBS ended it"))
        return Status(state, reason=f"{reason} (Exit_status {code})")
    if substate == _DELETED:
        return Status(JobState.CANCELLED, exit_code=_shown(code, record), reason=_who(record))
    if code >= _SIGNALLED and _is_out_of_time(record):
        return Status(JobState.TIMEOUT, exit_code=_shown(code, record), reason=_REASONS[_WALLTIME][1])
    if not code and substate != _FAILED:
        return next((end for kind, end in _UNTOLD.items() if record.get(kind) == "True"), _COMPLETED)
    state = JobState.CANCELLED if code == _SIGNALLED + _TERM else JobState.FAILED
    reason = f"killed by signal {code - _SIGNALLED}" if code >= _SIGNALLED else ""
    return Status(state, exit_code=_shown(code, record), reason=reason)


def _is_out_of_time(record: Attributes) -> bool:
    """Whether a job that a signal ended had used up its time: not every PBS writes -29 then."""
    used, limit = (
        _seconds(record.get(f"{name}.walltime", "")) for name in ("resources_used", "Resource_List")
    )
    return used is not None and limit is not None and used >= limit > 0


def _seconds(text: str) -> int | None:
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d)", text, re.ASCII)
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


def _shown(code: int, record: Attributes) -> int | None:
    """Return an exit code as a shell shows it.

    The code of an array is from the element that ended last: 0 does not mean that all completed.
    """
    if code == 0 and record.get("array") == "True" and record.get("substate") in (_DELETED, _FAILED):
        return None
    return code - _SIGNALLED + 128 if code >= _SIGNALLED else code


def _never_ran(record: Attributes) -> bool:
    """Whether the job was deleted before it began; even then an array's element has an Exit_status."""
    ran = record.get("exec_host") or record.get("run_count") or record.get("array") == "True"
    return not ran


def _why_never(record: Attributes) -> str:
    others = _others(record)
    if record.get("substate") == _DELETED or not others:
        waited = re.match(
            r"((?:Not Running|Can Never Run): .*?)\.?(?: and terminated|$)", record.get("comment", "")
        )
        return "it was deleted before it began" + (f" ({waited[1]})" if waited else "")
    return f"it never ran: what it waited for cannot happen any more: {others}"


def _who(record: Attributes) -> str:
    """Return the user who deleted the job, if the comment names one."""
    match = re.search(r"terminated by (\S+)$", record.get("comment", "").strip())
    return f"deleted by {match[1]}" if match else "deleted"


TOKEN: Final = "HPCDIST_TOKEN"  # noqa: S105 - its name
PREFIX: Final = "hpcdist:"
"""The prefix of a token: other values of a variable HPCDIST_TOKEN are not tokens."""

DROP: Final = ("PBS_DPREFIX", "HPCDIST_TOKEN")
"""Variables that change how qsub reads a script, and the token of a job that submits another."""

# $@ is a command of PBS. A job that is over (35), unknown (153) or ending (168) is an answer, too.
_ASK: Final = """\
{ output=$("$@" 2>&1 >&3); } 3>&1
code=$?
case $code in
35 | 153 | 168) code=0 ;;
0 | 127) ;;
*)
  [[ $(qstat --version 2>&1) == *pbs_version* ]] ||
    output="this is not the qstat of PBS Pro or OpenPBS, and hpcdist does not know Torque: $output"
  ;;
esac
[[ -z $output ]] || printf '%s\\n' "$output" >&2
exit "$code"
"""

# $1 is -x for jobs that are over. No command line is too long for several hundred ids.
_FIND: Final = """\
set -f
ids=$(qselect $1 -u "$(id -un)") || exit
ids=($ids)
for ((first = 0; first < ${#ids[@]}; first += 500)); do
  qstat $1 -f -F dsv "${ids[@]:first:500}"
  code=$?
  ((code == 0 || code == 35 || code == 153)) || exit "$code"
done
"""

_ID: Final = re.compile(r"([0-9]+(?:\[[0-9]*\])?)\.([A-Za-z0-9_-]+)[\w.-]*", re.ASCII)
_ELEMENT: Final = re.compile(r"([0-9]+)\[([0-9]+)\]", re.ASCII)
_FIELD: Final = re.compile(r"(?:[^\\|]+|\\.)+")
"""Text between two ``|``; in a value, ``|`` has a backslash before it."""
_TOKEN: Final = re.compile(rf"(?:^|(?<!\\),){TOKEN}={PREFIX}(\w+)(?=,|$)", re.ASCII)

_OTHER: Final = reused_id("qstat")

_Key = tuple[str, str]


def command(*argv: str) -> Command:
    """Return a command of PBS that does not fail for jobs that are over or unknown."""
    return Command(("bash", "-c", _ASK, "hpcdist", *argv), drop_environment=DROP)


def find(option: str = "") -> Command:
    """Return the command that lists this user's jobs; ``-x``: those that are over, too."""
    return Command(("bash", "-c", _FIND, "hpcdist", option), drop_environment=DROP)


def key(job_id: str) -> _Key | None:
    """Return the same key for ids with the short and the full name of the server; None for junk."""
    match = _ID.fullmatch(job_id)
    return (match[1], match[2]) if match else None


def element_of(job_id: str, array: str) -> int | None:
    """Return the index of an id in this array; None for any other job."""
    number, server = key(job_id) or ("", "")
    element = _ELEMENT.fullmatch(number)
    return int(element[2]) if element and key(array) == (f"{element[1]}[]", server) else None


def records(text: str) -> dict[str, Attributes]:
    """Return the jobs of an answer, by id; nothing of junk, nor of a line that was cut off."""
    found = {}
    for line in text.split("\n")[:-1]:
        head, *fields = _FIELD.findall(line) or [""]
        if head.startswith("Job Id: "):
            pairs = (field.replace("\\|", "|").partition("=") for field in fields)
            found[head.removeprefix("Job Id: ")] = {name: value for name, _, value in pairs}
    return {job_id: record for job_id, record in found.items() if record.get("job_state")}


def token_of(record: Attributes) -> str:
    """Return the token that a job carries, empty for one that hpcdist did not submit."""
    match = _TOKEN.search(record.get("Variable_List", ""))
    return match[1] if match else ""


class PbsQstat(NamedTuple):
    """One query for jobs: for unfinished ones, or for finished ones, too.

    ``arrays``: for arrays as a whole, in case the answer with all their elements was too long.
    """

    options: tuple[str, ...] = ()
    arrays: bool = False
    one_by_one: bool = False
    provisional: bool = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for all."""
        ids = [job.id for job in jobs if not self.arrays or "[]" in job.id]
        if ids:
            yield command("qstat", *self.options, "-f", "-F", "dsv", *ids)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that PBS knows, and of the elements of arrays that it shows."""
        if completed.timed_out:  # elements may be missing
            return {}
        wanted = {key(job.id): job for job in jobs}
        found: dict[str, Status] = {}
        for job_id, record in records(completed.stdout).items():
            number, server = name = key(job_id) or ("", "")
            element = _ELEMENT.fullmatch(number)
            if job := wanted.get(name):
                token = token_of(record)
                found[job.id] = _OTHER if token and job.token and token != job.token else status(record)
            elif element and (array := wanted.get((f"{element[1]}[]", server))):
                found[element_id(array.id, int(element[2]))] = status(record)
        return found


# --- The last start of a job, by the fields of ``qstat -x -f``, where the server keeps a history
#
# ``resources_used.mem`` counts all processes of the job on all its nodes, and so does ``cput``.
# Sources: qstat(1B) and job attributes(7B); answers of an OpenPBS 23.06.


class PbsAccounting(base.Accounting):
    """The job, or each element of an array."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield command("qstat", "-x", "-t", "-f", "-F", "dsv", job.id)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the last start of the job, or of each element of an array."""
        for job_id, record in records(completed.stdout).items():
            element = element_of(job_id, job.id)
            if element is not None or (key(job_id) == key(job.id) and record.get("array") != "True"):
                yield _usage(element, record)


def _usage(element: int | None, record: Attributes) -> Usage:
    said = status(record)
    ended = moment(record.get("obittime", "")) if said.state.is_final else None
    memory = size(record.get("resources_used.mem", ""))
    nodes = [part.partition("/")[0] for part in record.get("exec_host", "").split("+")]
    return Usage(
        element,
        said.state,
        # an element that never ran has the array's
        started=moment(record.get("stime", "")) if any(nodes) else None,
        ended=ended,
        exit_code=said.exit_code,
        hosts=tuple(dict.fromkeys(filter(None, nodes))),
        max_memory=memory,
        total_memory=memory,
        cpu_seconds=seconds(record.get("resources_used.cput", "")),
        cpus=count(record.get("resources_used.ncpus", "")),
        gpus=count(record.get("Resource_List.ngpus", "")),
    )


# --- When PBS expects jobs to start: ``estimated.start_time``, where its server estimates that
#
# Sources: qstat(1B) and job attributes(7B) of PBS Professional; answers of public machines, such as
# ``estimated.start_time = Tue Feb 14 02:10:01 2023``.


class PbsStarts(base.Starts):
    """The estimates that its server writes into jobs that wait; it estimates no start of a script."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for all of them."""
        if ids := [job.id for job in jobs if key(job.id)]:
            yield command("qstat", "-f", "-F", "dsv", *ids)._replace(timeout=15.0)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return the times of the jobs that have one."""
        found = {}
        answer = records(completed.stdout).items()
        times = {key(job_id): record.get("estimated.start_time") for job_id, record in answer}
        for job in jobs:
            start = moment(times.get(key(job.id)) or "")
            if start is not None:
                found[job.id] = start
        return found


# --- PBS Professional and OpenPBS

_QSUB: Final = ("qsub", "-W", "block=false")
"""PBS ignores this option (``qsub.c`` since 14.1); Grid Engine's qsub, which would make a job
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
"""Messages of qsub before it asks the server, or of the server, by which the job was not made."""

_REFUSAL_CODES: Final = frozenset(
    number % 256
    for number in (
        15002, 15003, 15004, 15007, 15008, 15014, 15018, 15019, 15020, 15021, 15022, 15023, 15032, 15034,
        15035, 15036, 15037, 15039, 15045, 15046, 15048, 15049, 15054, 15055, 15060, 15089, 15107, 15108,
        15109, 15110, 15111, 15116, 15136, 15141, 15142, 15143, 15144, 15156, 15162, 15163, 15169, 15172,
        15173, 15175,
    )
)  # fmt: skip
"""Exit codes of a refusal: PBSE_ numbers, also of a site's hooks (15136, 15169)."""


class Pbs(base.BatchSystem):
    """PBS as a scheduler; jobs are found again by a variable that they carry, ``HPCDIST_TOKEN``."""

    name = "pbs"
    directive_module = "hpcdist.schedulers.pbs.directives"
    names_gpus = False  # only its cgroups hook does
    sets_threads = True  # to the CPUs of a chunk
    rounds_cpus = True
    open_mpi_support = "PBS"
    installation = INSTALLATIONS["pbs"]
    accounting = PbsAccounting()
    starts = PbsStarts()

    def cannot_exclude(self, site: Site) -> str:
        """Return why: ``-l select=1:host=n1`` names a node, and ``=`` is the only operator."""
        del site
        return "a job of PBS can name the nodes that it gets, and none that it must not get"

    def submit(self, submission: base.Submission) -> Command:
        """Return the qsub command; ``-v`` adds the token to the ``-V`` of the script."""
        after = ("-W", f"depend=afterany:{':'.join(submission.after)}") if submission.after else ()
        words = (*_QSUB, "-v", f"{TOKEN}={PREFIX}{submission.token}", *after, submission.script)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",), timeout=120)

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id, with its server."""
        ids = [line for line in map(str.strip, completed.stdout.splitlines()) if _JOB_ID.fullmatch(line)]
        job_id = ids[0] if len(ids) == 1 else None
        refused = not ids and _is_refused(completed)
        return answers.submission_id(
            completed, job_id, system="PBS", program="qsub", refused=refused, hints=_HINTS
        )

    def find(self) -> Iterator[Command]:
        """Yield this user's jobs, then those that are over, where the server keeps a history."""
        yield find()
        yield find("-x")

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        jobs = records(completed.stdout).items()
        return {token: job_id for job_id, record in jobs if key(job_id) and (token := token_of(record))}

    def queries(self) -> tuple[base.Query, ...]:
        """Return qstat of unfinished jobs, of finished ones with array elements, of arrays without these."""
        return PbsQstat(), PbsQstat(("-x", "-t")), PbsQstat(("-x",), arrays=True)

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return pbsnodes: vnodes have the names of their hosts without the domain."""
        return Command(("pbsnodes", "-F", "json", *dict.fromkeys(node.partition(".")[0] for node in nodes)))

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the nodes that are down, as PBS calls them and as their MoM does."""
        from hpcdist.schedulers.pbs.survey import section  # where a node may have been lost

        found = section(completed.stdout, "nodes").items()
        down = [(name, str(node.get("Mom"))) for name, node in found if _LOST.search(str(node.get("state")))]
        return tuple(dict.fromkeys(itertools.chain(*down)))

    def inside(self, nodes: base.Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an ssh for each node: pbs_tmrsh works only inside the job (its manual page)."""
        return answers.by_ssh(nodes, words, terminal=terminal)

    def login_shell(self, request: base.ShellRequest) -> Command:
        """Return ``qsub -I``: it reads the script's directives alone, and takes no program (qsub(1B))."""
        words = (*_QSUB, "-I", "-v", f"{TOKEN}={PREFIX}{request.submission.token}", request.submission.script)
        return Command(words, drop_environment=DROP, keep_environment=("LC_ALL",))

    def request_nodes(self, names: Sequence[str]) -> base.NodeRequest:
        """Request a chunk for each node: PBS has no list of them (pbs_resources(7B), ``host``)."""
        return base.NodeRequest(of_each=tuple(f"host={name}" for name in names))

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the qdel command; jobs that are over are no failure."""
        return command("qdel", *(job.id for job in jobs))

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``qdel 12[3].server``."""
        return command("qdel", job.id.replace("[]", f"[{index}]", 1))


def _is_refused(completed: Completed) -> bool:
    """Whether the job was certainly not made: by a known code or a known word of qsub."""
    if "qsub: " not in completed.stderr:
        return any(text in completed.stderr for text in ("usage:", "unable to read qmaster name"))
    return completed.returncode in _REFUSAL_CODES or any(text in completed.stderr for text in _REFUSALS)


PBS: Final = Pbs()
