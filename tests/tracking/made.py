"""Runs as jobs leave them behind, made of their files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.schedulers.job import JobState, Status

COMPLETED: Final = Status(JobState.COMPLETED, exit_code=0)
CREATED: Final = "2026-11-23T08:00:00+00:00"
AT: Final = 1_795_420_800
"""``CREATED`` in seconds since 1970."""


def made(runs: Path, *events: str, name: str = "train-1", **pieces: Any) -> Run:
    """Make a run of job 7, with this event log and these pieces of the plan."""
    path = runs / name
    path.mkdir(parents=True, mode=0o700)
    stem = name.rpartition("-")[0]
    record = Record(
        stem,
        f"token{name}".replace("-", ""),
        "local",
        "local",
        "d" * 64,
        CREATED,
        Phase.SUBMITTED,
        "7",
        CREATED,
    )
    rundir.save(RunDirectory(path), record)
    (path / "events").write_text("".join(f"{event}\n" for event in events))
    (path / "plan.json").write_text(json.dumps({"identity": {"params": {"lr": 0.1}}} | pieces))
    return Run(RunDirectory(path), record)


def logged(run: Run, place: str, *entries: dict[str, Any]) -> None:
    """Write what one process recorded: ``JOB/ATTEMPT/rank-N``; a second later each."""
    file = run.directory.path / "tracking" / f"{place}.node.1.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"at": AT + second, **entry}) for second, entry in enumerate(entries, 1))
    file.write_text("".join(f"{line}\n" for line in lines))


def kept(run: Run, path: str, content: str, kind: str = "artifact", **metrics: Any) -> dict[str, Any]:
    """Write a file of the outputs; return the entry of it."""
    file = run.directory.outputs / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    own = path.partition("/")[2] if path[0].isdigit() else path
    entry = {"kind": kind, "path": own, "sha256": digest, "bytes": len(content), "metrics": metrics}
    return {"artifact": entry}
