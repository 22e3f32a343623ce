from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import site
from tests.wording import Wording


def machine(over: str = "refused", **partition: Any) -> Any:
    most = {"cpus": 4, "memory": "8Gi", "over": over}
    return site(
        node_types={"g": {"cpus": 48, "job_memory": "64Gi", "gpus": 4, "max_per_gpu": most}},
        partitions={"gpu": {"nodes": {"g": 4}, **partition}},
        request_memory="share",
        gpus={"request": "gres"},
    )


def test_replicas_get_no_more_than_their_gpus_bring() -> None:
    (group,) = planned(machine(), environment=environment(each=resources(gpu=2))).placement.groups
    assert (group.cpus, group.gpus, group.memory) == (8, 2, 8 * 64 * 1024 // 48)


def test_more_than_that_is_refused_with_what_to_write(wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        planned(machine(), environment=environment(each=resources(gpu=1, cpu=9, memory="20Gi")))
    wording(str(error.value))


def test_more_than_that_is_a_warning_where_it_is_only_discouraged(wording: Wording) -> None:
    asked = environment(each=resources(gpu=2, cpu=9))
    plan = planned(machine("discouraged"), environment=asked)
    assert plan.placement.groups[0].cpus == 9
    wording(warnings_of(plan))
    assert not any(
        "a GPU" in text
        for text in warnings_of(planned(machine(), environment=environment(each=resources(cpu=9))))
    )


def test_cpus_are_not_requested_where_gpus_bring_them() -> None:
    def flags(**asked: Any) -> dict[str, str | None]:
        plan = planned(machine(request_cpus=False), environment=environment(each=resources(**asked)))
        return {line.flag: line.value for line in plan.directives if line.flag in SIZES}

    assert flags(gpu=2) == {"--gres": "gpu:2"}
    assert flags(cpu=3) == {"--ntasks-per-node": "1", "--cpus-per-task": "3"}
    plan = planned(machine(request_cpus=False), environment=environment(each=resources(gpu=2, cpu=3)))
    assert plan.placement.groups[0].cpus == 8
    assert "--cpus-per-task=8" in [word.text for word in plan.words]
    assert (
        "environment.resources.cpu: CPUs are not requested in partition gpu (g nodes), where each GPU "
        "brings 4"
    ) in warnings_of(plan)


def test_less_than_gpus_bring_is_a_warning(wording: Wording) -> None:
    nodes = site(
        node_types={"g": {"cpus": 16, "job_memory": 64000, "gpus": 4}},
        partitions={"gpu": {"nodes": {"g": 4}}},
        request_memory="share",
    )

    def warned(**asked: Any) -> tuple[str, ...]:
        plan = planned(nodes, environment=environment(each=resources(**asked)), batch={"walltime": "1h"})
        return warnings_of(plan)

    wording(warned(gpu=1, cpu=3, memory=15999))
    assert warned(gpu=1, cpu=4, memory=16000) == warned(gpu=1) == warned(cpu=1, memory=500) == ()
    alone = {"walltime": "1h", "exclusive": True}
    section = environment(each=resources(gpu=4, cpu=1))
    assert warnings_of(planned(nodes, environment=section, batch=alone)) == ()


SIZES = ("--ntasks-per-node", "--cpus-per-task", "--gres")
