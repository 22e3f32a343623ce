from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import PlanError
from hpcdist.plan.values import Origin, Word
from tests.experiments import environment, resources
from tests.plans import TESTBED, WRAPPED, planned
from tests.sites import shipped_site, site

FRONTIER = shipped_site("frontier")


def launch(*words: str) -> list[str]:
    return [*words, *WRAPPED]


def test_equal_tasks() -> None:
    plan = planned(framework="mpi", environment=environment(3, each=resources(cpu=4)))
    assert [word.text for word in plan.words] == launch(
        "srun",
        "--nodes=1",
        "--ntasks=4",
        "--ntasks-per-node=4",
        "--cpus-per-task=4",
        "--kill-on-bad-exit=1",
        "--wait=0",
        "--label",
        "--mpi=pmix",
    )
    assert plan.words[8] == Word(text="--mpi=pmix", origin=Origin("site", "testbed", "launchers.srun.mpi"))


def test_one_task_has_no_label() -> None:
    plan = planned(framework="mpi", environment=environment(each=resources(cpu=4)))
    assert "--label" not in [word.text for word in plan.words]
    assert not plan.launch.label_in_task


def test_unequal_tasks_are_placed_one_by_one() -> None:
    plan = planned(framework="mpi", environment=environment(4, each=resources(cpu=4)))
    assert [word.text for word in plan.words][:5] == [
        "srun",
        "--ntasks=5",
        "--distribution=arbitrary",
        "--cpu-bind=none",
        "--nodelist=<(hosts 0 1 3 && hosts 1 1 2)",
    ]
    assert plan.words[4].shell


def test_equal_tasks_of_several_nodes_follow_the_order_of_the_nodes() -> None:
    plan = planned(framework="mpi", environment=environment(3, each=resources(cpu=8)))
    assert [word.text for word in plan.words][:6] == [
        "srun",
        "--nodes=2",
        "--ntasks=4",
        "--ntasks-per-node=2",
        "--cpus-per-task=8",
        "--distribution=plane=2",
    ]


def test_components_of_a_heterogeneous_job() -> None:
    plan = planned(
        framework="pytorch",
        environment={
            "resources": resources(cpu=20),
            "replicas": {"n_workers": 2, "default_worker": {"resources": resources(cpu=1, gpu=1)}},
        },
    )
    assert [word.text for word in plan.words] == launch(
        *["srun", "--het-group=0", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpus-per-task=20"],
        *["--kill-on-bad-exit=1", "--wait=0", "--label", "--mpi=none"],
        *[":", "--het-group=1", "--nodes=1", "--ntasks=2", "--ntasks-per-node=2", "--cpus-per-task=1"],
        "--mpi=none",
    )
    assert plan.words[9].origin == Origin("rule", "no PMI over several components, but for MPI")


@pytest.mark.parametrize(
    ("framework", "components", "mpi"),
    [
        ("mpi", 1, ["--mpi=pmix"]),
        ("horovod", 2, ["--mpi=pmix"] * 2),
        ("pytorch", 1, ["--mpi=pmix"]),
        ("tensorflow", 2, ["--mpi=none"] * 2),
    ],
)
def test_over_several_components_only_what_meets_by_mpi_asks_for_pmi(
    framework: str, components: int, mpi: list[str]
) -> None:
    master = resources(gpu=1) if components == 1 else resources(cpu=20)
    workers = {"n_workers": 1, "default_worker": {"resources": resources(gpu=1)}}
    plan = planned(framework=framework, environment={"resources": master, "replicas": workers})
    assert len(plan.placement.groups) == components
    assert [word.text for word in plan.words if word.text.startswith("--mpi")] == mpi


@pytest.mark.parametrize(("framework", "mpi"), [("mpi", ["--mpi=pmix"]), ("pytorch", []), ("jax", [])])
def test_a_guess_of_the_site_is_for_those_who_need_it(framework: str, mpi: list[str]) -> None:
    plan = planned(shipped_site("slurm"), framework=framework, environment=environment(1))
    assert [word.text for word in plan.words if word.text.startswith("--mpi")] == mpi


@pytest.mark.parametrize("framework", ["mpi", "horovod", "chainermn"])
def test_where_the_site_names_no_pmi_slurm_chooses(framework: str) -> None:
    replicas = {"n_workers": 1, "default_worker": {"resources": resources(gpu=1)}}
    section = {"resources": resources(cpu=20), "replicas": replicas}
    plan = planned(replace(TESTBED, launchers={}), framework=framework, environment=section)
    assert len(plan.placement.groups) == 2
    assert [word.text for word in plan.words if word.text.startswith("--mpi")] == []


def test_a_program_without_a_framework_may_use_mpi() -> None:
    assert "--mpi=pmix" in [word.text for word in planned().words]


def test_options_of_the_site() -> None:
    plan = planned(site(launchers={"srun": {"args": ["--gpu-bind=none", "-v"]}}))
    assert plan.words[7:9] == (
        Word(text="--gpu-bind=none", origin=Origin("site", "x", "launchers.srun.args")),
        Word(text="-v", origin=Origin("site", "x", "launchers.srun.args")),
    )


@pytest.mark.parametrize(("gpus", "tasks"), [(1, 2), (2, 4), (8, 16)])
def test_gpus_that_srun_hands_out(gpus: int, tasks: int) -> None:
    plan = planned(
        FRONTIER,
        framework="horovod",
        batch={"account": "ABC123"},
        environment=environment(1, each=resources(gpu=gpus)),
    )
    assert plan.placement.size == tasks
    assert plan.gpus.visibility == "launcher"
    texts = [word.text for word in plan.words]
    place = texts.index("--label") + 1
    assert texts[place : place + 3] == ["--gpus-per-task=1", "--mpi=cray_shasta", "--gpu-bind=closest"]
    assert plan.words[place].origin == Origin("site", "frontier", "gpus.bound_by")


@pytest.mark.parametrize(
    ("each", "processes", "option"),
    [(resources(gpu=8), None, "--gpus-per-task=8"), (resources(cpu=7), None, None)],
)
def test_as_many_gpus_as_a_task_holds(
    each: dict[str, object], processes: int | None, option: str | None
) -> None:
    env = environment(1, each=each, processes_per_replica=processes)
    plan = planned(FRONTIER, framework="pytorch", batch={"account": "ABC123"}, environment=env)
    found = [word.text for word in plan.words if word.text.startswith("--gpus-per-task")]
    assert found == ([option] if option else [])


def test_gpus_that_srun_cannot_hand_out() -> None:
    message = (
        "environment.replicas: site frontier assigns GPUs by srun --gpus-per-task, which gives all tasks "
        "the same number; give all replicas the same GPUs, at least one a process"
    )
    shared = environment(1, each=resources(gpu=2), processes_per_replica=4)
    different = {
        "resources": resources(gpu=1),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(gpu=2)}},
    }
    for section in (shared, different):
        with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
            planned(FRONTIER, framework="pytorch", batch={"account": "A"}, environment=section)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["--cpu-bind=verbose"], ["--cpu-bind=verbose,cores"]),
        (["--cpu-bind", "verbose"], ["--cpu-bind=verbose,cores"]),
        (["--mem-bind=verbose"], ["--cpu-bind=cores", "--mem-bind=verbose"]),
        (["--cpu-bind=rank"], ["--cpu-bind=cores", "--cpu-bind=rank"]),
    ],
)
def test_a_report_of_the_binding_is_added_to_it(args: list[str], found: list[str]) -> None:
    machine = site(launcher="srun", launchers={"srun": {"binding": ["--cpu-bind=cores"]}})
    plan = planned(machine, framework="mpi", batch={"launcher": {"args": args}})
    assert [word.text for word in plan.words if "bind" in word.text or word.text == "verbose"] == found


