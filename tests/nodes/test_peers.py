"""Who stands out among members: never one of equals, and always one that is steadily slower."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.nodes import peers
from hpcdist.nodes.peers import Comparison, Outlier
from tests.tiers import examples

MEMBERS = st.integers(3, 60)
SEED = st.integers(0, 1 << 32)


def noisy(seed: int, members: int, steps: int, noise: float) -> dict[int, list[float]]:
    """Times of equal members: what all have in common in a step, and noise of each with a long tail."""
    random = Random(seed)  # noqa: S311
    common = [random.lognormvariate(0, 0.5) for _ in range(steps)]
    return {
        member: [usual * random.lognormvariate(0, noise) for usual in common] for member in range(members)
    }


@examples(200)
@given(SEED, MEMBERS, st.integers(40, 120), st.floats(0, 0.3))
def test_equal_members_are_not_accused(seed: int, members: int, steps: int, noise: float) -> None:
    found = peers.compare(noisy(seed, members, steps, noise))
    assert found is not None
    assert found.outliers == ()


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.2, 0.5])
def test_equal_members_are_hardly_ever_accused_after_the_fewest_steps(noise: float) -> None:
    """At the worst one in 100,000 comparisons accuses anybody; these are always the same 1,000."""
    found = [peers.compare(noisy(seed, 3 + seed % 8, 20, noise)) for seed in range(250)]
    assert [each.outliers for each in found if each] == [()] * 250


@given(SEED, st.integers(6, 60), st.integers(40, 120), st.floats(0.5, 5))
def test_a_member_that_is_steadily_slower_is_found(seed: int, members: int, steps: int, more: float) -> None:
    values = noisy(seed, members, steps, 0.02)
    values[1] = [value * (1 + more) for value in values[1]]
    found = peers.compare(values)
    assert found is not None
    assert [each.member for each in found.outliers] == [1]
    assert found.outliers[0].excess == pytest.approx(more, rel=0.2)


@given(SEED, st.integers(3, 30), st.integers(40, 120), st.randoms(use_true_random=False))
def test_single_slow_steps_accuse_nobody(seed: int, members: int, steps: int, random: Random) -> None:
    values = noisy(seed, members, steps, 0.02)
    for step in random.sample(range(steps), steps // 10):
        values[random.randrange(members)][step] *= 100
    found = peers.compare(values)
    assert found is not None
    assert found.outliers == ()


def alike(members: int, steps: int) -> dict[int, list[float]]:
    return {member: [1.0] * steps for member in range(members)}


def test_what_is_found() -> None:
    values = alike(4, 40) | {2: [1.0] * 20 + [1.5] * 20}
    assert peers.compare(values) == Comparison(4, 40, 0.25, (Outlier(2, 1.5, 1.0, 0.5, 20),))


@pytest.mark.parametrize(
    ("slow", "found"),
    [
        pytest.param([1.5] * 40, [2], id="always"),
        pytest.param([1.0] * 20 + [1.5] * 20, [2], id="from the middle on"),
        pytest.param([1.0] * 30 + [1.5] * 10, [], id="only at the end"),
        pytest.param([1.5] * 30 + [1.0] * 10, [], id="no longer"),
        pytest.param([1.5, 1.0, 1.0, 1.0] * 10, [], id="each fourth step"),
        pytest.param([1.09] * 40, [], id="by less than a tenth"),
        pytest.param([0.5] * 40, [], id="faster"),
    ],
)
def test_slowness_is_steady_and_large(slow: list[float], found: list[int]) -> None:
    comparison = peers.compare(alike(8, 40) | {2: slow})
    assert comparison is not None
    assert [each.member for each in comparison.outliers] == found


def test_half_of_the_members_are_no_outliers_but_another_kind() -> None:
    values = alike(8, 40) | {member: [2.0] * 40 for member in range(4)}
    assert peers.compare(values) == Comparison(8, 40, 2 / 1.5 - 1, ())


@pytest.mark.parametrize(
    "values", [{}, alike(2, 40), alike(8, 19), {member: [0.0] * 40 for member in range(8)}]
)
def test_too_little_is_not_compared(values: dict[int, list[float]]) -> None:
    assert peers.compare(values) is None


def test_who_is_ten_times_as_slow_stands_out_of_peers_whose_values_vary_by_the_factor_of_five() -> None:
    """Seconds of steps on a real Slurm whose two cores did other things; node 1 had 4 % of a CPU."""
    peer = [0.02, 0.03, 0.03, 0.01, 0.03, 0.02, 0.01, 0.02, 0.02, 0.02, 0.03, 0.05, 0.05, 0.02, 0.02, 0.01]
    peer += [0.01, 0.02, 0.01, 0.01, 0.05, 0.01, 0.02, 0.03, 0.05, 0.01, 0.03, 0.02, 0.05, 0.04, 0.03, 0.02]
    slow = [0.03, 0.03, 0.24, 0.3, 0.3, 0.3, 0.2, 0.3, 0.45, 0.4, 0.35, 0.4, 0.35, 0.45, 0.25, 0.45]
    slow += [0.35, 0.25, 0.3, 0.4, 0.25, 0.3, 0.45, 0.3, 0.3, 0.3, 0.25, 0.2, 0.45, 0.4, 0.3, 0.3]
    comparison = peers.compare({0: peer, 1: slow, 2: peer, 3: peer})
    assert comparison is not None
    assert [each.member for each in comparison.outliers] == [1]
