from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import source
from hpcdist.host.resources import shipped
from hpcdist.site.provenance import keys, source_of, stale, unvouched
from tests.sites import SHIPPED, shipped_site, site

PAGE = {"where": "https://x.example/page", "read": "2026-11", "of": ["fabric", "launcher"]}
OTHER = {"where": "a script", "read": "2026-11", "of": ["fabric.env.A"], "by": "third party"}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_value_of_a_shipped_site_has_a_source(name: str) -> None:
    data = source.load(shipped("site_configs") / f"{name}.yaml").data
    found = shipped_site(name)
    assert (list(unvouched(found, data)), [str(problem) for problem in stale(found, data)]) == ([], [])


def test_keys_are_those_of_values() -> None:
    data = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 1}, {"f": None}], "g": []}
    assert list(keys(data)) == ["a.b", "a.c", "d.0.e", "d.1.f", "g"]


@pytest.mark.parametrize(
    ("origin", "where"),
    [
        ("site x: fabric.env.A", "a script"),
        ("site x: fabric.env.AB (multi_node)", "https://x.example/page"),
        ("site x: fabric.together.0: a reason", "https://x.example/page"),
        ("site x: launchers.srun.mpi", None),
        ("site y: fabric", None),
        ("exp.yml:3", None),
    ],
)
def test_the_source_that_names_the_longest_key_counts(origin: str, where: str | None) -> None:
    found = source_of(site(sources=[PAGE, OTHER]), origin)
    assert (found and found.where) == where


def test_of_two_sources_of_one_key_the_first_counts() -> None:
    found = source_of(site(sources=[PAGE, OTHER | {"of": ["fabric"]}]), "site x: fabric.env")
    assert found
    assert found.where == PAGE["where"]


def test_what_no_source_names_is_told_and_what_is_not_there() -> None:
    data: dict[str, Any] = {
        "name": "x",
        "launcher": "srun",
        "fabric": {"env": {"A": 1, "B": 2}},
        "modules": ["gcc"],
    }
    found = site(sources=[PAGE | {"of": ["fabric.env.A", "launchers"]}])
    assert list(unvouched(found, data)) == ["launcher", "fabric.env.B", "modules"]
    assert [str(problem) for problem in stale(found, data)] == [
        "sources[0].of[1]: this file has no key 'launchers'; correct it, or remove it"
    ]
