from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.site.affinity import cpus_of, list_of, mask_of, next_to, shares

LUMI = ("49-55", "57-63", "17-23", "25-31", "1-7", "9-15", "33-39", "41-47")
LUMI_MASKS = [
    "0xfe000000000000", "0xfe00000000000000", "0xfe0000", "0xfe000000",
    "0xfe", "0xfe00", "0xfe00000000", "0xfe0000000000",
]  # fmt: skip
"""As in LUMI's user guide, runjobs/scheduled-jobs/lumig-job.md, without leading zeros."""


def test_masks_of_lumi_are_those_of_its_guide() -> None:
    assert [mask_of(cpus) for cpus in shares(LUMI)] == LUMI_MASKS


def test_gpus_of_one_numa_domain_divide_each_run_of_its_cpus() -> None:
    assert shares(("0-3,8-11", "4-7,12-15", "0-3,8-11")) == (
        (0, 1, 8, 9),
        (4, 5, 6, 7, 12, 13, 14, 15),
        (2, 3, 10, 11),
    )


def test_the_cpus_of_several_gpus_come_gpu_by_gpu() -> None:
    assert next_to(("6-7", "4-5", "2-3", "0-1"), (0, 1)) == (6, 7, 4, 5)


@pytest.mark.parametrize("text", ["", "a", "1-", "1,,2", "0x3", "7-3", "1 - 2", "²"])
def test_what_is_no_list_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match="is no list of CPUs"):
        cpus_of(text)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_list_is_read_as_it_was_written(cpus: set[int]) -> None:
    assert {cpu for run in cpus_of(list_of(sorted(cpus))) for cpu in run} == cpus
