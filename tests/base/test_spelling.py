from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.spelling import closest

ENVIRONMENT = [
    "env_vars",
    "max_restarts",
    "n_ps",
    "n_workers",
    "node_selector",
    "processes_per_replica",
    "replicas",
]
HOROVOD = ["autotune", "elastic", "fusion_threshold", "log_level", "start_timeout", "timeline_filename"]
SITES = ["frontera", "frontier", "lumi", "perlmutter", "slurm", "toy"]
MACHINES = ["A100", "C5", "C50", "P4000", "P5000", "V100"]


@pytest.mark.parametrize(
    ("word", "choices", "meant"),
    [
        # one letter left out, added, replaced, exchanged with the next
        ("replcas", ENVIRONMENT, "replicas"),
        ("replicass", ENVIRONMENT, "replicas"),
        ("n_worker", ["n_workers", "worker"], "n_workers"),
        ("replivas", ENVIRONMENT, "replicas"),
        ("repilcas", ENVIRONMENT, "replicas"),
        ("eplicas", ENVIRONMENT, "replicas"),
        ("erplicas", ENVIRONMENT, "replicas"),
        ("jeplicas", ENVIRONMENT, "replicas"),
        # several, of a long word
        ("perlmuttr", SITES, "perlmutter"),
        ("permutr", SITES, "perlmutter"),
        # other capitals, and other or no characters between the words
        ("maxRestarts", ENVIRONMENT, "max_restarts"),
        ("max-restart", ENVIRONMENT, "max_restarts"),
        ("MaxRestart", ENVIRONMENT, "max_restarts"),
        ("nworkers", ENVIRONMENT, "n_workers"),
        ("workers", ENVIRONMENT, "n_workers"),
        ("num_workers", ENVIRONMENT, "n_workers"),
        ("process_per_replica", ENVIRONMENT, "processes_per_replica"),
        ("loglevel", HOROVOD, "log_level"),
        ("--nnodes", ["-nnodes", "-nproc"], "-nnodes"),
        # the beginning of one name
        ("perl", SITES, "perlmutter"),
        ("autot", HOROVOD, "autotune"),
        # short words
        ("toi", SITES, "toy"),
        ("cu", ["cpu", "gpu"], "cpu"),
        ("gpus", ["cpu", "gpu"], "gpu"),
        ("mip", ["jax", "mpi"], "mpi"),
        ("P400", MACHINES, "P4000"),
        ("P400O", MACHINES, "P4000"),
        # the nearest of several
        ("frontiera", SITES, "frontera"),
        ("C5O", MACHINES, "C5"),
        ("workerCont", ["workerContainer", "workerCount"], "workerCount"),
    ],
)
def test_a_misspelt_or_abbreviated_name_is_found(word: str, choices: list[str], meant: str) -> None:
    assert closest(word, choices) == meant


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        # names that share a word or an ending, but mean something else
        ("output_filename", HOROVOD),
        ("abort_timeout", HOROVOD),
        ("filename", HOROVOD),
        ("processes_per_node", ENVIRONMENT),
        ("min_np", ["max_np"]),
        ("env_file", ENVIRONMENT),
        # other words of about the same letters
        ("deployments", ["experiments"]),
        ("jobs", ["experiments"]),
        ("import", ["export"]),
        ("linters", ["inputs", "lightning", "logging"]),
        ("master", ["worker"]),
        ("ljust", ["list", "lower", "last"]),
        # a name that only begins alike
        ("namespace", ["name"]),
        ("runtime", ["run"]),
        ("front", SITES),
        # short words and numbers that are other words and numbers
        ("tpu", ["cpu", "gpu"]),
        ("l", ["lr"]),
        ("ps", ["lr"]),
        ("P6000", MACHINES),
        ("H100", MACHINES),
        ("worker-3", ["worker-1", "worker-2"]),
        ("", ["a"]),
        ("x", []),
    ],
)
def test_a_name_that_is_not_close_is_not_guessed(word: str, choices: list[str]) -> None:
    assert closest(word, choices) is None


def test_fewer_wrong_letters_can_be_demanded() -> None:
    assert closest("perlmtter", SITES, most=1) == "perlmutter"
    assert closest("perlmttr", SITES, most=1) is None


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=5))
def test_what_is_found_is_a_choice_and_a_choice_finds_itself(word: str, choices: list[str]) -> None:
    assert closest(word, choices) in (None, *choices)
    assert closest(word, [*choices, word]) == word
