"""Pipelines on a real Slurm: files that are handed on, an operation that fails, and what is resumed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.pages import block
from tests.slurm.users import User

pytestmark = pytest.mark.real


def cells(text: str) -> list[list[str]]:
    """Return the cells of each line, without the ids of jobs."""
    rows = [re.split(" {2,}", line.strip()) for line in text.splitlines()]
    return [[*row[:3], *row[4:]] for row in rows]


def states(user: User) -> dict[str, str]:
    return {one["operation"]: one["state"] for one in look(user).values()}


def look(user: User) -> dict[str, dict[str, Any]]:
    found = user.json("status", "diamond-1")
    return {one["operation"]: one for one in found["operations"]}


@pytest.mark.extended
def test_a_diamond_whose_second_operation_fails_is_resumed_when_the_cause_is_mended(user: User) -> None:
    (user.directory / "diamond.yml").write_text(block("diamond"))
    (user.directory / "right.yml").write_text(block("right"))
    submitted = user.hpcdist("submit", "diamond.yml", "-p", "size=4")
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.splitlines()[-1] == "diamond-1: 4 runs; next: hpcdist status diamond-1"

    assert user.hpcdist("wait", "diamond-1").returncode == 1
    ended = look(user)
    assert {name: one["state"] for name, one in ended.items()} == {
        "prep": "completed",
        "left": "failed",
        "right": "completed",
        "join": "cancelled",
    }
    assert (ended["join"]["can_start"], ended["join"]["reason"]) == (
        False,
        "it can never start: left is failed",
    )
    assert cells(user.hpcdist("status", "diamond-1").stdout) == cells(block("diamond status"))

    (user.directory / "mended").touch()
    resumed = user.hpcdist("resume", "diamond-1")
    assert resumed.returncode == 0, resumed.stderr
    assert [line.partition(":")[0] for line in resumed.stdout.splitlines()] == [
        "diamond-1/left",
        "diamond-1/join",
    ]
    assert user.hpcdist("wait", "diamond-1").returncode == 0
    assert set(states(user).values()) == {"completed"}
    result = user.directory / "runs" / "diamond-1-join-1" / "outputs" / "all"
    assert result.read_text() == "1+2+3+4\n4\n"
    assert [len(one["job_ids"]) for one in look(user).values()] == [1, 2, 1, 2]
    assert user.hpcdist("logs", "diamond-1/prep").stdout.endswith("\nmade\n")
    titles = [line for line in user.hpcdist("logs", "diamond-1").stdout.splitlines() if "==> diamond" in line]
    assert sorted(titles) == [f"==> diamond-1/{name} <==" for name in ("join", "left", "prep", "right")]
    again = user.hpcdist("resume", "diamond-1")
    assert (again.returncode, "every operation of diamond-1 has completed" in again.stderr) == (2, True)
    assert user.hpcdist("rm", "diamond-1").returncode == 0
    assert [*(user.directory / "runs").glob("diamond*")] == []


def test_a_pipeline_whose_repair_is_not_needed_ends_well(user: User) -> None:
    file = user.write(
        "repaired",
        {
            "kind": "pipeline",
            "operations": [
                {"name": "prep", "run": {"cmd": "true"}},
                {"name": "repair", "needs": {"prep": "afternotok"}, "run": {"cmd": "true"}},
                {"name": "train", "needs": "prep", "run": {"cmd": "true"}},
            ],
        },
    )
    assert user.hpcdist("submit", file).returncode == 0
    waited = user.hpcdist("wait", "repaired-1")
    assert waited.returncode == 0, waited.stderr
    shown = user.hpcdist("status", "repaired-1").stdout
    assert shown.startswith("repaired-1: 2 completed, 1 not needed\n")
    assert "not needed: prep is completed" in shown
