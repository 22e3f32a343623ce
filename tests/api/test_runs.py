"""Runs on this machine: real processes, as the verbs start them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
    with pytest.raises(hpcdist.ConfigError, match="ranks-1 has no rank -1; it has ranks 0 to 1"):
        run.logs(rank=-1)
    with pytest.raises(hpcdist.ConfigError, match="ranks-1 has no trials or elements"):
        run.logs(trial=1)
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


def test_a_run_goes_on_and_is_copied() -> None:
    program = "echo $HPCDIST_ATTEMPT {{ lr }} >> $HPCDIST_OUTPUTS/log; [ {{ lr }} != 1 ]"
    run = small(program, params={"lr": 1}).submit()
    assert run.wait().state is hpcdist.JobState.FAILED
    went_on = run.resume(params={"lr": 2})
    assert (went_on.name, went_on.wait(), len(run.job_ids)) == ("small-1", DONE, 2)
    with pytest.raises(hpcdist.ConfigError, match="small-1 has completed"):
        run.resume()
    new = run.copy(params={"lr": 3})
    assert (new.name, new.wait()) == ("small-2", DONE)
    found = [(one.directory / "outputs/log").read_text().split() for one in (run, new)]
    assert (found[0][1::2], found[1][1::2]) == (["1", "2"], ["1", "2", "3"])


def test_trials_that_failed_run_once_more() -> None:
    search = {"matrix": {"lr": {"values": [1, 2]}}}
    run = small('[ {{ lr }} = 1 ] || [ -e "$HPCDIST_RUN_DIR/go" ]', hptuning=search).submit()
    assert run.wait().state is hpcdist.JobState.FAILED
    (run.directory / "go").touch()
    with pytest.raises(hpcdist.ConfigError, match="the trials of a search keep their params and nodes"):
        run.resume(nodes=2)
    assert run.resume().wait().state is hpcdist.JobState.COMPLETED
    assert [trial.state for trial in run.trials()] == ["completed", "completed"]


def test_several_threads() -> None:
    """Of one experiment in eight threads each submits its own, and those that resume a run submit one job."""
    experiment = small(f"echo {{{{ n }}}}; {WAITS}", params={"n": 0})

    def submitted(number: int) -> tuple[hpcdist.Run, hpcdist.Status]:
        run = experiment.changed(params={"n": number}).submit()
        return run, run.status()

    with ThreadPoolExecutor(8) as pool:
        made = [*pool.map(submitted, range(8))]
    Path("go").touch()
    runs = [run for run, _ in made]
    assert sorted(run.name for run in runs) == [f"small-{number}" for number in range(1, 9)]
    assert len({run.job_ids for run in runs}) == 8
    assert {status.state for _, status in made} <= {hpcdist.JobState.PENDING, hpcdist.JobState.RUNNING}
    with ThreadPoolExecutor(8) as pool:
        ends = [*pool.map(hpcdist.Run.wait, runs)]
        logs = [*pool.map(lambda run: [*run.logs()][-1], runs)]
    assert (ends, logs) == ([DONE] * 8, [str(number) for number in range(8)])


@pytest.mark.extended
def test_several_threads_that_submit_one_experiment() -> None:
    """None of them completes what another one is submitting: as many runs and jobs as submissions."""
    experiment = small("true")
    with ThreadPoolExecutor(8) as pool:
        runs = [*pool.map(lambda _: experiment.submit(), range(8))]
    assert sorted(run.name for run in runs) == [f"small-{number}" for number in range(1, 9)]
    assert len({run.job_ids for run in runs}) == 8
    assert hpcdist.wait(runs) == [DONE] * 8


def test_several_threads_that_resume_a_run() -> None:
    run = small(f"[ -e $HPCDIST_RUN_DIR/again ] || exit 1; {WAITS}").submit()
    assert run.wait().state is hpcdist.JobState.FAILED
    (run.directory / "again").touch()

    def resumed(_: int) -> str:
        try:
            return run.resume().name
        except hpcdist.ConfigError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        found = Counter(pool.map(resumed, range(8)))
    assert found["small-1"] == 1
    assert all("small-1 is not over: job " in text for text in found if text != "small-1")
    Path("go").touch()
    assert (run.wait(), len(run.job_ids)) == (DONE, 2)


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
    assert hpcdist.find_run(str(job_id), "there") == found[0] == hpcdist.find_run(run.directory)
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


def adaptive(cmd: str) -> hpcdist.Run:
    search = {"n_initial_trials": 2, "n_iterations": 2, "metric": {"name": "loss"}}
    matrix = {"lr": {"uniform": [0, 1]}}
    return small(
        cmd,
        hptuning={"concurrency": 2, "matrix": matrix, "bo": search},
        tracking={"metrics": {"loss": "loss=(.*)"}},
    ).submit()


def test_the_end_of_a_search_is_that_of_its_last_generation() -> None:
    run = adaptive("echo loss={{ lr }}")
    assert run.wait().state is hpcdist.JobState.COMPLETED
    assert (len(run.job_ids), [trial.state for trial in run.trials()]) == (2, ["completed"] * 4)


def test_a_search_that_cannot_go_on_has_no_end() -> None:
    run = adaptive("echo nothing of {{ lr }}")
    with pytest.raises(hpcdist.ConfigError, match="no trial of small-1 that completed recorded the metric"):
        run.wait()


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
    with pytest.raises(hpcdist.ConfigError, match="has no trial 9; it has 1-3"):
        run.logs(trial=9)


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
