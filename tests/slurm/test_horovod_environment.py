"""What Horovod's processes find in their environment: from every launcher what horovodrun gives by hand."""

from __future__ import annotations

import re

import pytest

from tests.slurm.users import ENVIRONMENT, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

SECTION = {
    "fusion_threshold_mb": 32,
    "cycle_time_ms": 3.5,
    "cache_capacity": 2048,
    "hierarchical_allreduce": True,
    "hierarchical_allgather": False,
    "torus_allreduce": False,
    "autotune": True,
    "autotune_log_file": "/tmp/autotune.csv",  # noqa: S108 - it is never opened
    "autotune_warmup_samples": 5,
    "autotune_steps_per_sample": 20,
    "autotune_bayes_opt_max_samples": 40,
    "autotune_gaussian_process_noise": 0.5,
    "timeline_filename": "/tmp/timeline.json",  # noqa: S108 - it is never opened
    "timeline_mark_cycles": True,
    "stall_check": False,
    "stall_check_warning_time_seconds": 10,
    "stall_check_shutdown_time_seconds": 20,
    "mpi_threads_disable": False,
    "tcp": True,
    "num_nccl_streams": 2,
    "thread_affinity": 1,
    "gloo_timeout_seconds": 60,
    "log_level": "DEBUG",
    "log_with_timestamp": False,
}
ARGUMENTS = (
    "--fusion-threshold-mb 32 --cycle-time-ms 3.5 --cache-capacity 2048 --hierarchical-allreduce "
    "--no-hierarchical-allgather --no-torus-allreduce --autotune --autotune-log-file /tmp/autotune.csv "
    "--autotune-warmup-samples 5 --autotune-steps-per-sample 20 --autotune-bayes-opt-max-samples 40 "
    "--autotune-gaussian-process-noise 0.5 --timeline-filename /tmp/timeline.json --timeline-mark-cycles "
    "--no-stall-check --stall-check-warning-time-seconds 10 --stall-check-shutdown-time-seconds 20 "
    "--no-mpi-threads-disable --tcp --num-nccl-streams 2 --thread-affinity 1 --gloo-timeout-seconds 60 "
    "--log-level DEBUG --log-without-timestamp"
)
PLACE = re.compile(
    r"HOROVOD_(RANK|SIZE|HOSTNAME|(LOCAL|CROSS)_\w+|GLOO_(RENDEZVOUS_\w+|IFACE)|CONTROLLER|CPU_OPERATIONS)"
)
"""What horovodrun over gloo tells a process of its place, which MPI tells it otherwise."""
SHOW = "env | grep -E '^(HOROVOD_|NCCL_IB_DISABLE=)' | sed 's/^/<</; s/$/>>/'"


def variables(text: str) -> set[str]:
    return {found for found in re.findall(r"<<(.*?)>>", text) if not PLACE.match(found)}


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "horovodrun", "horovodrun-mpi"])
def test_every_launcher_gives_what_horovodrun_gives(user: User, launcher: str) -> None:
    argv = ["horovodrun", "--gloo", "-np", "1", "-H", "localhost:1", *ARGUMENTS.split(), "bash", "-c", SHOW]
    by_hand = user.cluster.run(argv, cwd=user.directory, env=ENVIRONMENT)
    assert by_hand.returncode == 0, by_hand.stderr
    assert len(variables(by_hand.stdout)) == len(SECTION)
    file = user.write(
        "knobs",
        {
            "framework": "horovod",
            "horovod": SECTION,
            "environment": {"replicas": {"n_workers": 1}},
            "run": {"cmd": SHOW},
            "batch": {"launcher": launcher},
        },
    )
    done = user.hpcdist("submit", file, "--wait")
    log = user.log("knobs-1")
    assert done.returncode == 0, done.stderr + log
    limit = {"HOROVOD_START_TIMEOUT=300"} if launcher.startswith("horovodrun") else set()
    assert variables(log) == variables(by_hand.stdout) | limit
