from __future__ import annotations

from pathlib import Path

from hpcdist.plan import placeholders
from hpcdist.plan.placeholders import HEAD_ADDRESS, template
from hpcdist.plan.values import Origin, Variable
from tests.experiments import environment, resources
from tests.plans import planned
from tests.sites import site
from tests.tasks import PORT, told

ORIGIN = Origin("framework", "mxnet")
SECTION = environment(2, ps=2, each=resources(cpu=1))
PLAN = planned(framework="mxnet", environment=SECTION)


def test_where_the_scheduler_is_and_how_many_there_are_of_the_others() -> None:
    assert [variable for variable in PLAN.environment.variables if variable.name.startswith("DMLC_")] == [
        Variable.filled("DMLC_PS_ROOT_URI", template(HEAD_ADDRESS), ORIGIN),
        Variable.filled("DMLC_PS_ROOT_PORT", template(placeholders.PORT), ORIGIN),
        Variable(name="DMLC_NUM_WORKER", value="2", origin=ORIGIN),
        Variable(name="DMLC_NUM_SERVER", value="2", origin=ORIGIN),
        Variable(name="DMLC_INTERFACE", value="eth0", origin=Origin("site", "testbed", "fabric.interface")),
    ]


ALL = {
    "DMLC_PS_ROOT_URI": "node0",
    "DMLC_PS_ROOT_PORT": str(PORT),
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "2",
}
OWN = [
    {"DMLC_ROLE": "scheduler"},
    {"DMLC_ROLE": "worker"},
    {"DMLC_ROLE": "worker"},
    {"DMLC_ROLE": "server", "DMLC_SERVER_ID": "0"},
    {"DMLC_ROLE": "server", "DMLC_SERVER_ID": "1"},
]


def of_mxnet(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith("DMLC_")}


def test_each_task_has_a_role_and_servers_a_number(tmp_path: Path) -> None:
    expected = [ALL | own | {"DMLC_INTERFACE": "eth0"} for own in OWN]
    assert [of_mxnet(variables) for variables in told(PLAN, tmp_path)] == expected


def test_its_address_where_no_interface_says_it(tmp_path: Path) -> None:
    plan = planned(site(), framework="mxnet", environment=SECTION)  # a node for each replica
    expected = [ALL | own | {"DMLC_NODE_HOST": f"node{node}"} for node, own in enumerate(OWN)]
    assert [of_mxnet(variables) for variables in told(plan, tmp_path)] == expected


def test_the_job_ends_with_its_workers() -> None:
    assert (PLAN.completion.required_roles, PLAN.required_tasks) == (("worker",), 2)
    assert planned(framework="mxnet").completion.required_roles == ()
