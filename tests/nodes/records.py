"""What the ranks of a run record, written as `hpcdist_tracking` does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory

BEGAN = 1_795_460_000.0
ATTEMPT = Numbered(0, "12", "0.0")

Call = tuple[float, float | None, Mapping[str, float]]
"""Time after the begin, step, metrics."""


def run(
    folder: Path, *, tasks: int = 8, gpus: int = 0, nodes: tuple[str, ...] = ("n0.site", "n1.site")
) -> RunDirectory:
    """Make a run with one attempt on these nodes."""
    folder.chmod(0o700)
    plan = {
        "launch": {"mode": "tasks"},
        "placement": {
            "rows": [{"tasks": tasks}],
            "groups": [{"node": 0, "nodes": len(nodes), "gpus": gpus}],
        },
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "jobs" / "12").mkdir(parents=True)
    (folder / "jobs" / "12" / "nodes.0").write_text("".join(f"{node}\n" for node in nodes))
    (folder / "attempts").mkdir()
    (folder / "attempts" / "0").write_text("12 0.0 12\n")
    return RunDirectory(folder)


def record(directory: RunDirectory, rank: int, host: str, calls: list[Call]) -> None:
    """Write the file of a rank."""
    folder = directory.path / "tracking" / "12" / "0.0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"metrics": dict(metrics), **({} if step is None else {"step": step}), "at": BEGAN + at})
        for at, step, metrics in calls
    )
    (folder / f"rank-{rank}.{host}.{100 + rank}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def record_all(
    directory: RunDirectory, ranks: int, call: Callable[[int, int], Call], per_node: int = 4, steps: int = 40
) -> None:
    """Write the files of all ranks; ``call`` gets rank and step."""
    for rank in range(ranks):
        record(directory, rank, f"n{rank // per_node}", [call(rank, step) for step in range(steps)])
