"""The native words of the batch systems, as their manuals have them, and answers in which they stand."""

from __future__ import annotations

import json
from typing import Final

from hpcdist.schedulers.job import Job, JobState
from hpcdist.testing.contract import NativeStates

_COLUMNS: Final = ["jobid", "jobindex", "stat", "exit_code", "exit_reason", "pend_reason", "job_description"]


def words(**states: str) -> dict[str, JobState]:
    """Return states by word: ``running="RUNNING COMPLETING"``; ``~`` in a word stands for a space."""
    return {
        word.replace("~", " "): JobState(state) for state, listed in states.items() for word in listed.split()
    }


SLURM: Final = words(
    pending="PENDING CONFIGURING POWER_UP_NODE REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT",
    running="RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT UPDATE_DB EXPEDITING",
    suspended="SUSPENDED STOPPED",
    completed="COMPLETED",
    failed="FAILED BOOT_FAIL LAUNCH_FAILED RECONFIG_FAIL",
    cancelled="CANCELLED",
    timeout="TIMEOUT DEADLINE",
    out_of_memory="OUT_OF_MEMORY",
    node_fail="NODE_FAIL",
    preempted="PREEMPTED",
    unknown="REVOKED",
)
"""squeue(1), JOB STATE CODES."""


def _scontrol(job: Job, word: str) -> str:
    return (
        f"JobId={job.id} JobName=mnist\n   JobState={word} Reason=None Dependency=(null)\n"
        f"   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   Comment=hpcdist:{job.token}\n"
    )


def _qstat(job: Job, word: str) -> str:
    letter, _, rest = word.partition(" ")
    code = [f"Exit_status={rest}", "run_count=1"] if rest.lstrip("-").isdecimal() else []
    elements = [f"array_state_count={rest}"] if ":" in rest else []
    return "|".join([f"Job Id: {job.id}", f"job_state={letter}", *code, *elements]) + "\n"


def _bjobs(job: Job, word: str) -> str:
    state, _, why = word.partition(" ")
    values = (job.id, "0", state, "", why, "", f"hpcdist:{job.token}")
    return json.dumps({"RECORDS": [dict(zip((name.upper() for name in _COLUMNS), values, strict=True))]})


def _bhist(job: Job, word: str) -> str:
    state, _, why = word.partition(" ")
    ended = (
        "Done successfully." if state == "DONE" else f"Exited with exit code 3.\nx: Completed <exit>; {why}."
    )
    return f"Job <{job.id}>, Job Description <hpcdist:{job.token}>\nSat Nov 21 10:00:00: {ended}\n"


def _flux(job: Job, word: str) -> str:
    state, _, result = word.partition(" ")
    return json.dumps({"jobs": [{"id": job.id, "state": state} | ({"result": result} if result else {})]})


def _states(job: Job, word: str) -> str:
    listed = f"<job_list><JB_job_number>{job.id}</JB_job_number><state>{word}</state></job_list>"
    return f"<?xml version='1.0'?>\n<job_info><queue_info>{listed}</queue_info></job_info>\n"


def _qacct(job: Job, word: str) -> str:
    if word == "cancelled":
        return f"cancelled {job.id}\n"
    what, _, value = word.partition(" ")
    rows = {"jobnumber": job.id, "taskid": "undefined", "failed": "0", "exit_status": "0", what: value}
    rows["qsub_time"] = "Sat Nov 21 10:00:00 2026"
    return "=" * 62 + "\n" + "".join(f"{name:12} {text}\n" for name, text in rows.items())


def _events(job: Job, word: str) -> str:
    what, _, value = word.partition(" ")
    if what == "alive":
        return f"{job.id} alive {value}\n"
    host = "there" if what == "elsewhere" else "here"
    return f"{job.id} gone here\n{job.id} submitted {host}\n{job.id} {what} {value or 143}\n"


_REASONS: Final = {
    "timeout": "EXIT~TERM_RUNLIMIT EXIT~TERM_DEADLINE EXIT~TERM_CPULIMIT",
    "out_of_memory": "EXIT~TERM_MEMLIMIT EXIT~TERM_SWAP",
    "cancelled": "EXIT~TERM_OWNER EXIT~TERM_FORCE_OWNER EXIT~TERM_ADMIN EXIT~TERM_FORCE_ADMIN",
    "preempted": "EXIT~TERM_PREEMPT EXIT~TERM_LOAD EXIT~TERM_WINDOW",
}

_PBS: Final = NativeStates(
    words(
        pending="Q H W T B~Queued:3",
        running="R E B~Running:1",
        suspended="S U",
        completed="F~0 X~0",
        failed="F~1 F~-1 F~265 X~2",
        cancelled="F F~271",
        timeout="F~-29 F~-28",
        out_of_memory="F~-27 F~-26",
        node_fail="F~-4 F~-14 F~-20",
        unknown="M",
    ),
    _qstat,
    "Z",
)
_FLUX: Final = NativeStates(
    words(
        pending="NEW DEPEND PRIORITY SCHED",
        running="RUN CLEANUP",
        completed="INACTIVE~COMPLETED",
        failed="INACTIVE~FAILED",
        cancelled="INACTIVE~CANCELED",
        timeout="INACTIVE~TIMEOUT",
    ),
    _flux,
)

NATIVES: Final = {
    "slurm": (
        NativeStates(SLURM, lambda job, word: f"{job.id}|{word}|None|hpcdist:{job.token}\n"),
        NativeStates(SLURM, lambda job, word: f"{job.id}|{word}|0:0|None\n"),
        NativeStates(SLURM, _scontrol),
    ),
    "pbs": (_PBS, _PBS, NativeStates({}, _qstat, unknown=None)),  # the third is of arrays alone
    "lsf": (
        NativeStates(
            words(
                pending="PEND PROV WAIT",
                suspended="PSUSP USUSP SSUSP",
                running="RUN",
                completed="DONE",
                failed="EXIT",
                unknown="UNKWN ZOMBI",
                **_REASONS,
            ),
            _bjobs,
        ),
        NativeStates(words(completed="DONE", failed="EXIT", **_REASONS), _bhist, unknown=None),
    ),
    "flux": (_FLUX, _FLUX),
    "sge": (
        NativeStates(
            words(
                pending="qw hqw hRwq Rq Eqw",
                running="r t Rr Rt dr dt",
                suspended="s ts S tS T tT Rs RS RT ds",
            ),
            _states,
            "x",
        ),
        NativeStates(
            words(
                completed="exit_status~0",
                failed="exit_status~3 failed~100 failed~1 failed~26",
                cancelled="cancelled",
            ),
            _qacct,
            unknown=None,
        ),
    ),
    # What /proc says of a process that lives is a letter of the kernel's; all but T are one to hpcdist.
    "local": (
        NativeStates(
            words(
                running="alive~R alive~S alive~D",
                suspended="alive~T alive~t",
                completed="ended~0",
                failed="ended~3 vanished",
                cancelled="cancelled",
                timeout="timeout",
                unknown="elsewhere",
            ),
            _events,
            unknown=None,
        ),
    ),
}
