from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.base.errors import PlanError
from hpcdist.loading.sites import problems_in
from hpcdist.plan.values import Origin
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.experiments import environment
from tests.layers.containers.sites import OWN, boxed, two_tasks
from tests.plans import planned, warnings_of, words
from tests.sites import site
from tests.wording import Wording

OUTSIDE = "give --no-container to run with the site's own modules"


def refusal(machine: Site, **data: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        two_tasks(machine, **data)
    return [str(problem) for problem in caught.value.problems]


def test_a_site_without_a_runtime_leaves_the_choice(wording: Wording) -> None:
    wording(refusal(site()))


@pytest.mark.parametrize(
    "machine",
    [site(), boxed("pyxis")],
    ids=["site without a runtime", "site with one"],
)
def test_without_the_container(machine: Site, wording: Wording) -> None:
    plan = two_tasks(machine, batch={"container": False})
    bare = planned(machine, framework="mpi", environment=two_environment())
    assert (words(plan), plan.environment.setup, plan.container) == (
        words(bare),
        bare.environment.setup,
        None,
    )
    wording(warnings_of(plan))


def two_environment() -> dict[str, Any]:
    return environment(1, each={"gpu": {"requests": 1}}, env_vars={"A": "it's $x"})


def test_a_misspelt_runtime(wording: Wording) -> None:
    wording(refusal(boxed("aptainer")))


@pytest.mark.parametrize(
    "data",
    [
        {"framework": None, "environment": {}, "run": {"cmd": "mpirun -n 2 python x.py"}},
        {"framework": None, "environment": {}, "backend": "mpi"},
    ],
    ids=["mpirun", "the user"],
)
def test_own_launch_line_cannot_run_in_a_container(data: dict[str, Any], wording: Wording) -> None:
    wording(refusal(boxed("apptainer"), **data))


def test_data_that_the_experiment_names_is_inside() -> None:
    section = two_environment() | {"persistence": {"data": ["data", "unknown"]}, "data_refs": ["data"]}
    plan = two_tasks(boxed("apptainer", binds=["/a"]), environment=section)
    assert plan.container
    assert [word.text for word in plan.container.binds] == [*OWN, r"/data/\$x:/data/\$x", "/a:/a"]


def test_job_checks_runtime_and_image_first() -> None:
    plan = two_tasks(boxed("apptainer", setup=["module load apptainer"]), "./my image")
    assert [word.text for word in plan.environment.setup] == [
        (
            "module load apptainer || "
            "fail \"'module load apptainer' failed (site x: container.setup) on $(uname -n)\""
        ),
        (
            'type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module '
            f'in the site file, or {OUTSIDE}"'
        ),
        "[[ -e './my image' ]] || fail there is no image './my image' on \"$(uname -n)\"",
        '[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"',
    ]


def test_conditions_of_the_fabric_know_of_the_container() -> None:
    fabric = {"env": {"IN": {"value": 1, "container": True}, "OUT": {"value": 1, "container": False}}}
    data = {"build": {"image": "python"}}
    machine = site(fabric=fabric, container={"runtime": "shifter"})
    for more, expected in (({}, ["OUT"]), (data, ["IN"])):
        names = [variable.name for variable in planned(machine, **more).environment.variables]
        assert [name for name in names if name in ("IN", "OUT")] == expected


def test_origins_of_image_and_container() -> None:
    plan = two_tasks(boxed("apptainer"), "x.sif")
    assert plan.container
    assert (plan.container.runtime, plan.container.image, plan.gpus.library) == ("apptainer", "x.sif", "nccl")
    assert (plan.origins["image"], plan.origins["container"]) == (
        Origin("place", "exp.yml build.image"),
        Origin("site", "x", "container.runtime"),
    )


def test_invalid_container_section(wording: Wording) -> None:
    section = {"runtime": "apptainer", "binds": ["/a:/b", "/a b", '/"', "$(x)"], "env": {"A": 1, "B-C": 1}}
    section["library_path"] = ["$A/lib", "/a b"]
    base = {"name": "x", "description": "x", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | {"container": section})
    assert (built is not None, problems) == (True, [])
    assert built is not None
    wording(map(str, problems_of(built)))


OLD = {
    "runtime": "apptainer",
    "binds": ["/b"],
    "args": ["--fakeroot"],
    "setup": ["module load apptainer"],
    "library_path": ["/lib"],
    "env": {"B": 1},
    "mpi": "pmi2",
}


def two_kinds(**data: Any) -> Site:
    return site(
        node_types={"x": {"cpus": 64, "gpus": 4}},
        partitions={"gpu": {"nodes": {"x": 8}}, "old": {"nodes": {"x": 8}, "container": OLD}},
        default_partition="gpu",
        **data,
    )


def test_a_partition_may_have_a_runtime_of_its_own() -> None:
    machine = two_kinds(container={"runtime": "pyxis"})
    plans = [two_tasks(machine, batch={"partition": name}) for name in ("gpu", "old")]
    assert [plan.container and plan.container.runtime for plan in plans] == ["pyxis", "apptainer"]
    keys = {word.origin.key for plan in plans for word in (*plan.words, *plan.environment.setup)}
    base = "partitions.old.container"
    assert sorted(key for key in keys if "container" in key) == [
        f"{base}.{key}" for key in ("args", "binds", "env", "env.B", "library_path", "mpi", "setup")
    ]
    assert plans[1].origins["container"] == Origin("site", "x", f"{base}.runtime")


def test_only_a_partition_may_have_one(wording: Wording) -> None:
    assert two_tasks(two_kinds(), batch={"partition": "old"}).container
    wording(refusal(two_kinds()))


def test_a_job_in_partitions_with_different_runtimes(wording: Wording) -> None:
    section = two_environment() | {"node_selector": {"partition": "gpu"}}
    section["replicas"]["default_worker"]["node_selector"] = {"partition": "old"}
    wording(refusal(two_kinds(container={"runtime": "pyxis"}), environment=section))


def test_invalid_container_section_of_a_partition(wording: Wording) -> None:
    section = {"runtime": "aptainer", "binds": ["$(x)"], "annotations": {"a": "1"}}
    parts = {"p": {"nodes": {"n": 1}, "container": section | {"args": [{"value": "-x"}]}}}
    base = {"name": "x", "description": "x", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | {"node_types": {"n": {}}, "partitions": parts})
    assert (built is not None, problems) == (True, [])
    assert built is not None
    wording(map(str, problems_in(built)))


def test_what_the_program_links_is_not_known_in_an_image() -> None:
    entry = {"value": 1, "links": "libnccl.so"}
    together = [{"why": "x", "links": "libnccl.so", "env": {"C": 1}}]
    fabric = {"env": {"A": entry, "B": entry | {"otherwise": 0}}, "together": together}
    machine = site(fabric=fabric, container={"runtime": "apptainer"})
    for more, expected in (
        ({}, [("A", "1", "libnccl.so"), ("B", "1", "libnccl.so"), ("C", "1", "libnccl.so")]),
        ({"build": {"image": "./x.sif"}}, [("B", "0", None)]),
    ):
        found = planned(machine, **more).environment.variables
        assert [(item.name, item.value, item.links) for item in found if item.name in "ABC"] == expected
