"""Searches under Flux, which has no arrays: one job has the workers of all trials."""

from __future__ import annotations

import pytest

from tests.flux.conftest import User
from tests.flux.test_end_to_end import write

pytestmark = pytest.mark.namespaces


@pytest.mark.extended
def test_trials_of_a_search(user: User) -> None:
    file = write(
        user,
        # All six run at once: a worker whose trial is over would take another's.
        "touch $HPCDIST_RUN_DIR/began-$HPCDIST_TRIAL; "
        "until [ $(ls $HPCDIST_RUN_DIR/began-* | wc -l) = 6 ]; do sleep 0.1; done; "
        "echo trial $HPCDIST_TRIAL is {{ n }} on $(uname -n) with ${CUDA_VISIBLE_DEVICES}; exit {{ n }}",
        framework=None,
        environment={"resources": {"gpu": {"requests": 1}}},
        hptuning={"matrix": {"n": {"values": [0, 3, 0, 0, 0, 0]}}, "concurrency": 6},
    )
    assert user.hpcdist("submit", file, "--wait").returncode == 3
    shown = user.json("sweep", "status", "exp-1")
    assert shown["states"] == {"completed": 5, "failed": 1}
    logs = user.folder / "runs" / "exp-1" / "logs"
    ran = [(logs / f"job-{trial}.out").read_text().splitlines()[1] for trial in range(1, 7)]
    assert [line.partition(" on ")[0] for line in ran] == [
        f"trial {trial} is {3 * (trial == 2)}" for trial in range(1, 7)
    ]
    assert len({line.partition(" on ")[2] for line in ran}) == 6
    assert user.json("status", "exp-1")[0]["exit_code"] == 3
