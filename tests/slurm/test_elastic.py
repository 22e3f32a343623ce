"""Elastic Horovod on the real Slurm: a node dies, training goes on."""

from __future__ import annotations

import re

import pytest

from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("examples")]

A_RANK_A_NODE = (
    "--set=environment.resources.cpu.requests=16",
    "--set=environment.replicas.default_worker.resources.cpu.requests=16",
    "--set=environment.replicas.n_workers=2",
    "--set=horovod.elastic.max_np=3",
    "--set=horovod.gloo_timeout_seconds=5",  # after which a loss is noticed; 30 unless told
)


@pytest.mark.extended
def test_a_lost_node_does_not_end_the_training(user: User) -> None:
    run = "horovod-elastic-1"
    submitted = user.hpcdist(
        "submit", "examples/horovod_elastic.yml", *A_RANK_A_NODE, "-p", "epochs=3", "-p", "pause=0.1"
    )
    assert submitted.returncode == 0, submitted.stderr
    user.await_log(run, "epoch 1/3")
    user.cluster.crash("n2")
    waited = user.hpcdist("wait", run)
    log = user.log(run)
    assert (waited.returncode, user.json("status", run)[0]["state"]) == (0, "completed"), log
    sizes = [int(size) for size in re.findall(r"epoch \d+/3 loss \S+ on (\d) ranks", log)]
    assert sizes == sorted(sizes, reverse=True)
    assert set(sizes) == {3, 2}
    assert "done on 2 ranks" in log


@pytest.mark.extended
def test_a_rank_that_fails_gives_the_job_its_exit_code(user: User) -> None:
    program = "python -c 'import horovod.torch as hvd; hvd.init(); raise SystemExit(7)'"
    file = user.write(
        "fails",
        {
            "framework": "horovod",
            "horovod": {"elastic": {"min_np": 2, "reset_limit": 1}},
            "environment": {"replicas": {"n_workers": 1}},
            "run": {"cmd": program},
        },
    )
    done = user.hpcdist("submit", file, "--wait")
    assert done.returncode == 7
    assert re.search(r"hpcdist: rank [01] on n1 was the first to fail, with exit code 7", user.log("fails-1"))
