from __future__ import annotations

from hpcdist.plan.values import Origin
from tests.experiments import environment, resources
from tests.plans import LOCAL, WRAPPED, planned, words
from tests.sites import site

FILE = '-machinefile "$HPCDIST_HOSTFILE" -genvlist "$exports"'
BATCH = {"launcher": "hydra"}


def test_hydra_over_the_jobs_own_machine_file() -> None:
    plan = planned(framework="mpi", batch=BATCH, environment=environment(3, each=resources(cpu=8)))
    assert words(plan) == ["mpiexec.hydra", FILE, "-bind-to", "none", "-n", "4", *WRAPPED]
    assert plan.launch.rank_variables is not None
    assert plan.launch.rank_variables.rank == "PMI_RANK"
    assert (plan.launch.hostfile_line, plan.launch.needs_pmi, plan.launch.label_in_task) == (
        "%s:%s",
        False,
        True,
    )


def test_uneven_tasks_are_nothing_special() -> None:
    plan = planned(framework="mpi", batch=BATCH, environment=environment(4, each=resources(cpu=4)))
    assert words(plan) == ["mpiexec.hydra", FILE, "-bind-to", "none", "-n", "5", *WRAPPED]


def test_the_local_site_has_it_too() -> None:
    plan = planned(LOCAL, framework="mpi", batch=BATCH, environment=environment(3))
    assert words(plan)[4:6] == ["-n", "4"]


def test_several_components_are_reached_by_ssh() -> None:
    section = {
        "resources": resources(cpu=20),
        "replicas": {"n_workers": 3, "default_worker": {"resources": resources(cpu=1, gpu=1)}},
    }
    plan = planned(framework="mpi", batch=BATCH, environment=section)
    assert words(plan)[2:4] == ["-launcher", "ssh"]


def test_intel_mpi_binds_by_a_variable() -> None:
    options = {"flavour": "intel", "args": ["-bootstrap", "ssh"]}
    machine = site(launcher="hydra", launchers={"hydra": options})
    assert words(planned(machine, framework="mpi")) == [
        "mpiexec.hydra",
        FILE,
        "-bootstrap",
        "ssh",
        "-n",
        "1",
        *WRAPPED,
    ]


def test_binding_of_the_site() -> None:
    machine = site(launcher="hydra", launchers={"hydra": {"binding": ["-bind-to", "core:8"]}})
    found = planned(machine, framework="mpi").words[2:4]
    assert [word.text for word in found] == ["-bind-to", "core:8"]
    assert {word.origin for word in found} == {Origin("site", "x", "launchers.hydra.binding")}
