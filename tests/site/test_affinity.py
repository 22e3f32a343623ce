from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.site.nodes import cpu_mask, cpus_next_to, cpus_of_each_gpu, format_cpu_list, parse_cpu_list

LUMI = ("49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47")
LUMI_MASKS = [
    "0xfe000000000000", "0xfe00000000000000", "0xfe0000", "0xfe000000",
    "0xfe", "0xfe00", "0xfe00000000", "0xfe0000000000",
]  # fmt: skip
"""As in LUMI's user guide, runjobs/scheduled-jobs/lumig-job.md, without leading zeros."""


def test_cpu_masks_of_lumi_match_its_guide() -> None:
    assert [cpu_mask(cpus) for cpus in cpus_of_each_gpu(LUMI)] == LUMI_MASKS


def test_gpus_of_one_numa_domain_divide_each_range_of_cpus() -> None:
    assert cpus_of_each_gpu(("0-3,8-11", "4-7,12-15", "0-3,8-11")) == (
        (0, 1, 8, 9),
        (4, 5, 6, 7, 12, 13, 14, 15),
        (2, 3, 10, 11),
    )


def test_cpus_of_several_gpus_are_in_gpu_order() -> None:
    assert cpus_next_to(("6-7", "4-5", "2-3", "0-1"), (0, 1)) == (6, 7, 4, 5)


@pytest.mark.parametrize("text", ["", "a", "1-", "1,,2", "0x3", "7-3", "1 - 2", "²"])
def test_invalid_cpu_lists(text: str) -> None:
    with pytest.raises(ValueError, match="is not a CPU list"):
        parse_cpu_list(text)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_list_round_trip(cpus: set[int]) -> None:
    assert {cpu for run in parse_cpu_list(format_cpu_list(sorted(cpus))) for cpu in run} == cpus
