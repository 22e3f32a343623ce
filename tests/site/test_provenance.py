from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import source
from hpcdist.host.resources import shipped
from hpcdist.site.provenance import keys, keys_without_source, missing_keys, source_of
from tests.sites import SHIPPED, shipped_site, site

PAGE = {"where": "https://x.example/page", "read": "2026-11", "of": ["fabric", "launcher"]}
OTHER = {"where": "a script", "read": "2026-11", "of": ["fabric.env.A"], "by": "third party"}


@pytest.mark.parametrize("name", SHIPPED)
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
