from __future__ import annotations

from hpcdist.plan import RankVariables
from tests.experiments import environment, resources
from tests.plans import LOCAL, WRAPPED, changed, planned, words


def test_horovodrun_with_gloo() -> None:
    plan = planned(
        framework="horovod",
        batch={"launcher": "horovodrun"},
        environment=environment(3, each=resources(cpu=8)),
    )
    assert words(plan) == ["horovodrun", "--gloo", "-np", "4", '--hostfile "$HPCDIST_HOSTFILE"', *WRAPPED]
    assert plan.rank_variables == RankVariables(
        rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK"
    )
    assert not plan.label_in_task


def test_options_of_the_site() -> None:
    machine = changed(LOCAL, launcher="horovodrun")
    assert words(planned(machine, framework="horovod"))[:2] == ["horovodrun", "--gloo"]
