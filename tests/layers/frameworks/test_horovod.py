from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcdist.base.errors import PlanError
from hpcdist.layers import frameworks
from hpcdist.layers.frameworks.horovod import HOROVOD, KNOBS
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, experiment, resources
from tests.plans import TESTBED, planned
from tests.tasks import told
from tests.tiers import examples

MIB = 1024 * 1024

TABLE: list[tuple[dict[str, object], dict[str, str], list[str]]] = [
    ({}, {}, []),
    ({"fusion_threshold_mb": 32}, {"HOROVOD_FUSION_THRESHOLD": str(32 * MIB)},
     ["--fusion-threshold-mb", "32"]),
    ({"fusion_threshold_mb": 0}, {"HOROVOD_FUSION_THRESHOLD": "0"}, ["--fusion-threshold-mb", "0"]),
    ({"cycle_time_ms": 3.5}, {"HOROVOD_CYCLE_TIME": "3.5"}, ["--cycle-time-ms", "3.5"]),
    ({"cycle_time_ms": 3}, {"HOROVOD_CYCLE_TIME": "3.0"}, ["--cycle-time-ms", "3"]),
    ({"cache_capacity": 2048}, {"HOROVOD_CACHE_CAPACITY": "2048"}, ["--cache-capacity", "2048"]),
    ({"hierarchical_allreduce": True}, {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}, ["--hierarchical-allreduce"]),
    ({"hierarchical_allreduce": False}, {"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"},
     ["--no-hierarchical-allreduce"]),
    ({"hierarchical_allgather": True}, {"HOROVOD_HIERARCHICAL_ALLGATHER": "1"}, ["--hierarchical-allgather"]),
    ({"hierarchical_allgather": False}, {"HOROVOD_HIERARCHICAL_ALLGATHER": "0"},
     ["--no-hierarchical-allgather"]),
    ({"torus_allreduce": True}, {"HOROVOD_TORUS_ALLREDUCE": "1"}, ["--torus-allreduce"]),
    ({"torus_allreduce": False}, {"HOROVOD_TORUS_ALLREDUCE": "0"}, ["--no-torus-allreduce"]),
    ({"autotune": True}, {"HOROVOD_AUTOTUNE": "1"}, ["--autotune"]),
    ({"autotune": False}, {}, ["--no-autotune"]),
    ({"autotune": True, "autotune_log_file": "/a log"},
     {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": "/a log"},
     ["--autotune", "--autotune-log-file", "/a log"]),
    ({"autotune": True, "autotune_warmup_samples": 5, "autotune_steps_per_sample": 20,
      "autotune_bayes_opt_max_samples": 40, "autotune_gaussian_process_noise": 0.5},
     {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "5",
      "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20",
      "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "40", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.5"},
     ["--autotune", "--autotune-warmup-samples", "5", "--autotune-steps-per-sample", "20",
      "--autotune-bayes-opt-max-samples", "40", "--autotune-gaussian-process-noise", "0.5"]),
    ({"timeline_filename": "DYNAMIC"}, {"HOROVOD_TIMELINE": "DYNAMIC"}, ["--timeline-filename", "DYNAMIC"]),
    ({"timeline_filename": "/t.json"}, {"HOROVOD_TIMELINE": "/t.json"},
     ["--timeline-filename", "/t.json"]),
    ({"timeline_filename": "/t.json", "timeline_mark_cycles": True},
     {"HOROVOD_TIMELINE": "/t.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"},
     ["--timeline-filename", "/t.json", "--timeline-mark-cycles"]),
    ({"timeline_filename": "/t.json", "timeline_mark_cycles": False},
     {"HOROVOD_TIMELINE": "/t.json", "HOROVOD_TIMELINE_MARK_CYCLES": "0"},
     ["--timeline-filename", "/t.json", "--no-timeline-mark-cycles"]),
    ({"stall_check": True}, {"HOROVOD_STALL_CHECK_DISABLE": "0"}, ["--stall-check"]),
    ({"stall_check": False}, {"HOROVOD_STALL_CHECK_DISABLE": "1"}, ["--no-stall-check"]),
    ({"stall_check_warning_time_seconds": 10}, {"HOROVOD_STALL_CHECK_TIME_SECONDS": "10"},
     ["--stall-check-warning-time-seconds", "10"]),
    ({"stall_check_shutdown_time_seconds": 20}, {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "20"},
     ["--stall-check-shutdown-time-seconds", "20"]),
    ({"mpi_threads_disable": True}, {"HOROVOD_MPI_THREADS_DISABLE": "1"}, ["--mpi-threads-disable"]),
    ({"mpi_threads_disable": False}, {"HOROVOD_MPI_THREADS_DISABLE": "0"}, ["--no-mpi-threads-disable"]),
    ({"tcp": True}, {"NCCL_IB_DISABLE": "1"}, ["--tcp"]),
    ({"num_nccl_streams": 2}, {"HOROVOD_NUM_NCCL_STREAMS": "2"}, ["--num-nccl-streams", "2"]),
    ({"thread_affinity": 1}, {"HOROVOD_THREAD_AFFINITY": "1"}, ["--thread-affinity", "1"]),
    ({"gloo_timeout_seconds": 60}, {"HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}, ["--gloo-timeout-seconds", "60"]),
    ({"log_level": "DEBUG"}, {"HOROVOD_LOG_LEVEL": "DEBUG"}, ["--log-level", "DEBUG"]),
    ({"log_with_timestamp": True}, {"HOROVOD_LOG_HIDE_TIME": "0"}, ["--log-with-timestamp"]),
    ({"log_with_timestamp": False}, {"HOROVOD_LOG_HIDE_TIME": "1"}, ["--log-without-timestamp"]),
]  # fmt: skip
"""A section, the variables that it becomes, and the same said to horovodrun."""


@pytest.mark.parametrize(("section", "variables", "_"), TABLE)
def test_knobs_become_variables(section: dict[str, object], variables: dict[str, str], _: list[str]) -> None:
    exp = experiment(framework="horovod", horovod=section)
    assert list(HOROVOD.problems(exp)) == []
    found = HOROVOD.variables(planned(framework="horovod"), exp, TESTBED)
    assert {variable.name: variable.value for variable in found} == variables


def test_every_knob_is_in_the_table() -> None:
    assert {knob.key for knob in KNOBS} == {key for section, _, _ in TABLE for key in section}


ARGUMENTS = [
    ({"start_timeout": 60}, {"HOROVOD_START_TIMEOUT": "60"}),
    ({"no_stall_check": True}, {"HOROVOD_STALL_CHECK_DISABLE": "1"}),
    ({"no_hierarchical_allreduce": True}, {"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}),
    ({"no_hierarchical_allreduce": False}, {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}),
    ({"no_mpi_threads_disable": True}, {"HOROVOD_MPI_THREADS_DISABLE": "0"}),
    ({"no_autotune": True}, {}),
    ({"no_autotune": False}, {"HOROVOD_AUTOTUNE": "1"}),
    ({"log_without_timestamp": True}, {"HOROVOD_LOG_HIDE_TIME": "1"}),
    ({"log_hide_timestamp": False}, {"HOROVOD_LOG_HIDE_TIME": "0"}),
]  # fmt: skip


@pytest.mark.parametrize(("section", "variables"), ARGUMENTS)
def test_arguments_of_horovodrun_become_variables(
    section: dict[str, object], variables: dict[str, str]
) -> None:
    test_knobs_become_variables(section, variables, [])


WITHOUT_EFFECT = {
    "output_filename": ("out", "output_filename has no effect: the run's log has the output of all tasks"),
    "config_file": ("c.yml", "config_file is not read; write its keys here"),
    "mpi_args": (
        "--map-by node",
        "mpi_args is not used; write `batch: {launcher: {name: mpirun, args: [...]}}`",
    ),
    "binding_args": (["a", "b"], "binding_args is not used; write `batch: {launcher: {args: [...]}}`"),
    "ssh_port": (
        22,
        "ssh_port has no effect: ssh uses your own settings; write it in ~/.ssh/config",
    ),
    "disable_cache": (
        True,
        "disable_cache has no effect: horovodrun runs with what a batch job needs",
    ),
    "network_interfaces": (
        "eth0",
        "network_interfaces has no effect: the site file names the network",
    ),
    "elastic_timeout": (5, "elastic_timeout has no effect without `elastic`"),
}


@pytest.mark.parametrize("key", WITHOUT_EFFECT)
def test_arguments_without_effect_are_reported(key: str) -> None:
    value, message = WITHOUT_EFFECT[key]
    found = [*HOROVOD.problems(experiment(framework="horovod", horovod={key: value}))]
    assert [(str(problem), problem.severity) for problem in found] == [
        (f"horovod.{key}: {message}", "warning")
    ]


def test_a_limit_of_horovodrun_is_reported_where_another_launcher_starts_the_job() -> None:
    exp = experiment(framework="horovod", horovod={"start_timeout": 60})
    jobs = {name: planned(framework="horovod", batch={"launcher": name}) for name in ("srun", "horovodrun")}
    found = {name: [*map(str, HOROVOD.advice(job, exp, TESTBED))] for name, job in jobs.items()}
    message = "start_timeout has no effect: only horovodrun has it, which does not start this job"
    assert found == {"srun": [f"horovod.start_timeout: {message}"], "horovodrun": []}


@pytest.mark.parametrize(
    ("launcher", "section", "seconds"),
    [
        ("srun", {}, []),
        ("horovodrun-mpi", {}, ["300"]),
        ("horovodrun", {}, ["300"]),
        ("horovodrun", {"start_timeout": 60}, ["60"]),
        ("horovodrun-elastic", {"elastic": {}}, ["300"]),
    ],
)
def test_busy_nodes_have_time_to_start(launcher: str, section: dict[str, object], seconds: list[str]) -> None:
    """The 30 s of horovodrun 0.28.1 were too short for two nodes with other work."""
    exp = experiment(framework="horovod", horovod=section)
    job = planned(framework="horovod", horovod=section, batch={"launcher": launcher})
    found = HOROVOD.variables(job, exp, TESTBED)
    assert [variable.value for variable in found if variable.name == "HOROVOD_START_TIMEOUT"] == seconds


@pytest.mark.parametrize(("section", "seconds"), [({}, "60"), ({"elastic_timeout": 5}, "5")])
def test_an_elastic_run_waits(section: dict[str, object], seconds: str) -> None:
    exp = experiment(framework="horovod", horovod={"elastic": {}} | section)
    words = [word.text for word in HOROVOD.words(planned(framework="horovod"), exp, TESTBED)]
    assert words[words.index("--elastic-timeout") + 1] == seconds


PARSE = """
import json
from horovod.runner.common.util import config_parser
from horovod.runner.launch import parse_args
print(json.dumps(config_parser.set_env_from_args({}, parse_args())))
"""


@pytest.mark.real
@pytest.mark.parametrize(("section", "variables", "arguments"), TABLE)
def test_horovodrun_makes_the_same_variables(
    section: dict[str, object], variables: dict[str, str], arguments: list[str]
) -> None:
    del section
    argv = [sys.executable, "-W", "ignore", "-c", PARSE, *arguments, "-np", "1", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == variables


@pytest.mark.parametrize(
    ("section", "sentences"),
    [
        ({"fusion_treshold_mb": 1},
         [("horovod.fusion_treshold_mb: unknown key 'fusion_treshold_mb'; "
          "did you mean 'fusion_threshold_mb'?")]),
        ({"fusion_threshold_mb": "many"},
         ["horovod.fusion_threshold_mb: expected a whole number, got 'many'"]),
        ({"fusion_threshold_mb": 1.5}, ["horovod.fusion_threshold_mb: expected a whole number, got 1.5"]),
        ({"fusion_threshold_mb": True}, ["horovod.fusion_threshold_mb: expected a whole number, got true"]),
        ({"fusion_threshold_mb": -1}, ["horovod.fusion_threshold_mb: -1 is below 0"]),
        ({"cycle_time_ms": "x"}, ["horovod.cycle_time_ms: expected a number, got 'x'"]),
        ({"cycle_time_ms": float("inf")}, ["horovod.cycle_time_ms: inf is no number"]),
        ({"autotune": 2}, ["horovod.autotune: expected true or false, got 2"]),
        ({"autotune_log_file": "x"},
         ["horovod.autotune_log_file: it counts only with 'autotune'; add `autotune`"]),
        ({"autotune": False, "autotune_log_file": "x"},
         ["horovod.autotune_log_file: it counts only with 'autotune'; add `autotune`"]),
        ({"timeline_mark_cycles": True},
         ["horovod.timeline_mark_cycles: it counts only with 'timeline_filename'; add `timeline_filename`"]),
        ({"autotune": True, "autotune_gaussian_process_noise": 2},
         ["horovod.autotune_gaussian_process_noise: 2.0 is above 1"]),
        ({"log_level": "debug"}, ["horovod.log_level: 'debug' is not a valid value; did you mean 'DEBUG'?"]),
        ({"log_level": 1}, ["horovod.log_level: expected text, got 1"]),
        ({"cache_capacity": -1, "log_level": "loud"}, [
            "horovod.cache_capacity: -1 is below 0",
            ("horovod.log_level: 'loud' is not a valid value; "
             "known: DEBUG, ERROR, FATAL, INFO, TRACE, WARNING")]),
        ({"timeline_filename": ""},
         ["horovod.timeline_filename: the value is empty; write a value, or remove the key"]),
        ({"stall_check": True, "no_stall_check": False},
         ["horovod.no_stall_check: it sets what 'stall_check' sets; remove one of them"]),
        ({"np": 4},
         [("horovod.np: unknown key 'np'; "
           "write `environment.replicas`, which has a process for each")]),
        ({"gloo": True}, ["horovod.gloo: unknown key 'gloo'; write `controller: gloo`"]),
        ({"mpi": True}, ["horovod.mpi: unknown key 'mpi'; write `controller: mpi`"]),
        ({"jsrun": True}, ["horovod.jsrun: unknown key 'jsrun'; the site file names the launcher"]),
        ({"host_discovery_script": "a.sh"},
         [("horovod.host_discovery_script: unknown key 'host_discovery_script'; "
           "the job's own hosts are used")]),
        ({"min_num_proc": 4},
         ["horovod.min_num_proc: unknown key 'min_num_proc'; write `min_np` in `elastic`"]),
        ({"min_np": 4}, ["horovod.min_np: unknown key 'min_np'; write it in `elastic`"]),
        ({"start_timeout": -1}, ["horovod.start_timeout: -1 is below 0"]),
        ({"elastic": {}, "elastic_timeout": 0}, ["horovod.elastic_timeout: 0 is below 1"]),
        ({"controller": "nccl"}, ["horovod.controller: 'nccl' is not a valid value; known: gloo, mpi"]),
        ({"elastic": True}, ["horovod.elastic: expected keys and values, got true"]),
        ({"elastic": {"max": 2}}, ["horovod.elastic.max: unknown key 'max'; did you mean 'max_np'?"]),
        ({"elastic": {}, "controller": "mpi"},
         ["horovod.controller: an elastic run meets over gloo; write gloo, or nothing"]),
        ({"elastic": {"min_np": 0, "reset_limit": 0, "slots_per_host": -1}},
         ["horovod.elastic.min_np: 0 is below 1", "horovod.elastic.reset_limit: 0 is below 1",
          "horovod.elastic.slots_per_host: -1 is below 1"]),
        ({"elastic": {"min_np": 3, "max_np": 2}}, ["horovod.elastic.max_np: 2 is below min_np, 3"]),
    ],
)  # fmt: skip
def test_invalid_horovod_settings(section: dict[str, object], sentences: list[str]) -> None:
    exp = experiment(framework="horovod", horovod=section)
    assert [str(problem) for problem in frameworks.problems_of(exp)] == sentences


def test_an_unset_knob_sets_no_variable_and_a_set_one_says_where_it_stands() -> None:
    plan = planned(framework="horovod", horovod={"cycle_time_ms": 2})
    assert [variable for variable in plan.environment.variables if variable.name.startswith("HOROVOD_")] == [
        Variable(
            name="HOROVOD_CYCLE_TIME", value="2.0", origin=Origin("place", "exp.yml horovod.cycle_time_ms")
        )
    ]


def test_the_users_own_variable_wins() -> None:
    environment = {"env_vars": {"HOROVOD_CYCLE_TIME": 5}}
    plan = planned(framework="horovod", horovod={"cycle_time_ms": 2}, environment=environment)
    assert [variable for variable in plan.environment.variables if variable.name.startswith("HOROVOD_")] == [
        Variable(
            name="HOROVOD_CYCLE_TIME",
            value="5",
            origin=Origin(
                "place",
                "exp.yml environment.env_vars.HOROVOD_CYCLE_TIME",
                notes=("instead of exp.yml horovod.cycle_time_ms",),
            ),
        )
    ]


def test_horovodrun_does_not_meet_over_mpi() -> None:
    assert refused(horovod={"controller": "mpi"}, batch={"launcher": "horovodrun"}) == (
        "batch.launcher: framework horovod needs MPI, which launcher horovodrun does not provide; "
        "write one of srun, mpirun, horovodrun-mpi, pals, hydra, ibrun"
    )


def test_the_elastic_launcher_is_for_elastic_runs() -> None:
    assert refused(batch={"launcher": "horovodrun-elastic"}) == (
        "batch.launcher: launcher horovodrun-elastic is used only where a framework requires it; "
        "write one of srun, mpirun, horovodrun, horovodrun-mpi, pals, hydra, ibrun"
    )


# --- Files of the run


AWKWARD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(
    lambda text: not text.startswith("/")
)


@pytest.mark.extended
@examples(60)
@example(name='a "b" `id` $HOME $(id) \\ !! \n\n')
@given(name=AWKWARD)
def test_a_file_lies_among_the_outputs_whatever_its_name(tmp_path: Path, name: str) -> None:
    plan = planned(framework="horovod", horovod={"timeline_filename": name})
    (variables,) = told(plan, tmp_path, HPCDIST_OUTPUTS="/my $outputs")
    assert variables["HOROVOD_TIMELINE"] == f"/my $outputs/{name}"


def test_a_file_with_its_whole_path_stays_there() -> None:
    plan = planned(framework="horovod", horovod={"autotune": True, "autotune_log_file": "/$a"})
    assert plan.environment.variables[-1] == Variable(
        name="HOROVOD_AUTOTUNE_LOG", value="/$a", origin=Origin("place", "exp.yml horovod.autotune_log_file")
    )


# --- Who starts it

FOUR = environment(1, each=resources(cpu=4, gpu=2))
"""Four GPUs, on one node."""


@pytest.mark.parametrize(
    ("section", "batch", "launcher"),
    [
        ({}, {}, "srun"),
        ({"controller": "mpi"}, {}, "srun"),
        ({"controller": "mpi"}, {"launcher": "horovodrun-mpi"}, "horovodrun-mpi"),
        ({"controller": "gloo"}, {}, "horovodrun"),
        ({"controller": "gloo"}, {"launcher": "horovodrun"}, "horovodrun"),
        ({"elastic": {}}, {}, "horovodrun-elastic"),
        ({"elastic": {}, "controller": "gloo"}, {"launcher": "horovodrun-elastic"}, "horovodrun-elastic"),
    ],
)
def test_the_controller_asks_for_a_launcher(
    section: dict[str, Any], batch: dict[str, str], launcher: str
) -> None:
    plan = planned(framework="horovod", horovod=section, batch=batch, environment=FOUR)
    assert plan.launch.launcher == launcher
    assert plan.launch.needs_pmi == (launcher == "srun")
    assert plan.completion.elastic == ("elastic" in section)


@pytest.mark.parametrize(
    ("section", "launcher", "sentence"),
    [
        ({"controller": "gloo"}, "srun",
         ("batch.launcher: launcher srun does not work with `horovod.controller`; "
          "write horovodrun, or remove it")),
        ({"elastic": {}}, "horovodrun",
         ("batch.launcher: launcher horovodrun does not work with `horovod.elastic`; "
          "write horovodrun-elastic, or remove it")),
    ],
)  # fmt: skip
def test_a_launcher_that_does_not_suit(section: dict[str, Any], launcher: str, sentence: str) -> None:
    assert refused(horovod=section, batch={"launcher": launcher}) == sentence


def test_gloo_is_not_for_a_launch_of_the_users_own() -> None:
    assert refused(horovod={"controller": "gloo"}, run={"cmd": "mpirun -np 4 python train.py"}) == (
        "horovod.controller: the command is a launch by mpirun already; "
        "remove this, or let the command be the program that it starts"
    )


def refused(**data: Any) -> str:
    with pytest.raises(PlanError) as caught:
        planned(framework="horovod", environment=FOUR, **data)
    return str(caught.value)


# --- Elastic runs


def options(plan: Plan) -> dict[str, tuple[str, Origin]]:
    """Return each option of the launch line that has a value, with that and its origin."""
    return {
        option.text: (value.text, value.origin)
        for option, value in pairwise(plan.words)
        if option.text.startswith("-") and option.origin == value.origin
    }


@pytest.mark.parametrize(
    ("elastic", "least", "most"),
    [
        ({}, "1", "4"),
        ({"min_np": 2}, "2", "4"),
        ({"min_np": 2, "max_np": 3, "slots_per_host": 4}, "2", "3"),
        ({"min_np": 4, "max_np": 4}, "4", "4"),
    ],
)
def test_the_bounds_of_an_elastic_run(elastic: dict[str, int], least: str, most: str) -> None:
    plan = planned(framework="horovod", horovod={"elastic": elastic}, environment=FOUR)
    assert plan.launch.mode == "once"
    found = options(plan)
    assert found["--min-np"] == (least, Origin("place", "exp.yml horovod.elastic.min_np"))
    assert found["--max-np"] == (most, Origin("place", "exp.yml horovod.elastic.max_np"))
    assert "--reset-limit" not in found


def test_an_elastic_run_ends_after_so_many_changes() -> None:
    plan = planned(framework="horovod", horovod={"elastic": {"reset_limit": 5}}, environment=FOUR)
    assert options(plan)["--reset-limit"] == ("5", Origin("place", "exp.yml horovod.elastic.reset_limit"))


@pytest.mark.parametrize(("workers", "interface"), [(1, "lo"), (2, "eth0")])
def test_the_interface_that_joins_the_nodes(workers: int, interface: str) -> None:
    section = environment(workers, each=resources(cpu=4, gpu=2))
    plan = planned(framework="horovod", horovod={"elastic": {}}, environment=section)
    assert options(plan)["--network-interfaces"][0] == interface


@pytest.mark.parametrize(
    ("elastic", "sentence"),
    [
        ({"min_np": 5},
         "min_np: 5 processes are wanted, 4 are allocated; ask for more replicas, or write less"),
        ({"max_np": 5},
         "max_np: 5 processes are wanted, 4 are allocated; ask for more replicas, or write less"),
        ({"slots_per_host": 2},
         ("slots_per_host: the plan has 4 processes a node; "
          "write `replicas: {per_node: N}` that give so many, or remove it")),
    ],
)  # fmt: skip
def test_bounds_that_do_not_fit_what_is_allocated(elastic: dict[str, int], sentence: str) -> None:
    assert refused(horovod={"elastic": elastic}) == f"horovod.elastic.{sentence}"


def test_nodes_of_several_kinds_cannot_be_lost() -> None:
    kinds = {
        "resources": resources(cpu=20),
        "replicas": {"n_workers": 2, "default_worker": {"resources": resources(gpu=1)}},
    }
    with pytest.raises(PlanError) as caught:
        planned(framework="horovod", horovod={"elastic": {}}, environment=kinds)
    assert str(caught.value) == (
        "horovod.elastic: its nodes are of several kinds, and Slurm ends such a job when it loses one; "
        "give all replicas the same resources"
    )


def test_slots_on_nodes_that_are_filled_differently() -> None:
    section = environment(2, each=resources(cpu=4, gpu=2))
    with pytest.raises(PlanError, match="the plan has 2, 4 processes a node"):
        planned(framework="horovod", horovod={"elastic": {"slots_per_host": 4}}, environment=section)
