"""The states of jobs in PBS: ``qstat -f -F dsv`` for queued and running jobs, with ``-x`` for finished jobs.

Ids: ``1234.server``, an array ``1234[].server``, its elements ``1234[5].server``. ``-F dsv`` writes each job
as one line; ``-F json`` of OpenPBS's main branch holds the first of several ids only (openpbs/openpbs issue
2672), and what a submitter's environment holds may make it no JSON (issues 1255, 2541).
Sources: answers of an OpenPBS 23.06; how fields are divided: ``prt_attr`` of its ``qstat.c``; exit
codes: those of ``pbs_error.h``, modulo 256.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.job import Job, JobState, Status, element_id
from hpcdist.schedulers.pbs.ends import Attributes, status

TOKEN: Final = "HPCDIST_TOKEN"  # noqa: S105 - its name
PREFIX: Final = "hpcdist:"
"""In front of a token, so that what somebody else calls HPCDIST_TOKEN is none."""

DROP: Final = ("PBS_DPREFIX", "HPCDIST_TOKEN")
"""Variables that change how qsub reads a script, and the token of a job that submits another."""

# $@ is a command of PBS. That a job is over (35), unknown (153) or just ending (168) is an answer as well.
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
"""Between two ``|``; one in a value stands behind a backslash."""
_TOKEN: Final = re.compile(rf"(?:^|(?<!\\),){TOKEN}={PREFIX}(\w+)(?=,|$)", re.ASCII)

_OTHER: Final = Status(JobState.UNKNOWN, reason="its id is that of another job now", source="qstat")

_Key = tuple[str, str]


def command(*argv: str) -> Command:
    """Return a command of PBS for which jobs that are over or unknown are no failure."""
    return Command(("bash", "-c", _ASK, "hpcdist", *argv), drop_environment=DROP)


def find(option: str = "") -> Command:
    """Return the command that lists this user's jobs; ``-x``: those that are over, too."""
    return Command(("bash", "-c", _FIND, "hpcdist", option), drop_environment=DROP)


def key(job_id: str) -> _Key | None:
    """Return what an id means, whether the server's name is short or full; None for junk."""
    match = _ID.fullmatch(job_id)
    return (match[1], match[2]) if match else None


def element_of(job_id: str, array: str) -> int | None:
    """Return which element of an array an id is; None if it is none of it."""
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


def _of(job: Job, record: Attributes) -> Status:
    token = token_of(record)
    return _OTHER if token and job.token and token != job.token else status(record)


class Qstat(NamedTuple):
    """One question about jobs: of the living, or of those that are over, too.

    ``arrays``: of arrays alone; where the answer with all of their elements was too long, they are left open.
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
                found[job.id] = _of(job, record)
            elif element and (array := wanted.get((f"{element[1]}[]", server))):
                found[element_id(array.id, int(element[2]))] = status(record)
        return found
