# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.errors import PlanError
from hpcdist.plan.origin import Origin
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.experiments import environment
from tests.layers.containers.sites import IMAGE, OWN, boxed, two_tasks
from tests.plans import planned, warnings_of, words
from tests.sites import site

OUTSIDE = "give --no-container to run with the site's own modules"


def refusal(machine: Site, **data: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        two_tasks(machine, **data)
    return [str(problem) for problem in caught.value.problems]


def test_a_site_without_a_runtime_leaves_the_choice() -> None:
    assert refusal(site()) == [
        (
            f"build.image: site x has no container runtime to run {IMAGE} in; {OUTSIDE}, or name its runtime in a site "
            "file (`container: {runtime: apptainer}`)"
        )
    ]


@pytest.mark.parametrize("machine", [site(), boxed("pyxis")])
def test_without_the_container(machine: Site) -> None:
    plan = two_tasks(machine, batch={"container": False})
    bare = planned(machine, framework="mpi", environment=two_environment())
    note = (
        f"the image {IMAGE} is not used (--no-container): the program runs with what the site's `modules` and "
        "`setup` give"
    )
    assert (words(plan), plan.environment.setup, plan.container) == (
        words(bare),
        bare.environment.setup,
        None,
    )
    assert note in warnings_of(plan)


def two_environment() -> dict[str, Any]:
    return environment(1, each={"gpu": {"requests": 1}}, env_vars={"A": "it's $x"})


def test_a_misspelt_runtime() -> None:
    assert refusal(boxed("aptainer")) == [
        "site x: there is no container runtime 'aptainer'; did you mean 'apptainer'?"
    ]


@pytest.mark.parametrize(
    ("data", "by"),
    [
        ({"framework": None, "environment": {}, "run": {"cmd": "mpirun -n 2 python x.py"}}, "mpirun"),
        ({"framework": None, "environment": {}, "backend": "mpi"}, "the user (`backend: mpi`)"),
    ],
)
def test_own_launch_line_cannot_run_in_a_container(data: dict[str, Any], by: str) -> None:
    assert refusal(boxed("apptainer"), **data) == [
        (
            f"build.image: the command is a launch by {by}, which would run outside the container; let the command be "
            f"the program itself, and hpcdist starts it; or {OUTSIDE}"
        )
    ]


def test_data_that_the_experiment_names_is_inside() -> None:
    section = two_environment() | {"persistence": {"data": ["data", "unknown"]}, "data_refs": ["data"]}
    plan = two_tasks(boxed("apptainer", binds=["/a"]), environment=section)
    assert plan.container
    assert [word.text for word in plan.container.binds] == [*OWN, r"/data/\$x:/data/\$x", "/a:/a"]


def test_job_checks_runtime_and_image_first() -> None:
    plan = two_tasks(boxed("apptainer", setup=["module load apptainer"]), "./my image")
    assert [word.text for word in plan.environment.setup] == [
        "module load apptainer",
        (
            'type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site '
            f'file, or {OUTSIDE}"'
        ),
        "[[ -e './my image' ]] || fail there is no image './my image' on \"$(uname -n)\"",
        '[[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"',
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


def test_invalid_container_section() -> None:
    section = {"runtime": "apptainer", "binds": ["/a:/b", "/a b", '/"', "$(x)"], "env": {"A": 1, "B-C": 1}}
    section["library_path"] = ["$A/lib", "/a b"]
    base = {"name": "x", "description": "x", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | {"container": section})
    assert (built is not None, problems) == (True, [])
    assert built is not None
    hint = "write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only"
    folder = "write one folder, with letters, digits and $NAME only"
    assert [str(problem) for problem in problems_of(built)] == [
        f"container.binds[1]: '/a b' is not a valid bind; {hint}",
        f"container.binds[2]: '/\"' is not a valid bind; {hint}",
        f"container.binds[3]: '$(x)' is not a valid bind; {hint}",
        f"container.library_path[1]: '/a b' is not a valid folder of libraries; {folder}",
        "container.env.B-C: 'B-C' is not a valid variable name",
    ]
