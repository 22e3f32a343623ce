from __future__ import annotations

import msgspec
import pytest

from hpcdist.base.errors import PlanError
from hpcdist.site.charges import Account, AccountRule
from hpcdist.site.problems import problems_of
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import shipped_site, site
from tests.wording import Wording

MACHINE = site(
    node_types={"n": {"cpus": 4}, "g": {"cpus": 8, "gpus": 2}},
    partitions={"cpu": {"nodes": {"n": 4}}, "gpu": {"nodes": {"g": 4}}, "debug": {"nodes": {"g": 1}}},
    account={
        "rules": [
            {"node_types": ["g"], "pattern": ".*-gpu", "hint": "write NAME-gpu"},
            {"partitions": ["cpu"], "pattern": ".*-cpu", "hint": "write NAME-cpu"},
            {"partitions": ["debug"], "pattern": "d.*", "hint": "write d-NAME", "refuse": False},
        ]
    },
)
GPU, CPU = environment(each=resources(gpu=1)), environment(each=resources(cpu=1))


def refused(account: str, section: dict[str, object]) -> str:
    with pytest.raises(PlanError) as error:
        planned(MACHINE, environment=section, batch={"account": account})
    return str(error.value)


def test_account_has_the_form_of_those_of_such_jobs(wording: Wording) -> None:
    wording((refused("a-cpu", GPU), refused("a-gpu", CPU)))
    assert planned(MACHINE, environment=GPU, batch={"account": "a-gpu"}).request.account == "a-gpu"
    assert planned(MACHINE, environment=GPU).request.account is None


def test_rule_that_does_not_refuse_is_a_warning(wording: Wording) -> None:
    plan = planned(MACHINE, environment=GPU, batch={"account": "a-gpu", "partition": "debug"})
    wording(warnings_of(plan))


def test_rules_that_cannot_hold_are_problems_of_the_site_file(wording: Wording) -> None:
    rules = (AccountRule(partitions=("gpus",), pattern="(", hint="x"),)
    machine = msgspec.structs.replace(MACHINE, account=Account(rules=rules))
    wording(map(str, problems_of(machine)))


@pytest.mark.parametrize(
    ("name", "gpu", "account"),
    [
        ("jean-zay", 1, "abc@v100"),
        ("jean-zay", None, "abc@cpu"),
        ("delta", 1, "abcd-delta-gpu"),
        ("delta", None, "abcd-delta-cpu"),
    ],
)
def test_sites_with_accounts_for_gpus_refuse_the_others(name: str, gpu: int | None, account: str) -> None:
    section = environment(each=resources(gpu=gpu, cpu=1))
    planned(shipped_site(name), environment=section, batch={"account": account})
    for other in {"abc@v100", "abc@a100", "abc@cpu", "abcd-delta-gpu", "abcd-delta-cpu"} - {account}:
        with pytest.raises(PlanError, match=r"batch\.account: site .* has no accounts like"):
            planned(shipped_site(name), environment=section, batch={"account": other})
