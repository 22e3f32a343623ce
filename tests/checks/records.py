"""A run with one attempt, and the faults that its nodes showed."""

from __future__ import annotations

import json
from pathlib import Path

from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory

BEGAN = 1_795_460_000.0
ATTEMPT = Numbered(0, "12", "0.0")


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


def write_faults(folder: Path, node: int, text: str) -> None:
    """Write what a node of the attempt showed."""
    place = folder / "jobs" / "12" / "faults"
    place.mkdir(exist_ok=True)
    (place / f"0.0.{node}").write_text(text)
