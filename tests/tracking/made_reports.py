"""Runs as jobs leave them, with values of every kind."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Record, Run
from hpcdist.schedulers.job import JobState, Status
from hpcdist.script.trial_table import table

AT: Final = 1_795_161_600
"""When the runs began."""

NOW: Final = AT + 7200.0
HOSTILE: Final = (
    "</script><script>alert(1)</script>",
    "<img src=http://evil.invalid/x onerror=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "<a href='javascript:alert(1)'>click</a>",
    "{{ 7 * 7 }} {% raw %}",
    "<!--<script>",
    "]]> &lt;b&gt; &amp;",
    "\u202ednammoc\u2028\x00\x1b[31m",
    "%{x} $x^2$ <b>bold</b>",
)

FAILED: Final = Status(JobState.FAILED, "ended", 1, source="run directory")
COMPLETED: Final = Status(JobState.COMPLETED, "ended", 0, source="run directory")


def run(
    folder: Path,
    name: str,
    metrics: Mapping[str, Sequence[float]],
    *,
    status: Status = COMPLETED,
    plan: Mapping[str, Any] | None = None,
) -> Report:
    """Make a run of one job with these metrics; return the report of its end."""
    directory = rundir.create(folder, name)
    number = directory.name.rpartition("-")[2]
    record = Record(
        directory.name, "t", "local", "local", "d", rundir.timestamp(AT), Phase.SUBMITTED, number,
        rundir.timestamp(AT), ended=status,
    )  # fmt: skip
    rundir.save(directory, record)
    directory.write("plan.json", json.dumps(plan or {"identity": {}}))
    directory.write("events", f"started {number} {AT + 60} 0\nended {number} {AT + 360} {status.exit_code}\n")
    lines = [
        {"at": AT + 60 + step, "step": step, "metrics": {metric: _json(values[step])}}
        for metric, values in metrics.items()
        for step in range(len(values))
    ]
    record_lines(directory.path, number, *lines)
    return Report(Run(directory, record), status)


def search(
    folder: Path,
    trials: Sequence[Mapping[str, Any]],
    reached: Sequence[float | None],
    *,
    order: str = "loss",
    gpus: int = 2,
) -> Report:
    """Make a search with these params and last values of its metric, two of whose trials run at once."""
    plan = {
        "identity": {},
        "placement": {"rows": [], "groups": [{"gpus": gpus, "nodes": 1}]},
        "sweep": {"order": order},
    }
    metric = order.removeprefix("-")
    report = run(folder, "tune", {}, status=FAILED, plan=plan)
    directory, job = report.run.directory, report.run.record.job_id
    texts = [
        TrialTexts({}, "x", {"POLYAXON_PARAMS": json.dumps(each)}, number)
        for number, each in enumerate(trials, 1)
    ]
    directory.write("trials.tsv", table(texts))
    events = ""
    for number, value in enumerate(reached, 1):
        began, id_ = AT + 60 * ((number - 1) // 2), f"{job}_{number}"
        events += f"started {id_} {began} 0\nended {id_} {began + 60} {int(value is None)}\n"
        if value is not None:
            record_lines(directory.path, id_, {"at": began, "step": 0, "metrics": {metric: value}})
    directory.write("events", events)
    return report


def params(**values: Any) -> dict[str, Any]:
    """Return a plan that has these params alone."""
    return {"identity": {"params": values}}


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def record_lines(path: Path, job: str, *lines: Mapping[str, Any], rank: int = 0) -> None:
    """Add lines to what a rank of a job recorded."""
    place = path / "tracking" / job / "0.0"
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"rank-{rank}.n.1.jsonl").open("a") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def hostile(folder: Path) -> Report:
    """Make a run whose every text is hostile."""
    metrics = {text: [1.0, 2.0, math.nan, 0.5] for text in HOSTILE}
    identity = {
        "description": " ".join(HOSTILE),
        "tags": [*HOSTILE],
        "params": dict(zip(HOSTILE, reversed(HOSTILE), strict=True)),
    }
    report = run(folder, "hostile", metrics, status=FAILED, plan={"identity": identity})
    directory = report.run.directory
    names = [text.replace("/", "\u2215").replace("\0", "") for text in HOSTILE]
    artifact = {"kind": HOSTILE[0], "path": HOSTILE[1], "sha256": HOSTILE[2], "bytes": 3}
    model = {"kind": "model", "path": "model", "sha256": HOSTILE[3], "bytes": 3, "metrics": {HOSTILE[0]: 1}}
    record_lines(directory.path, "1", {"at": AT, "artifact": artifact}, {"at": AT, "artifact": model})
    directory.outputs.mkdir()
    for name in names:
        (directory.outputs / name).write_text("x")
        (directory.logs / f"{name}.out").write_text("\n".join(HOSTILE))
    (directory.logs / "job.out").write_text("\n".join((*HOSTILE, f"hpcdist: rank 1 on {HOSTILE[1]} failed")))
    code = dict.fromkeys(("source", "folder", "commit", "branch", "remote"), HOSTILE[1])
    directory.write(
        "code.json", json.dumps({**code, "dirty": True, "changed": HOSTILE, "untracked": [1, *HOSTILE]})
    )
    directory.write("code.diff", "\n".join(("+added", "-removed", *HOSTILE[:-2])))
    return report
