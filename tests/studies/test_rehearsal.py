"""The run of a rehearsal, how often it advises to save, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, PlanError
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.plan.model import ENDS, Rehearsal
from hpcdist.runs.rundir import RunDirectory
from hpcdist.studies import rehearsal
from hpcdist.studies.rehearsal import Judgement, Mtbf, Small, judge
from hpcdist.studies.rehearsal_record import RehearsedAttempt, Resumption
from tests.studies.rehearsal_made import PLAN, attempt, file, whole
from tests.wording import Wording

SITE = """\
name: toy
description: one kind of nodes
scheduler: slurm
launcher: srun
node_types: {big: {cpus: 8, memory: 16000, gpus: 4}}
partitions: {gpu: {nodes: {big: 2000}}}
default_partition: gpu
node_mtbf_hours: 3000
"""


def planned(folder: Path, nodes: int, minutes: int = 10, **data: Any) -> Small:
    (folder / "toy.yaml").write_text(SITE)
    environment = {
        "resources": {"gpu": {"requests": 4}},
        "replicas": {"n_workers": 7, "default_worker": {"resources": {"gpu": {"requests": 4}}}},
        "restart": {"notice": "10m"},
        **data.pop("environment", {}),
    }
    experiment = {"run": {"cmd": "train"}, "framework": "horovod", "environment": environment, **data}
    (folder / "exp.yml").write_text(yaml.safe_dump(experiment))
    options = ExperimentOptions(str(folder / "exp.yml"), site="toy", site_path=(str(folder),))
    return rehearsal.plan_rehearsal(options, nodes, minutes, 5)


@pytest.mark.parametrize(("nodes", "there"), [(1, 1), (2, 2), (3, 3), (8, 8), (20, 8)])
def test_it_has_fewer_workers_on_fewer_nodes(tmp_path: Path, nodes: int, there: int) -> None:
    plan = planned(tmp_path, nodes).made.plan
    assert (plan.placement.nodes, plan.placement.size) == (there, 4 * there)


def test_a_number_of_nodes_of_the_file_is_smaller_too(tmp_path: Path) -> None:
    few = {"resources": {"gpu": {"requests": 1}}, "replicas": {"n_workers": 7}}
    plan = planned(tmp_path, 2, environment=few, batch={"nodes": 4}).made.plan
    assert (plan.placement.nodes, plan.placement.size) == (2, 4)


GPU = {"resources": {"gpu": {"requests": 4}}}


def test_an_elastic_training_does_with_as_many_fewer(tmp_path: Path) -> None:
    elastic = {"min_np": 16, "max_np": 32}
    plan = planned(tmp_path, 2, horovod={"elastic": elastic}).made.plan
    words = [word.text for word in plan.words]
    bounds = [words[words.index(option) + 1] for option in ("--min-np", "--max-np")]
    assert (plan.placement.size, bounds) == (8, ["4", "8"])


def test_parameter_servers_are_fewer_too_or_it_is_refused(tmp_path: Path, wording: Wording) -> None:
    replicas = {"n_workers": 3, "n_ps": 2, "default_worker": GPU, "default_ps": GPU}
    data: dict[str, Any] = {"framework": "tensorflow", "environment": {**GPU, "replicas": replicas}}
    assert planned(tmp_path, 3, **data).made.plan.placement.nodes == 3
    with pytest.raises(PlanError) as caught:
        planned(tmp_path, 1, **data)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_a_worker_that_is_left_out_may_have_no_entry_of_its_own(tmp_path: Path, wording: Wording) -> None:
    replicas = {"n_workers": 7, "default_worker": GPU, "worker": [{"index": 5, **GPU}]}
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, 2, environment={**GPU, "replicas": replicas})
    wording(str(caught.value).replace(str(tmp_path), "TMP"))
    assert planned(tmp_path, 8, environment={**GPU, "replicas": replicas}).made.plan.placement.nodes == 8


@pytest.mark.parametrize(
    "data", [{}, {"batch": {"requeue": True}}, {"environment": {"restart": {"by": "requeue"}}}]
)
def test_slurm_does_not_begin_it_again(tmp_path: Path, data: dict[str, Any]) -> None:
    flags = {line.flag for line in planned(tmp_path, 8, **data).made.plan.directives}
    assert {"--requeue", "--no-requeue"} & flags == {"--no-requeue"}


def test_the_script_ends_the_attempts_and_no_other_job_follows(tmp_path: Path) -> None:
    found = planned(tmp_path, 2, environment={"restart": {"notice": "10m", "spare_nodes": 1}})
    restarts = found.made.plan.completion.restarts
    assert restarts is not None
    assert (restarts.by, restarts.notice, restarts.spare_nodes) == (None, 600, 0)
    assert restarts.rehearsal == Rehearsal(ends=ENDS, seed=5, nodes=8, node_mtbf_hours=3000)
    assert found.options.changes[:6] == [
        "--set", "batch.walltime=00:22:00",
        "--set", "environment.restart.spare_nodes=0",
        "--set", "batch.requeue=false",
    ]  # fmt: skip


def test_only_ends_after_which_it_starts_again_are_tried(tmp_path: Path) -> None:
    def ends(*on: str) -> tuple[str, ...]:
        restarts = planned(tmp_path, 1, environment={"restart": {"on": [*on]}}).made.plan.completion.restarts
        assert restarts is not None
        assert restarts.rehearsal is not None
        return restarts.rehearsal.ends

    assert ends("timeout", "failure") == ("notice", "write", "node")
    assert ends("preempt") == ("notice",)
    assert ends("node_failure") == ("node",)


def test_a_run_without_a_plan_is_no_rehearsal(tmp_path: Path) -> None:
    for text in (None, "", "{}", '{"completion": {"restarts": null}}', '{"completion": []}'):
        if text is not None:
            (tmp_path / "plan.json").write_text(text)
        with pytest.raises(ConfigError, match="is not a rehearsal"):
            rehearsal.stored_restarts(RunDirectory(tmp_path))


def test_an_interval_of_daly() -> None:
    """By hand: two minutes for a checkpoint, a failure a day."""
    first = math.sqrt(2 * 120 * 86400)
    assert math.isclose(
        rehearsal.interval(120, 86400), first * (1 + 0.0263523 / 3 + 0.000694444 / 9) - 120, rel_tol=1e-6
    )


@given(st.floats(0.01, 1e4), st.floats(1, 1e8))
def test_it_is_near_that_of_young_where_failures_are_rare(write: float, mtbf: float) -> None:
    found = rehearsal.interval(write, mtbf)
    assert found > 0
    if write < mtbf / 1000:
        assert math.isclose(found, math.sqrt(2 * write * mtbf), rel_tol=0.05)


def test_a_job_fails_with_each_of_its_nodes() -> None:
    assert Mtbf(6000, "x").of_job(100) == 60 * 3600
    assert rehearsal.choose_mtbf(None, None) == Mtbf(
        rehearsal.DEFAULT_NODE_MTBF_HOURS, rehearsal.SOURCE_OF_DEFAULT
    )
    assert round(rehearsal.choose_mtbf(None, None).node_hours) == 6335
    assert rehearsal.choose_mtbf(None, 9.0) == Mtbf(9.0, "the site file")
    assert rehearsal.choose_mtbf(5.0, 9.0) == Mtbf(5.0, "--mtbf")


MTBF = Mtbf(1000, "x")
GOOD = [
    whole(0, 0)._replace(
        looks=(*whole(0, 0).looks, whole(0, 0).looks[-1]._replace(at=1031.0, files=(file("c", 3, 3),)))
    ),
    whole(1, 3),
    whole(2, 5),
    whole(3, 7),
]
"""A training that saves one second after the signal, too, and always goes on."""


def texts(attempts: Sequence[RehearsedAttempt], plan: object = PLAN) -> tuple[str, list[str]]:
    found = judge(attempts, {}, plan, MTBF)  # type: ignore[arg-type]
    return found.verdict, [f"{each.kind}: {each.text}" for each in found.findings]


def test_a_training_that_goes_on_passes() -> None:
    found = judge(GOOD, {}, PLAN, MTBF)
    assert found == Judgement(
        verdict="passes",
        findings=(),
        rows=found.rows,
        write_seconds=0.2,
        write_bytes=100,
        save_seconds=1.0,
        notice=60,
        interval=found.interval,
        mtbf=MTBF,
        nodes=1,
    )
    assert [(row.after, row.lost_seconds, row.resumption) for row in found.rows] == [
        ("the signal before a time limit", 0.0, None),
        ("KILL to rank 0 on n1 at a checkpoint", 10.0, Resumption(has_resumed=True, by="reading")),
        ("KILL to rank 0 on n1", 10.0, Resumption(has_resumed=True, by="reading")),
        ("the signal before a time limit", None, Resumption(has_resumed=True, by="reading")),
    ]


def failed(number: int, code: int) -> RehearsedAttempt:
    return whole(number, 2)._replace(endings=(), code=code)


@pytest.mark.parametrize(
    ("attempts", "verdict", "text"),
    [
        ([], "unknown", "no attempt has begun"),
        ([attempt(0, (), code=138)], "refused", "wrong: there was no checkpoint"),
        ([failed(0, 3)], "unknown", "attempt 0 failed by itself, with exit code 3"),
        ([failed(0, 0)], "unknown", "attempt 0 finished before it could be ended"),
        ([GOOD[0]._replace(code=0)], "refused", "attempt 0 ended with exit code 0 after the signal"),
        ([GOOD[0]._replace(code=93)], "refused", "after which there is no other one (`stop_on_exit`)"),
        ([GOOD[0]._replace(ended=None)], "unknown", "attempt 0 has no end"),
        ([*GOOD[:2], failed(2, 1)], "refused",
         "attempt 2, after KILL to rank 0 on n1 at a checkpoint, failed by itself, with exit code 1"),
        ([GOOD[0], GOOD[1]._replace(read=frozenset()), *GOOD[2:]], "refused",
         "after the signal before a time limit, did not resume from the last whole checkpoint: it read none"),
        ([GOOD[0], GOOD[1]._replace(read=None), *GOOD[2:]], "unknown", "may have resumed or not"),
        ([whole(0, 0), *GOOD[1:]], "passes", "warning: it saved nothing after USR1"),
        ([whole(0, 0)._replace(ended=1300.0), *GOOD[1:]], "refused",
         "wrong: USR1 does not reach it, or it ignores that: it neither saved nor ended until TERM came"),
        ([GOOD[0]._replace(ended=1300.0), *GOOD[1:]], "unknown",
         "it ran on after USR1 until TERM came: what it saved may be a checkpoint like others"),
        ([*GOOD[:2], attempt(2, (file("c", 5, 5),), (file("c", 5, 6),)), GOOD[3]], "refused",
         "wrong: c is written over in place"),
        ([GOOD[0], attempt(1, (file("c", 3, 3),), (file("c", 3, 3), file("d", 4, 4)),
                           (file("c", 3, 3), file("d", 4, 5, size=300)), kind="node", pause=0.5), *GOOD[2:]],
         "passes", "warning: d was written under its own name"),
        ([*GOOD[:2], failed(2, 0)], "passes", "not tried: KILL to all ranks of a node"),
        ([GOOD[0], failed(1, 0)], "unknown", "no rank was ended by KILL"),
        ([GOOD[0], GOOD[1]._replace(endings=(), untried=("n2",)), *GOOD[2:]], "refused",
         "not tried: KILL to a rank while it writes a checkpoint (no rank was found on n2, or no way there)"),
        ([*GOOD[:2], GOOD[2]._replace(endings=GOOD[2].endings * 2), GOOD[3]], "passes",
         "warning: attempt 2 ran on for a minute after KILL to rank 0 on n1"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_sentence(attempts: list[RehearsedAttempt], verdict: str, text: str) -> None:
    plan = replace(PLAN, stop_on_exit=(93,))
    found, sentences = texts(attempts, plan)
    assert found == verdict
    assert any(text in sentence for sentence in sentences), sentences


def test_a_notice_may_be_too_short() -> None:
    slow = GOOD[0].looks[-1]._replace(at=1060.0)
    attempts = [GOOD[0]._replace(looks=(*GOOD[0].looks[:-1], slow)), *GOOD[1:]]
    assert texts(attempts) == ("passes", [])
    verdict, [text] = texts(attempts, replace(PLAN, notice=50))
    assert (verdict, text) == (
        "refused",
        "wrong: `notice` is too short: it saved 30 s after USR1, and TERM comes before that",
    )