@pytest.mark.parametrize(
    ("launcher", "option", "hint"),
    [
        ("srun", "-c2", "gets its counts and hosts from the plan"),
        ("srun", "-wn1", "gets its counts and hosts from the plan"),
        ("srun", "-N2", "gets its counts and hosts from the plan"),
        ("srun", "-K1", "write `batch: {kill_on_failure: ...}`"),
        ("pals", "--no-abort-on-failure", "write `batch: {kill_on_failure: ...}`"),
        ("srun", "-uN2", "gets its counts and hosts from the plan"),
        ("srun", "-vQc2", "gets its counts and hosts from the plan"),
        ("srun", "--nodel=n1", "gets its counts and hosts from the plan"),
        ("flux", "-vn4", "gets its counts and hosts from the plan"),
        ("mpirun", "-n4", "gets its counts and hosts from the plan"),
        ("mpirun", "-N", "gets its counts and hosts from the plan"),
        ("hydra", "-perhost", "gets its counts and hosts from the plan"),
    ],
)
def test_a_value_joined_to_a_reserved_option_is_seen(launcher: str, option: str, hint: str) -> None:
    machine = site(launcher=launcher, scheduler="flux" if launcher == "flux" else "slurm")
    with pytest.raises(PlanError, match=rf"args\[0\]: {option} is set by hpcdist; .*{re.escape(hint)}"):
        planned(machine, framework="mpi", batch={"launcher": {"name": launcher, "args": [option]}})


@pytest.mark.parametrize("option", ["-u", "-Jn4", "-xn2", "--nodefile=x", "-W0"])
def test_other_options_in_short_are_the_users(option: str) -> None:
    plan = planned(framework="mpi", batch={"launcher": {"name": "srun", "args": [option]}})
    assert option in [word.text for word in plan.words]


def test_an_option_of_one_dash_and_a_word_is_its_own() -> None:
    plan = planned(framework="mpi", batch={"launcher": {"name": "mpirun", "args": ["-nooversubscribe"]}})
    assert "-nooversubscribe" in [word.text for word in plan.words]
