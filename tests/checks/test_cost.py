"""The cost of a run, by the accounting and by the event log."""

from __future__ import annotations

import msgspec

from hpcdist.checks.usage import Consumption, starts, total
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Usage

PLAN = StoredPlan(gpus=4)
USAGE = Usage(None, JobState.COMPLETED, 90, 100, 200, 0, (), 5, 9, 150.0, 2, 8)


def test_the_accounting_comes_before_the_event_log() -> None:
    found = [
        Attempt("12", (0, 0), "failed", 91.0, 101.0, 120.0, usage=USAGE),
        Attempt("12", (0, 1), "completed", 120.0, 120.0, 199.0, usage=USAGE),
    ]
    expected = Consumption("12", 0, 10, 100, 2, 8, 800, 200, 150.0, 5, 9, is_measured=True)
    assert starts(found, PLAN, 1e3) == (expected,)
    assert expected.cpu_share == 0.75


def test_without_accounting_it_is_what_the_event_log_and_the_plan_have() -> None:
    found = [
        Attempt("12_1", (0, 0), "requeued", 90.0, 100.0, 130.0),
        Attempt("12_1", (1, 0), "running", 130.0, 140.0),
        Attempt("12_2", (0, 0), "node_fail", 90.0, 100.0),
    ]
    assert starts(found, PLAN, 150.0) == (
        Consumption("12_1", 0, 10, 30, None, 4, 120),
        Consumption("12_1", 1, 10, 10, None, 4, 40),
        Consumption("12_2", 0, 10, None, None, 4),
    )
    assert total(starts(found[:2], PLAN, 150.0)) == Consumption(waited=10, elapsed=40, gpu_seconds=160)
    assert total(starts(found, PLAN, 150.0)) == Consumption(waited=10)
    assert total([]) == Consumption()


def test_without_accounting_whole_nodes_count_whole() -> None:
    plan = PLAN._replace(gpus=1, reserved_gpus=4)
    [found] = starts([Attempt("12", (0, 0), "completed", 90.0, 100.0, 110.0)], plan, 0.0)
    assert found == Consumption("12", 0, 10, 10, None, 4, 40)


def test_clocks_that_differ_make_no_negative_time() -> None:
    [found] = starts([Attempt("12", (0, 0), "completed", 110.0, 100.0, 90.0)], PLAN, 0.0)
    assert (found.waited, found.elapsed, found.gpu_seconds, found.cpu_share) == (0, 0, 0, None)


def test_what_the_accounting_lacks_is_taken_from_the_event_log() -> None:
    lsf = Usage(None, JobState.COMPLETED, max_memory=7, total_memory=7, cpu_seconds=3.0, cpus=2)
    [found] = starts([Attempt("12", (0, 0), "completed", 90.0, 100.0, 110.0, usage=lsf)], PLAN, 0.0)
    assert found == Consumption("12", 0, 10, 10, 2, 4, 40, 20, 3.0, 7, 7, is_measured=True)
    assert found.cpu_share == 0.15


def test_time_for_which_a_job_did_not_run_costs_nothing() -> None:
    suspended = msgspec.structs.replace(USAGE, elapsed=60.0)
    never = Usage(None, JobState.CANCELLED, 90, None, 95, cpus=0, gpus=0, elapsed=0.0)
    found = [
        Attempt("12_1", (0, 0), "completed", 90.0, 100.0, 200.0, usage=suspended),
        Attempt("12_2", (0, 0), "cancelled", 90.0, None, 95.0, usage=never),
    ]
    costs = starts(found, PLAN, 1e3)
    assert costs == (
        Consumption("12_1", 0, 10, 60, 2, 8, 480, 120, 150.0, 5, 9, is_measured=True),
        Consumption("12_2", 0, 5, 0, 0, 0, 0, 0, is_measured=True),
    )
    assert (total(costs).elapsed, total(costs).gpu_seconds) == (60, 480)


def test_components_have_hours_of_their_own() -> None:
    apart = msgspec.structs.replace(USAGE, elapsed=100.0, gpu_seconds=320.0, cpu_seconds_had=160.0)
    [found] = starts([Attempt("12", (0, 0), "completed", 90.0, 100.0, 200.0, usage=apart)], PLAN, 1e3)
    assert (found.elapsed, found.gpu_seconds, found.cpu_seconds_had) == (100, 320, 160)
