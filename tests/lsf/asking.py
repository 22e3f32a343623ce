"""Stand-ins for bjobs, bhist and bkill."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.lsf import state
from tests.lsf.state import Job, complain, say


def bjobs(argv: list[str]) -> int:
    """Show all jobs of this user: as JSON, in columns of one's own, or as the old table."""
    version = state.config().version
    if ("-json" in argv and version < 10) or ("-o" in argv and version < 9):
        complain(f"bjobs: illegal option -- {argv[1]}\nUsage: bjobs [-h] [-V] [-a] [-w]")
        return 255
    jobs = state.jobs() if "-a" in argv else [job for job in state.jobs() if not job.is_over]
    if not jobs:
        complain("No job found")
        return 255
    if "-json" in argv:
        columns = argv[argv.index("-o") + 1].split()
        rows = [{name.upper(): _column(job, name) for name in columns} for job in jobs]
        say(json.dumps({"COMMAND": "bjobs", "JOBS": len(rows), "RECORDS": rows}, indent=2))
    elif "-o" in argv:
        text, _, delimiter = argv[argv.index("-o") + 1].partition(" delimiter=")
        for job in jobs:
            say(delimiter.strip("'").join(_column(job, name) or "-" for name in text.split()))
    else:
        say("JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME")
        for job in jobs:
            name = f"{job.name}[{job.index}]" if job.index else job.name
            say(f"{job.id:<7} me      {job.stat:<5} {job.queue:<10} login   -   {name} Nov 21 07:43")
    return 0


def _column(job: Job, name: str) -> str:
    values = {"jobid": str(job.id), "jobindex": str(job.index), "job_description": job.description}
    return values.get(name) or str(getattr(job, name, ""))


def bhist(argv: list[str]) -> int:
    """Show what became of a job, with lines broken after 80 characters."""
    jobs = [job for job in state.jobs() if str(job.id) == argv[-1]]
    if not jobs:
        complain(f"No matching job found for job <{argv[-1]}>")
        return 255
    for job in jobs:
        say("\n" + "\n".join(map(_broken, _history(job))))
        say("-" * 78)
    return 0


def _history(job: Job) -> Iterator[str]:
    """Yield the events of a job, as ``bhist -l`` words them."""
    when = "Sat Nov 21 07:44:04"
    what = f"Job Name <{job.name}>, Job Description <{job.description}>"
    yield f"Job <{job.shown}>, {what}, User <me>, Project <default>, Command <job.sh>"
    yield f"{when}: Submitted from host <login>, to Queue <{job.queue}>;"
    if job.stat == "DONE":
        yield f"{when}: Done successfully. The CPU time used is 0.1 seconds;"
    if job.stat == "EXIT":
        yield f"{when}: Exited with exit code {job.exit_code}. The CPU time used is 0.1 seconds;"
        yield f"{when}: Completed <exit>; {job.exit_reason or 'TERM_UNKNOWN: unknown'}."


def _broken(line: str) -> str:
    """Break a line where bhist does."""
    rest = [line[at : at + 59] for at in range(80, len(line), 59)]
    return ("\n" + " " * 21).join([line[:80], *rest])


def bkill(argv: list[str]) -> int:
    """End jobs; one that is over is an error, as it is for LSF."""
    code = 0
    for text in argv:
        jobs = [job for job in state.jobs() if text in (str(job.id), job.shown)]
        living = [job for job in jobs if not job.is_over]
        if not living:
            code = 255
            said = "Job has already finished" if jobs else "No matching job found"
            complain(f"Job <{text}>: {said}")
            continue
        for job in living:
            (state.folder() / f"{job.key}.kill").touch()
            if job.stat == "PEND":
                state.update(job.key, stat="EXIT", exit_reason="TERM_OWNER: job killed by owner")
        say(f"Job <{text}> is being terminated")
    return code
