"""Scaling studies on the real Slurm: an experiment on several numbers of nodes."""

from __future__ import annotations

import json
import re

import pytest

from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("examples")]


@pytest.mark.extended
def test_a_training_on_one_two_and_four_nodes(user: User) -> None:
    options = ("--nodes=1,2,4", "--set=environment.replicas.per_node=1", "-p", "epochs=1")
    words = ("scale", "examples/image_classification.yml", *options, "--wait", "--plot=plot.html")
    done = user.hpcdist(*words)
    if "(failed)" in done.stderr:  # Horovod 0.28 crashed once, on a machine with far too much to do
        done = user.hpcdist(*words)
    assert done.returncode == 0, done.stderr
    plan, result = done.stdout.split("image-classification: weak scaling, images_per_second\n")
    assert [line.split()[:5] for line in plan.splitlines()[1:4]] == [
        [str(nodes), str(nodes), "0", "00:10:00", "1"] for nodes in (1, 2, 4)
    ]
    assert "3 runs, at most 0 GPU-hours and 1.167 node-hours" in plan
    runs = re.findall(r"^(image-classification-[124]-nodes?-\d): job ", plan, re.MULTILINE)
    files = [user.directory / "runs" / run / "outputs" / "metrics.json" for run in runs]
    speeds = [json.loads(file.read_text())["images_per_second"] for file in files]
    assert [line.split()[:5] for line in result.splitlines()[1:4]] == [
        [str(nodes), str(nodes), "0", "1", f"{speed:.4g}"]
        for nodes, speed in zip((1, 2, 4), speeds, strict=True)
    ]
    assert re.findall(r"^(\w+): (?:serial|contention)", result, re.MULTILINE) == ["Gustafson", "universal"]
    assert "largest size with an efficiency of at least 0.8: " in result
    assert "images_per_second" in (user.directory / "plot.html").read_text()
    shown = user.json("scale", runs[1])
    assert [size["throughput"]["median"] for size in shown["sizes"]] == speeds
    assert shown["sizes"][2]["efficiency"]["median"] == pytest.approx(speeds[2] / speeds[0] / 4)


@pytest.mark.extended
def test_runs_of_a_chain_do_not_overlap_and_one_that_fails_is_named(user: User) -> None:
    experiment = {
        "framework": "mpi",
        "environment": {"replicas": {"n_workers": 1, "per_node": 1}},
        "tracking": {"metrics": {"items_per_second": "speed ([0-9]+)"}},
        "run": {
            "cmd": "((HPCDIST_NODES < 3)) || exit 3; ((HPCDIST_RANK)) || echo speed $((HPCDIST_SIZE * 10))"
        },
        "batch": {"walltime": "10m"},
    }
    file = user.write("chain", experiment)
    done = user.hpcdist("scale", file, "--nodes=1,2,3", "--chain", "--wait")
    assert done.returncode == 3, done.stderr
    events = [
        (user.directory / "runs" / f"chain-{size}-1" / "events").read_text().split()
        for size in ("1-node", "2-nodes", "3-nodes")
    ]
    times = [int(words[place]) for words in events for place in (2, words.index("ended") + 2)]
    assert times == sorted(times)
    assert "note: not measured: 3 nodes, repetition 1: chain-3-nodes-1 (failed)" in done.stderr
    shown = user.json("scale", "chain-1-node-1")
    assert [(size["nodes"], size["throughput"]["median"]) for size in shown["sizes"]] == [(1, 10), (2, 20)]
