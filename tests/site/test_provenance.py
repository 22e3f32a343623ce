from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.resources import shipped
from hpcdist.site.provenance import (
    as_of,
    keys,
    keys_without_source,
    missing_keys,
    months_before,
    read_after,
    read_before,
    read_on,
    source_of,
)
from tests.sites import SHIPPED, shipped_site, site
from tests.tiers import sweep

PAGE = {"where": "https://x.example/page", "read": "2026-11", "of": ["fabric", "launcher"]}
OTHER = {"where": "a script", "read": "2026-11", "of": ["fabric.env.A"], "by": "third party"}


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_every_value_of_a_shipped_site_has_a_source(name: str) -> None:
    data = source.load(shipped("site_configs") / f"{name}.yaml").data
    found = shipped_site(name)
    assert (
        list(keys_without_source(found, data)),
        [str(problem) for problem in missing_keys(found, data)],
    ) == ([], [])


def test_keys_of_all_values() -> None:
    data = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 1}, {"f": None}], "g": []}
    assert list(keys(data)) == ["a.b", "a.c", "d.0.e", "d.1.f", "g"]


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("fabric.env.A", "a script"),
        ("fabric.env.AB", "https://x.example/page"),
        ("fabric.together.0", "https://x.example/page"),
        ("launchers.srun.mpi", None),
    ],
)
def test_source_with_the_longest_key_applies(key: str, where: str | None) -> None:
    found = source_of(site(sources=[PAGE, OTHER]), key)
    assert (found and found.where) == where


def test_first_of_two_sources_of_a_key_applies() -> None:
    found = source_of(site(sources=[PAGE, OTHER | {"of": ["fabric"]}]), "fabric.env")
    assert found
    assert found.where == PAGE["where"]


def test_keys_without_source_and_missing_keys_are_found() -> None:
    data: dict[str, Any] = {
        "name": "x",
        "launcher": "srun",
        "fabric": {"env": {"A": 1, "B": 2}},
        "modules": ["gcc"],
    }
    found = site(sources=[PAGE | {"of": ["fabric.env.A", "launchers"]}])
    assert list(keys_without_source(found, data)) == ["launcher", "fabric.env.B", "modules"]
    assert [str(problem) for problem in missing_keys(found, data)] == [
        "sources[0].of[1]: this file has no key 'launchers'; correct it, or remove it"
    ]


@pytest.mark.parametrize(
    ("day", "months", "expected"),
    [
        (date(2026, 11, 23), 0, date(2026, 11, 23)),
        (date(2026, 11, 23), 6, date(2026, 5, 23)),
        (date(2026, 11, 23), 11, date(2025, 12, 23)),
        (date(2026, 8, 31), 6, date(2026, 2, 28)),
        (date(2028, 8, 31), 6, date(2028, 2, 29)),
        (date(2026, 1, 31), 13, date(2024, 12, 31)),
    ],
)
def test_calendar_months_before_a_day(day: date, months: int, expected: date) -> None:
    assert months_before(day, months) == expected


def test_pages_that_were_read_before_a_day() -> None:
    read = ("2026-05", "2026-05-22", "2026-05-23", "2026-06", "last summer", "2026-13")
    example = {"example": "mpi", "where": "a script", "read": "2026-04", "settings": {"A=1": None}}
    found = site(sources=[{"where": text, "read": text} for text in read], published=[example])
    old = [page.read for page in read_before(found, date(2026, 5, 23))]
    assert old == ["2026-05", "2026-05-22", "last summer", "2026-13", "2026-04"]


def test_a_page_is_as_old_as_what_it_says() -> None:
    copy = {"where": "a copy of the page (2025-01-31), lines 1 to 9", "read": "2026-05"}
    found = site(sources=[copy, copy | {"where": "a copy (2027-01-01, undated)"}])
    assert [as_of(source) for source in found.sources] == [date(2025, 1, 31), date(2026, 5, 1)]
    assert [*read_before(found, date(2026, 4, 1))] == [found.sources[0]]


def test_a_page_is_not_read_in_the_future() -> None:
    found = site(sources=[PAGE, PAGE | {"read": "2026-12-01"}])
    assert [str(problem) for problem in read_after(found, date(2026, 11, 30))] == [
        "sources[1].read: 2026-12-01 is in the future; write the day of reading"
    ]


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_what_users_wrote_has_no_address(name: str) -> None:
    """Whoever wants to look it up sees which of the sources can be."""
    found = shipped_site(name).sources
    assert [source for source in found if source.by == "users" and "://" in source.where] == []


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_every_page_of_a_shipped_site_has_a_date(name: str) -> None:
    assert [source.where for source in shipped_site(name).sources if read_on(source) is None] == []


def test_what_only_looks_like_the_day_of_a_page_is_none() -> None:
    [source] = site(sources=[{"where": "a script (2026-13-45)", "read": "2026-05"}]).sources
    assert as_of(source) == date(2026, 5, 1)
