"""Keys that notes and reasons of shipped sites tell users to write: each is written there, and must do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest
import yaml

from hpcdist.base import fields, source
from hpcdist.base.resources import shipped
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import frameworks
from hpcdist.planner.make_plan import make_plan
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.experiments import experiment, resources, where
from tests.sites import SHIPPED, account_on, shipped_site
from tests.tiers import sweep

_SNIPPET: Final = re.compile(r"`([a-z_]+: [^`]+)`")
"""A key with its value, as notes quote it; `node_types.a100` and `name=value` are none."""


class Told(NamedTuple):
    """What a note of a site tells to write."""

    site: str
    snippet: str


def told() -> Iterator[Told]:
    for name in SHIPPED:
        found = shipped_site(name)
        reasons = (reason for entry in found.published for reason in entry.settings.values() if reason)
        for text in (*found.notes, *reasons):
            yield from (Told(name, snippet) for snippet in _SNIPPET.findall(text))


def merged(data: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with these keys, section by section."""
    return {**data} | {
        key: merged(data[key], value)
        if isinstance(value, Mapping) and isinstance(data.get(key), Mapping)
        else value
        for key, value in more.items()
    }


def written_in_an_experiment(name: str, keys: dict[str, Any]) -> list[str]:
    """Plan a task that says this on the site, with a GPU where that has some; a refusal is raised."""
    site = shipped_site(name)
    partition = site.partitions.get(keys.get("batch", {}).get("partition"))
    kinds = [site.node_types[kind] for kind in partition.nodes] if partition else [*site.node_types.values()]
    gpu = None if kinds and all(kind.gpus == 0 for kind in kinds) else 1
    account = account_on(site, gpus=gpu is not None, partition=keys.get("batch", {}).get("partition"))
    batch = {"walltime": "15m", "account": account}
    data = {"framework": "pytorch", "environment": {"resources": resources(gpu=gpu)}, "batch": batch}
    make_plan(experiment(**merged(data, keys)), site, where)
    return []


def written_in_the_site(name: str, keys: dict[str, Any]) -> list[str]:
    """Return what is wrong with the site's file when it says this, and else plan a task there."""
    data = source.load(shipped("site_configs") / f"{name}.yaml").data
    built, problems = fields.build(Site, merged(data, keys))
    found = [*problems, *(problems_of(built) if built else ())]
    if built and not found:
        batch = {"walltime": "15m", "account": account_on(built, gpus=False)}
        make_plan(experiment(batch=batch), built, where)
    return [str(problem) for problem in found]


@pytest.mark.parametrize(
    "case", sweep(told(), lambda case: case.site), ids=lambda case: f"{case.site}: {case.snippet}"
)
def test_advice_of_site_notes_works(case: Told) -> None:
    keys = yaml.safe_load(f"{{{case.snippet}}}")
    (name,) = keys
    names = (*fields.key_names(Experiment), *frameworks.names())
    of_experiment = name in names and isinstance(keys[name], Mapping)
    write = written_in_an_experiment if of_experiment else written_in_the_site
    assert write(case.site, keys) == []


def test_notes_of_many_sites_are_tested() -> None:
    assert len({case.site for case in told()}) >= 30


@pytest.mark.parametrize(
    ("walltime", "qos"),
    [("24:00:00", None), ("24:00:01", "boost_qos_lprod"), ("96:00:00", "boost_qos_lprod")],
)
def test_long_jobs_of_leonardo(walltime: str, qos: str | None) -> None:
    batch = {"walltime": walltime, "account": "abc12"}
    plan = make_plan(
        experiment(environment={"resources": resources(gpu=1)}, batch=batch), shipped_site("leonardo"), where
    )
    asked = {line.flag: line.value for line in plan.directives if line.flag in ("--partition", "--qos")}
    assert asked == {"--partition": "boost_usr_prod"} | ({"--qos": qos} if qos else {})


def test_account_of_lassen_uses_its_own_option() -> None:
    batch = {"walltime": "1h", "account": "guests"}
    plan = make_plan(experiment(batch=batch), shipped_site("lassen"), where)
    assert [(line.flag, line.value) for line in plan.directives if line.value == "guests"] == [
        ("-G", "guests")
    ]
