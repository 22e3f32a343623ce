"""``hpcdist doctor --nodes``: what is known against nodes, and the jobs that avoid them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.wording import Wording

from .conftest import Hpcdist


@pytest.fixture
def crashed(folder: Path) -> None:
    """Two runs on which a node was lost, two hours and a day ago."""
    for hours, node in ((2, "n1"), (24, "n1"), (24 * 6, "n2"), (24 * 15, "n3")):
        directory = rundir.create(folder / "runs", "train")
        record = Record("train", f"t{hours}", "toy", "slurm", "d", "2026-01-01T00:00:00+00:00")
        rundir.save(directory, replace(record, phase=Phase.SUBMITTED, job_id="7"))
        began = int(time.time()) - 3600 * hours
        (directory.path / "events").write_text(f"started 7 {began} 0\nlost 7 {began} {node}\n")


def test_nothing_is_known(hpcdist: Hpcdist) -> None:
    assert hpcdist("doctor", "--nodes").err == "note: nothing is known against a node\n"
    assert json.loads(hpcdist("doctor", "--nodes", "--json").out) == []


@pytest.mark.usefixtures("crashed")
def test_nodes_are_listed_with_their_evidence_of_two_weeks(hpcdist: Hpcdist) -> None:
    result = hpcdist("doctor", "--nodes")
    why = "the batch system reported it as down, and job 7 lost it"
    assert [line.split(maxsplit=7) for line in result.out.splitlines()] == [
        ["node", "site", "suspect", "lost", "failed", "last", "run", "why"],
        ["n1", "toy", "yes", "2", "-", "2h", "train-1", why],
        ["n2", "toy", "yes", "1", "-", "6d", "train-3", why],
    ]
    [one, _] = json.loads(hpcdist("doctor", "--nodes", "--site", "toy", "--json").out)
    assert (one["node"], one["is_suspect"], len(one["evidence"])) == ("n1", True, 2)
    nothing = hpcdist("doctor", "--nodes", "--site", "other").err
    assert nothing == "note: nothing is known against a node of site other\n"


EXPERIMENT = """\
name: exp
framework: pytorch
run: {cmd: 'true'}
batch: {site: toy, walltime: 1h, exclude_bad_nodes: true}
"""


@pytest.mark.usefixtures("crashed")
def test_plans_and_scripts_exclude_suspect_nodes(folder: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    (folder / "exp.yml").write_text(EXPERIMENT)
    words = ("exp.yml", "--site-path=sites")
    shown = hpcdist("plan", *words)
    assert "excluded nodes: n1, n2 (hpcdist doctor --nodes)\n" in shown.out
    wording(warning := shown.err)
    for verb in (["plan"], ["check"], ["render"], ["explain"], ["submit", "--dry-run"]):
        result = hpcdist(*verb, *words)
        assert (result.code, result.err) == (0, warning)
    assert "\n#SBATCH --exclude=n1,n2\n" in hpcdist("render", *words).out
    sizes = hpcdist("scale", "exp.yml", "--site=sites/toy.yaml", "--nodes", "1,2", "--dry-run")
    assert (sizes.code, sizes.err) == (0, warning)
    left = hpcdist("check", *words, "--set", "batch.exclude_bad_nodes=false").err
    wording(left)
    result = hpcdist("plan", *words, "--set", "batch.exclude_nodes=[n1,n2]")
    assert ("excluded nodes: n1, n2 (--set" in result.out, result.err) == (True, "")


def test_nodes_of_the_user_are_excluded_where_the_batch_system_can(
    folder: Path, hpcdist: Hpcdist, wording: Wording
) -> None:
    (folder / "exp.yml").write_text(EXPERIMENT.replace("exclude_bad_nodes: true", "exclude_nodes: [n7, -w]"))
    words = ("exp.yml", "--site-path=sites")
    wording(hpcdist("check", *words).err)
    good = ("--set", "batch.exclude_nodes=[n7]")
    assert "\n#SBATCH --exclude=n7\n" in hpcdist("render", *words, *good).out
    result = hpcdist("check", *words, *good, "--site", "pbs")
    assert result.code == 3
    wording(result.err)


@pytest.mark.usefixtures("crashed")
def test_the_runs_of_a_scaling_study_do_without_suspect_nodes_and_wait_for_runs(
    folder: Path, hpcdist: Hpcdist
) -> None:
    (folder / "exp.yml").write_text(EXPERIMENT)
    words = ("exp.yml", "--site=sites/toy.yaml", "--nodes", "1")
    waits = ("--set", "batch.dependency=afterany:train-1")
    assert hpcdist("scale", *words, *waits).code == 5  # there is no sbatch here
    script = (folder / "runs" / "exp-1-node-1" / "job.sh").read_text()
    assert ("\n#SBATCH --exclude=n1,n2\n" in script, "\n#SBATCH --dependency=afterany:7\n" in script) == (
        True,
        True,
    )
