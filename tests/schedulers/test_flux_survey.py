"""What a Flux may say of its machine beside what was recorded of one (tests/cli/test_sites_init.py)."""

from __future__ import annotations

import json
from typing import Any, Final

from hpcdist.base.command import Command, Completed
from hpcdist.base.units import Walltime
from hpcdist.schedulers.flux.survey import CONFIG, RESOURCES, SURVEYOR, VERSION
from hpcdist.schedulers.surveyors import SurveyAnswers
from hpcdist.site.survey import PartitionInfo, Survey

_R: Final = {
    "version": 1,
    "execution": {
        "R_lite": [
            {"rank": "0-1", "children": {"core": "0-7"}},
            {"rank": "2-5", "children": {"core": "0-95", "gpu": "0-3"}},
        ],
        "nodelist": ["login[1-2],tuo[1001-1004]"],
        "properties": {"login": "0-1", "pbatch": "2-4", "pdebug": "5"},
    },
}
_LIMITS: Final = {"policy": {"limits": {"duration": "24h", "job-size": {"max": {"nnodes": 2}}}}}


def survey(config: Any) -> Survey:
    """Return what is read of these resources (RFC 20) and this configuration (flux-config-queues(5))."""
    said: dict[Command, str] = {RESOURCES: json.dumps(_R), CONFIG: json.dumps(config), VERSION: ""}
    return SURVEYOR.read("me", SurveyAnswers(tuple(Completed(*item) for item in _answers(said))))


def _answers(said: dict[Command, str]) -> list[tuple[Command, int, str]]:
    return [(command, 0, text) for command, text in said.items()]


def test_virtual_queues_have_the_nodes_of_their_parents() -> None:
    short = {"parent": "pbatch", "policy": {"limits": {"duration": "30m"}}}
    found = survey({
        "queues": {"pbatch": {"requires": ["pbatch"], **_LIMITS}, "short": short},
        "policy": {"limits": {"duration": "1h"}},
    })  # fmt: skip
    assert found.partitions == (
        PartitionInfo("pbatch", {"gpu": 3}, max_nodes=2, max_walltime=Walltime(86400)),
        PartitionInfo("short", {"gpu": 3}, max_walltime=Walltime(1800)),
    )


def test_fluxion_may_give_whole_nodes() -> None:
    found = survey({"sched-fluxion-resource": {"match-policy": "lonodex"}})
    (fact,) = (fact for fact in found.facts if fact.key == "whole_nodes")
    assert (fact.value, fact.remarks) == (True, ("match-policy = lonodex",))


def test_how_long_jobs_may_run_that_ask_for_nothing() -> None:
    defaults = {"jobspec": {"defaults": {"system": {"duration": "30m"}}}}
    own = {"jobspec": {"defaults": {"system": {"duration": 300}}}}

    def told(queues: Any) -> tuple[str, ...]:
        found = survey({"queues": queues, "policy": defaults})
        return next(fact.remarks for fact in found.facts if fact.key == "walltime")[1:]

    assert told({"pbatch": {"requires": ["pbatch"]}, "pdebug": {"requires": ["pdebug"], "policy": own}}) == (
        "a job that asks for none gets 00:30:00 in pbatch",
        "a job that asks for none gets 00:05:00 in pdebug",
    )
    assert told({}) == ("a job that asks for none gets 00:30:00",)
