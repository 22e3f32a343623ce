"""Runs on this machine: real processes, as the verbs start them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hpcdist

DONE = hpcdist.Status(hpcdist.JobState.COMPLETED, "ended", 0, "", "events")
WAITS = "until [ -e go ]; do sleep 0.1; done"


def small(cmd: str, **sections: Any) -> hpcdist.Experiment:
    return hpcdist.define(name="small", cmd=cmd, site="local", **sections)


def test_a_run_and_what_it_wrote(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    experiment = hpcdist.define(
        name="ranks",
        framework="pytorch",
        tasks_per_node=2,
        cmd='echo "rank $RANK loss=0.$RANK"; echo $RANK > $HPCDIST_OUTPUTS/$RANK',
        tracking={"metrics": {"loss": r"loss=([0-9.]+)"}},
        batch={"launcher": "processes"},
        site="local",
    )
    run = experiment.submit()
    assert run.wait() == run.status() == DONE
    assert (run.name, run.site, run.directory, run.notes) == ("ranks-1", "local", folder / "runs/ranks-1", ())
    assert [[*run.logs(rank=rank)][-1] for rank in (0, 1)] == ["rank 0 loss=0.0", "rank 1 loss=0.1"]
    assert sorted(run.logs(follow=True)) == sorted(run.logs())
    assert [*run.logs(follow=True, rank=1)] == ["rank 1 loss=0.1"]
    with pytest.raises(hpcdist.ConfigError, match="ranks-1 has no rank 2; it has ranks 0 to 1"):
        run.logs(rank=2)
    metrics = run.metrics()
    assert [(one.name, one.trial, one.rank, [*one.values]) for one in metrics.series] == [
        ("loss", None, 0, [0.0]),
        ("loss", None, 1, [0.1]),
    ]
    assert (metrics.last, metrics["loss"], metrics.warnings) == ({"loss": 0.0}, metrics.series[0], ())
    with pytest.raises(hpcdist.ConfigError, match=r"there is no metric 'los'; did you mean 'loss'\?"):
        metrics["los"]
    assert run.outputs() == (hpcdist.Output("0", "file", 2), hpcdist.Output("1", "file", 2))
    assert not run.cancel()
    assert capfd.readouterr() == ("", "")


def test_runs_are_found_again_restarted_and_shown(folder: Path) -> None:
    run = small("echo {{ lr }}", params={"lr": 1}).submit("there")
    run.wait()
    new = run.restart(params={"lr": 2})
    assert (new.wait(), [*new.logs()][-1]) == (DONE, "2")
    assert hpcdist.wait([run, new]) == [DONE, DONE]
    found = hpcdist.find_runs("there")
    assert ([each.name for each in found], found[1:], found.problems) == (
        ["small-1", "small-2"],
        (found[1],),
        (),
    )
    [job_id] = run.job_ids
    assert hpcdist.find_run(str(job_id), "there") == found[0] == hpcdist.find_run(str(run.directory))
    rows = [("run", "small-1"), ("site", "local"), ("jobs", job_id), ("state", "completed")]
    cells = "".join(f"<tr><th>{title}</th><td>{text}</td></tr>" for title, text in rows)
    last = f"<tr><th>directory</th><td>{folder}/there/small-1</td></tr>"
    assert found[0]._repr_html_() == f"<table>{cells}{last}</table>"
    assert repr(new) == "<Run small-2: completed>"
    (folder / "there/small-1/record.json").write_text("{}")
    left = hpcdist.find_runs("there")
    assert ([each.name for each in left], [problem.severity for problem in left.problems]) == (
        ["small-2"],
        ["warning"],
    )


def test_a_search_and_its_trials() -> None:
    run = small(
        "echo loss={{ lr }}",
        params={"lr": 1},
        hptuning={"matrix": {"lr": {"values": [3, 1, 2]}}},
        tracking={"metrics": {"loss": "loss=([0-9]+)"}},
    ).submit()
    assert run.wait() == DONE
    trials = [hpcdist.Trial(n, {"lr": lr}, "completed", {"loss": lr}) for n, lr in ((1, 3), (2, 1), (3, 2))]
    assert run.trials() == (*trials,)
    assert run.trials("-loss") == (trials[0], trials[2], trials[1])
    assert [*run.logs(trial=2)][-1] == "loss=1"
    with pytest.raises(hpcdist.ConfigError, match="cannot be followed"):
        run.logs(trial=2, follow=True)


def test_waiting_has_an_end_and_leaves_the_job_alone(folder: Path) -> None:
    run = small(WAITS).submit()
    with pytest.raises(hpcdist.WaitTimeout, match=r"have not ended within 0\.2 s"):
        run.wait(0.2)

    async def main() -> hpcdist.Status:
        with pytest.raises(hpcdist.WaitTimeout):
            await run.wait_async(0.2)
        waiting = asyncio.ensure_future(run.wait_async())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert run.status().state is hpcdist.JobState.RUNNING
        (folder / "go").touch()
        return (await hpcdist.wait_async([run]))[0]

    assert asyncio.run(main()) == DONE


def test_a_job_that_is_cancelled() -> None:
    run = small("sleep 1000").submit()
    assert run.cancel()
    assert run.wait().state is hpcdist.JobState.CANCELLED


def test_an_interrupted_submission_is_completed_as_by_the_verb(folder: Path) -> None:
    first = small("true").submit()
    first.wait()
    record = folder / "runs/small-1/record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"phase": "accepted"}))
    second = small("true").submit()
    assert (second.name, second.job_ids) == ("small-1", first.job_ids)
    assert [note.partition(";")[0] for note in second.notes] == [
        f"the same experiment is completed as job {first.job_ids[0]}, run small-1"
    ]
    assert [small("true").submit().name, small("true").submit(again=True).name] == ["small-2", "small-3"]
    hpcdist.wait(hpcdist.find_runs())


def test_a_runs_directory_that_cannot_be_written(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(hpcdist.ConfigError, match=r"the run cannot be written: .*file: "):
        small("true").submit("file")


def test_a_program_that_does_not_wait_ends_at_once(folder: Path) -> None:
    run = small(WAITS).submit()
    program = (
        "import asyncio, hpcdist\n"
        "async def main():\n"
        f"    run = hpcdist.find_run({run.name!r})\n"
        "    waiting = asyncio.ensure_future(run.wait_async())\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=300, check=True).returncode == 0
    assert run.status().state is hpcdist.JobState.RUNNING
    (folder / "go").touch()
    assert run.wait() == DONE
