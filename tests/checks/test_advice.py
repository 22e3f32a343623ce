"""Advice: what is suggested from which figures, and when nothing is."""

from __future__ import annotations

import pytest

from hpcdist.checks.usage import Advice, Consumption, GpuUse, NodeUse, advice
from hpcdist.runs.stored_plan import NodeGroup, StoredPlan
from tests.wording import Wording

GIB = 1 << 30
PLAN = StoredPlan(
    walltime=86400,
    groups=(NodeGroup(0, 2, 2, 64 << 10),),
    replica_cpus=4,
    replica_memory=32 << 10,
    replica_tasks=1,
)
COST = Consumption("12", 0, 10, 40000, max_memory=20 * GIB, total_memory=100 * GIB, is_measured=True)


def node(number: int, *uses: float | None, idle: float = 0.0, **more: float | None) -> NodeUse:
    gpus = tuple(
        GpuUse(place, use, None if use is None else float(use < 5) or idle) for place, use in enumerate(uses)
    )
    return NodeUse("12", (0, 0), number, f"n{number}", 3600, 120, 50.0, gpus, 0, 0.0)._replace(**more)  # type: ignore[arg-type] # fields by name


GOOD = (node(0, 90, 80), node(1, 85, 95))


def found(
    cost: Consumption = COST, uses: tuple[NodeUse, ...] = GOOD, *, is_over: bool = True
) -> tuple[Advice, ...]:
    return advice([cost], uses, PLAN, is_over=is_over)


def test_what_is_well_used_needs_no_advice() -> None:
    assert found() == ()
    assert found(uses=()) == ()
    assert advice([], [], StoredPlan(), is_over=True) == ()


def test_memory_that_was_hardly_used(wording: Wording) -> None:
    little = COST._replace(max_memory=2 * GIB, total_memory=8 * GIB)
    [one] = found(little)
    assert one.about == "memory"
    wording([one.text, one.write])


@pytest.mark.parametrize(
    ("cost", "is_over"),
    [
        pytest.param(COST._replace(total_memory=8 * GIB, elapsed=500), True, id="a short job"),
        pytest.param(COST._replace(total_memory=8 * GIB), False, id="one that runs, or failed"),
        pytest.param(COST._replace(total_memory=None), True, id="nothing measured"),
        pytest.param(COST._replace(total_memory=33 * GIB), True, id="a quarter used"),
        pytest.param(COST._replace(total_memory=8 * GIB, max_memory=30 * GIB), True, id="one uses it"),
    ],
)  # fmt: skip
def test_memory_that_may_be_needed(cost: Consumption, is_over: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert found(cost, is_over=is_over) == ()


def test_a_walltime_that_is_far_too_long() -> None:
    text = "the job ran for 01:23:20, and its walltime is 1-00:00:00; shorter ones start sooner"
    assert found(COST._replace(elapsed=5000)) == (Advice("walltime", text, "batch.walltime: '02:10:00'"),)
    assert found(COST._replace(elapsed=22000)) == ()


def test_gpus_that_were_never_used(wording: Wording) -> None:
    [one] = found(uses=(node(0, 90, 1), node(1, 80, 0)))
    assert one.about == "gpus"
    [every] = found(uses=(node(0, 1, 1), node(1, 0, 0)))
    wording([one.text, every.text])


def test_gpus_that_were_idle_for_long(wording: Wording) -> None:
    [one] = found(uses=(node(0, 60, 60), node(1, 60, 60, longest_idle=1200)))
    wording(one.text)
    assert found(uses=(node(0, 60, 60), node(1, 60, 60, longest_idle=800))) == ()


def test_input_that_the_cpus_hold_up(wording: Wording) -> None:
    slow = (node(0, 20, 30, cpu=97.0, cpu_bound=0.8), node(1, 40, 30, cpu=99.0, cpu_bound=0.9))
    [one] = found(uses=slow)
    assert one.about == "input"
    wording([one.text, one.write])
    assert found(uses=tuple(each._replace(cpu_bound=0.2) for each in slow)) == ()
    assert found(uses=tuple(each._replace(cpu=None, cpu_bound=None) for each in slow)) == ()


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(node(0, 0, 0, samples=19), id="few samples"),
        pytest.param(node(0, 0, 0, seconds=590), id="a short time"),
        pytest.param(node(0, 0, 0, 0), id="GPUs of other jobs"),
        pytest.param(node(7, 0), id="a node without GPUs in the plan"),
        pytest.param(node(0, None, None), id="a tool that does not know"),
    ],
)
def test_samples_that_show_nothing(use: NodeUse) -> None:
    assert found(uses=(use,)) == ()
