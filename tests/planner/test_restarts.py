"""How another attempt gets nodes, and what its program is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan, Restarts
from tests.plans import changed, planned, warnings_of
from tests.sites import site_named
from tests.wording import Wording

USUAL = Restarts(
    by="requeue",
    on=("timeout", "preempt", "node_failure", "failure"),
    max=10,
    notice=300,
    signal="USR1",
    no_progress=3,
)
DAY = {"batch": {"walltime": "24:00:00"}}


def restarts(site: str, restart: dict[str, Any], **data: Any) -> Restarts | None:
    environment = {"restart": restart}
    return planned(site_named(site), **{**DAY, **data, "environment": environment}).completion.restarts


def test_slurm_and_grid_engine_requeue_and_others_follow() -> None:
    found = {site: restarts(site, {}) for site in ("testbed", "sge", "pbs", "lsf", "flux", "local")}
    ways = {site: one.by for site, one in found.items() if one}
    assert found["testbed"] == USUAL
    assert ways == {
        "testbed": "requeue",
        "sge": "requeue",
        "pbs": "follow",
        "lsf": "follow",
        "flux": "follow",
        "local": None,
    }


def test_a_plan_says_how_many_attempts_there_may_be() -> None:
    environment = {"restart": {"max": 3}}
    texts = [
        planned(site_named(site), environment=environment, **DAY).summary
        for site in ("testbed", "pbs", "local")
    ]
    assert [text.partition(", at most ")[2] for text in texts] == [
        "4 attempts by requeue",
        "4 attempts in jobs that follow each other",
        "4 attempts in this job",
    ]


def test_a_plan_says_where_there_is_one_attempt_and_how_many_nodes_are_spare() -> None:
    def attempts(site: str, **restart: Any) -> str:
        plan = planned(site_named(site), environment={"restart": restart}, **DAY)
        return plan.summary.partition(" node, ")[2]

    assert attempts("testbed", max=0) == "1 attempt"
    assert attempts("local", on=["timeout"]) == "1 attempt"
    assert attempts("testbed", on=[]) == "1 attempt"
    assert attempts("testbed", spare_nodes=1) == "at most 11 attempts by requeue, 1 spare node"


def notes_of(plan: Plan) -> list[str]:
    """Return the notes about restarts."""
    return [str(note) for note in plan.notes if note.path[:2] == ("environment", "restart")]


@pytest.mark.parametrize(("site", "data"), [("pbs", {}), ("testbed", {"max": 1000})])
def test_what_the_restarts_can_do(site: str, data: dict[str, Any]) -> None:
    assert notes_of(planned(site_named(site), environment={"restart": data}, **DAY)) == []


@pytest.mark.parametrize(
    ("site", "data"),
    [
        ("local", {"on": ["timeout", "preempt"]}),
        ("pbs", {"max": 1000}),
    ],
    ids=str,
)
def test_what_the_restarts_cannot_do_is_a_warning(site: str, data: dict[str, Any], wording: Wording) -> None:
    wording(notes_of(planned(site_named(site), environment={"restart": data}, **DAY)))


@pytest.mark.parametrize(
    ("signal", "launcher", "warned"),
    [("TERM", "mpirun", True), ("USR1", "mpirun", False), ("TERM", "srun", False)],
)
def test_a_program_under_mpirun_has_no_time_after_term(signal: str, launcher: str, *, warned: bool) -> None:
    replicas = {"replicas": {"n_workers": 1}}
    batch = {"launcher": launcher, "walltime": "1h"}
    again = {**replicas, "restart": {"signal": signal}}
    plans = [
        planned(framework="mpi", environment=replicas, batch={**batch, "signal": f"{signal}@60"}),
        planned(framework="mpi", environment=again, batch=batch),
    ]
    text = "mpirun kills its tasks a second after TERM"
    assert [any(text in note for note in warnings_of(plan)) for plan in plans] == [warned, warned]


def test_no_more_jobs_follow_than_the_queue_takes(wording: Wording) -> None:
    def found(most: int, **restart: Any) -> tuple[int, list[str]]:
        site = msgspec.structs.replace(site_named("pbs"), max_queued_jobs=most)
        plan = planned(site, environment={"restart": restart}, **DAY)
        assert plan.completion.restarts
        return plan.completion.restarts.max, notes_of(plan)

    followers, notes = found(4)
    assert followers == 3
    wording(notes)
    assert found(4, max=3) == (3, [])
    assert found(100, max=60) == (60, [])


@pytest.mark.parametrize(("site", "warned"), [("pbs", True), ("testbed", False), ("local", False)])
def test_without_a_time_limit_there_is_no_notice(site: str, *, warned: bool) -> None:
    """Slurm tells a job when it ends."""
    plan = planned(site_named(site), environment={"restart": {}})
    assert any("no notice before the time limit" in note.message for note in plan.notes) == warned


@pytest.mark.parametrize(("walltime", "notice"), [("24:00:00", 300), ("20m", 300), ("9m", 135), ("1m", 15)])
def test_the_usual_notice_is_no_more_than_a_quarter_of_the_time(walltime: str, notice: int) -> None:
    found = restarts("testbed", {}, batch={"walltime": walltime})
    assert found is not None
    assert found.notice == notice


def test_torchrun_hands_on_term() -> None:
    found = restarts("testbed", {}, framework="pytorch", pytorch={"launch": "torchrun"})
    assert found is not None
    assert found.signal == "TERM"


def test_a_job_that_is_requeued_may_be() -> None:
    site = site_named("testbed")
    plan = planned(site, environment={"restart": {}}, **DAY)
    flags = {line.flag: str(line.origin) for line in plan.directives}
    assert flags["--requeue"] == "exp.yml environment.restart"
    forbidden = changed(site, requeue=False)
    plan = planned(forbidden, environment={"restart": {}}, **DAY)
    assert plan.completion.restarts is not None
    assert plan.completion.restarts.by == "follow"
    assert "--no-requeue" in {line.flag for line in plan.directives}


def test_an_element_of_an_array_goes_on_by_requeue_or_in_its_own_job() -> None:
    array = {"batch": {"array": "0-3", "walltime": "1h"}}
    ways = [restarts(site, {"on": ["failure"]}, **array) for site in ("testbed", "pbs")]
    assert [one and one.by for one in ways] == ["requeue", None]


PACKED: dict[str, Any] = {
    "hptuning": {"matrix": {"n": {"values": [1, 2, 3]}}},
    "run": {"cmd": "train {{ n }}"},
}


def test_packed_trials_get_term_before_the_time_limit_of_their_job() -> None:
    environment = {"resources": {"gpu": {"requests": 1}}, "restart": {}}
    batch = {"pack": True, "walltime": "1h"}
    found = planned(site_named("testbed"), **PACKED, environment=environment, batch=batch).completion.restarts
    assert found
    assert (found.by, found.signal, found.notice) == ("requeue", "TERM", 300)


def test_trials_that_are_packed_by_rule_get_no_other_signal(wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        planned(site_named("local"), **PACKED, environment={"restart": {"signal": "USR1"}})
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("restart", "data", "site"),
    [
        ({"by": "requeue"}, {}, "pbs"),
        ({"notice": "40m"}, {"batch": {"walltime": "1h"}}, "testbed"),
        ({}, {"batch": {"array": "0-3"}}, "pbs"),
        ({}, {"hptuning": {"matrix": {"n": {"values": [1, 2]}}}, "run": {"cmd": "{{ n }}"}}, "pbs"),
        ({"on": ["timeout"]}, {"batch": {"array": "0-3", "requeue": False}}, "testbed"),
    ],
    ids=str,
)
def test_what_a_site_cannot_do(
    restart: dict[str, Any], data: dict[str, Any], site: str, wording: Wording
) -> None:
    with pytest.raises(PlanError) as caught:
        restarts(site, restart, **data)
    wording(str(caught.value))
