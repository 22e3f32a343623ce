"""What hpcdist says of jobs that are over, where there is accounting and where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.users import User

pytestmark = pytest.mark.real


def ends_with_3(user: User) -> dict[str, Any]:
    """Run a job that fails; return what `hpcdist status` says of it."""
    done = user.hpcdist("submit", user.write("fails", {"run": {"cmd": "exit 3"}}), "--wait")
    assert done.returncode == 3, done.stderr
    return said(user)


def said(user: User) -> dict[str, Any]:
    (one,) = user.json("status", "fails-1")
    return {key: one[key] for key in ("state", "native_state", "exit_code", "source")}


def test_without_accounting(cluster: Cluster, workdir: Path) -> None:
    expected = {"state": "failed", "native_state": "FAILED", "exit_code": 3, "source": "squeue"}
    assert ends_with_3(User(cluster, workdir)) == expected


def test_with_accounting(accounting_cluster: Cluster, workdir: Path) -> None:
    user = User(accounting_cluster, workdir)
    assert ends_with_3(user)["exit_code"] == 3
    # slurmdbd hears of the end a second or so late; until then squeue and the job itself answer.
    found = said(user)
    assert found.pop("source") in ("sacct", "squeue")
    assert found == {"state": "failed", "native_state": "FAILED", "exit_code": 3}
