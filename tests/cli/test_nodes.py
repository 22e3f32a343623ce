"""``hpcdist nodes``: what is known against nodes, and forgetting it."""

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
    for hours, node in ((2, "n1"), (24, "n1"), (24 * 6, "n2")):
        directory = rundir.create(folder / "runs", "train")
        record = Record("train", f"t{hours}", "toy", "slurm", "d", "2026-01-01T00:00:00+00:00")
        rundir.save(directory, replace(record, phase=Phase.SUBMITTED, job_id="7"))
        began = int(time.time()) - 3600 * hours
        (directory.path / "events").write_text(f"started 7 {began} 0\nlost 7 {began} {node}\n")


def test_nothing_is_known(hpcdist: Hpcdist) -> None:
    assert hpcdist("nodes").err == "note: nothing is known against a node\n"
    assert json.loads(hpcdist("nodes", "--json").out) == []


@pytest.mark.usefixtures("crashed")
def test_nodes_are_listed_with_their_evidence_and_forgotten(hpcdist: Hpcdist) -> None:
    result = hpcdist("nodes")
    why = "the batch system reported it as down, and job 7 lost it"
    assert [line.split(maxsplit=8) for line in result.out.splitlines()] == [
        ["node", "site", "suspicion", "lost", "failed", "slow", "last", "run", "why"],
        ["n1", "toy", "1.90", "2", "-", "-", "2h", "train-1", why],
        ["n2", "toy", "0.55", "1", "-", "-", "6d", "train-3", why],
    ]
    [one, _] = json.loads(hpcdist("nodes", "--site", "toy", "--json").out)
    assert (one["node"], one["is_suspect"], len(one["evidence"])) == ("n1", True, 2)
    assert hpcdist("nodes", "forget", "n1").out == "forgotten: n1\n"
    assert [one["node"] for one in json.loads(hpcdist("nodes", "--json").out)] == ["n2"]
    assert hpcdist("nodes", "--site", "other").err == "note: nothing is known against a node of site other\n"


@pytest.mark.usefixtures("crashed")
def test_a_name_that_is_misspelt_is_refused(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("nodes", "forget", "n1", "n22")
    assert result.code == 2
    wording(result.err)
    assert len(json.loads(hpcdist("nodes", "--json").out)) == 2


EXPERIMENT = """\
name: exp
framework: pytorch
run: {cmd: 'true'}
batch: {site: toy, walltime: 1h, exclude_bad_nodes: true}
"""


@pytest.mark.usefixtures("crashed")
def test_plans_and_scripts_do_without_suspect_nodes_until_they_are_forgotten(
    folder: Path, hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (folder / "exp.yml").write_text(EXPERIMENT)
    words = ("exp.yml", "--site-path=sites")
    shown = hpcdist("plan", *words)
    assert "excluded nodes: n1, n2 (hpcdist nodes)\n" in shown.out
    wording(warning := shown.err)
    for verb in (["plan"], ["check"], ["render"], ["explain"], ["submit", "--dry-run"]):
        result = hpcdist(*verb, *words)
        assert (result.code, result.err) == (0, warning)
    assert "\n#SBATCH --exclude=n1,n2\n" in hpcdist("render", *words).out
    assert not [*(folder / "runs").glob(".nodes-*")]  # these verbs write nothing
    monkeypatch.setenv("HPCDIST_SITE_PATH", "sites")
    sizes = hpcdist("scale", "exp.yml", "--nodes", "1,2", "--dry-run")
    assert (sizes.code, sizes.err) == (0, warning)
    left = hpcdist("check", *words, "--set", "batch.exclude_bad_nodes=false").err
    wording(left)
    hpcdist("nodes", "forget", "n1", "n2")
    result = hpcdist("plan", *words)
    assert ("excluded" in result.out, result.err) == (False, "")


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
    folder: Path, hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCDIST_SITE_PATH", "sites")
    (folder / "exp.yml").write_text(EXPERIMENT)
    words = ("exp.yml", "--nodes", "1", "--set", "batch.dependency=afterany:train-1")
    assert hpcdist("scale", *words).code == 5  # there is no sbatch here
    script = (folder / "runs" / "exp-1-node-1" / "job.sh").read_text()
    assert ("\n#SBATCH --exclude=n1,n2\n" in script, "\n#SBATCH --dependency=afterany:7\n" in script) == (
        True,
        True,
    )


def test_a_plan_tells_of_a_ledger_that_cannot_be_read(
    folder: Path, hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (folder / "exp.yml").write_text(EXPERIMENT)
    (folder / "shared").mkdir()
    (folder / "config.yml").write_text(f"nodes_ledger: {folder}/shared\n")
    monkeypatch.setenv("HPCDIST_CONFIG", str(folder / "config.yml"))
    done = hpcdist("plan", "exp.yml", "--site-path=sites")
    assert done.code == 0
    wording(done.err.replace(str(folder), "FOLDER"))
    (folder / "config.yml").write_text("nodes_ledger: ~nobody-here/nodes\n")
    done = hpcdist("nodes")
    assert done.code == 2
    wording(done.err.replace(str(folder), "FOLDER"))
