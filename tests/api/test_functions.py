"""Functions that run as jobs: their results, and exceptions that come back whole."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import hpcdist
from hpcdist.api import called, functions
from hpcdist.api.plans import Plan
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Record, Run
from tests.wording import Wording

HERE = hpcdist.define(name="here", site="local")
THREE = hpcdist.define(
    name="three",
    framework="pytorch",
    tasks_per_node=3,
    site="local",
    batch={"launcher": "processes"},
    pytorch={"launch": "env"},
)


def nested(base: int) -> Any:
    """Return a function that only its value can be pickled of: this module is not importable there."""

    def power(number: int) -> tuple[int, str, str]:
        import os

        return base**number, os.environ["RANK"], os.environ["HPCDIST_SIZE"]

    def fails(ranks: tuple[str, ...]) -> str:
        import os
        import time

        if os.environ["RANK"] in ranks:
            raise KeyError(f"rank {os.environ['RANK']}")
        while True:
            time.sleep(0.1)

    power.__module__ = fails.__module__ = "__main__"
    return power, fails


def test_the_result_is_that_of_rank_0(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    power, _ = nested(2)
    assert hpcdist.call(power, 10, on=THREE) == (1024, "0", "3")
    run = folder / "runs/three-1"
    modes = {name: (run / name).stat().st_mode & 0o777 for name in ("call.py", "call.txt", "call.returned")}
    assert (modes, [*run.glob("call.raised*")]) == (dict.fromkeys(modes, 0o600), [])
    assert run.stat().st_mode & 0o777 == 0o700
    assert hpcdist.find_run("three-1").result() == (1024, "0", "3")
    (run / "call.raised.7").write_bytes(pickle.dumps((KeyError("of an earlier attempt"), "")))
    assert hpcdist.find_run("three-1").result() == (1024, "0", "3")
    assert capfd.readouterr() == ("", "")


def test_an_exception_comes_back_with_its_traceback() -> None:
    _, fails = nested(2)
    with pytest.raises(KeyError) as caught:
        hpcdist.call(fails, ("1",), on=THREE)
    assert caught.value.args == ("rank 1",)
    cause = str(caught.value.__cause__)
    assert "rank 1 of three-1:\nTraceback (most recent call last):\n" in cause
    assert ", in fails\n" in cause  # cloudpickle drops the name of the file since 3.1.3, and so its lines


@pytest.mark.extended
def test_a_job_that_ends_without_a_result(folder: Path) -> None:
    with pytest.raises(hpcdist.JobFailed, match="here-1 is failed: ") as caught:
        hpcdist.call(os._exit, 3, on=HERE)
    assert caught.value.exit_code == 1
    with pytest.raises(
        hpcdist.JobFailed, match=r"rank 0 of here-2 failed:\nTraceback .*\n(.*\n)*SystemExit: 3"
    ):
        hpcdist.call(sys.exit, 3, on=HERE)
    with pytest.raises(TypeError, match="cannot pickle"):
        hpcdist.call(threading.Lock, on=HERE)
    assert hpcdist.call(os.getcwd, on=HERE) == str(folder)


def test_what_others_could_have_written_is_not_read(folder: Path) -> None:
    assert hpcdist.call(len, [1, 2], on=HERE) == 2
    run = hpcdist.find_run("here-1")
    (folder / "runs/here-1/call.returned").chmod(0o620)
    with pytest.raises(hpcdist.ConfigError, match="could have been written by other users"):
        run.result()


class Evil:
    """What leaves a mark when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("it was run",))


def test_what_a_remote_wrote_is_not_unpickled_unless_it_is_trusted(
    folder: Path, capsys: pytest.CaptureFixture[str], wording: Wording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what was returned nor what was raised; of any run, be it a call or not."""
    directory = rundir.create(folder / "runs", "far")
    record = Record(
        "far-1", "t", "s", "local", "d", "2026-01-01T00:00:00+00:00", remote="box", there="/r/far-1"
    )
    rundir.save(directory, record)
    config = folder / "config.yml"
    monkeypatch.setenv("HPCDIST_CONFIG", str(config))
    config.write_text("remotes: {box: {host: there, directory: /r}}")
    end = called.CallEnd("failed")
    for name in ("call.raised.0", "call.returned"):
        (directory.path / name).write_bytes(pickle.dumps(Evil()))
        (directory.path / name).chmod(0o600)
        with pytest.raises(hpcdist.ConfigError) as caught:
            called.result(Run(directory, record), end)
        end = called.CallEnd("completed")
    wording(str(caught.value))
    assert capsys.readouterr().out == ""
    config.write_text("remotes: {box: {host: there, directory: /r, trusted: true}}")
    called.result(Run(directory, record), end)
    assert capsys.readouterr().out == "it was run\n"


def test_each_call_is_a_trial(folder: Path) -> None:
    """A trial on this machine is packed; one of several tasks waits for those before it."""
    assert hpcdist.call_each(divmod, [(7, 2), (9, 5)], on=HERE, concurrency=2) == [(3, 1), (1, 4)]
    run = hpcdist.find_run("here-1")
    assert (run.result(trial=2), [trial.state for trial in run.trials()]) == ((1, 4), ["completed"] * 2)
    with pytest.raises(hpcdist.ConfigError, match="here-1 has no trial 3"):
        run.result(trial=3)
    assert hpcdist.call_each(len, [], on=HERE) == []
    assert sorted(file.name for file in (folder / "runs/here-1").glob("call.*")) == [
        "call.1.returned",
        "call.2.returned",
        "call.py",
        "call.txt",
    ]


def test_a_concurrency_of_none_at_all_is_refused() -> None:
    with pytest.raises(hpcdist.ConfigError, match="concurrency"):
        hpcdist.call_each(divmod, [(7, 2), (9, 5)], on=HERE, concurrency=0)


@pytest.mark.extended
def test_calls_that_fail_leave_the_others_alone() -> None:
    arguments = [(1, 0), (6, 3), (1, "x")]
    found = hpcdist.call_each(divmod, arguments, on=HERE, return_exceptions=True)
    assert [type(each) for each in found] == [ZeroDivisionError, tuple, TypeError]
    with pytest.raises(ZeroDivisionError) as caught:
        hpcdist.call_each(divmod, arguments, on=HERE)
    assert "rank 0 of here-2/1:\n" in str(caught.value.__cause__)
    [killed] = hpcdist.call_each(os._exit, [(3,)], on=HERE, return_exceptions=True)
    assert isinstance(killed, hpcdist.JobFailed)
    assert str(killed).startswith("here-3/1 is failed: ")


def test_calls_have_no_trials_of_their_own() -> None:
    on = hpcdist.define(
        name="own", hptuning={"matrix": {"lr": {"values": [1, 2]}}}, env={"LR": "{{ lr }}"}, site="slurm"
    )
    with pytest.raises(hpcdist.ConfigError, match="own has elements or trials of its own, beside those of"):
        hpcdist.call_each(len, [([],)], on=on)


def test_what_cannot_be_called() -> None:
    with pytest.raises(hpcdist.ConfigError, match="cannot be pickled: TypeError: "):
        hpcdist.call(len, threading.Lock(), on=HERE)
    with pytest.raises(hpcdist.ConfigError, match="has 2 elements or trials, and a call has one result"):
        hpcdist.call(len, [], on=hpcdist.define(batch={"array": "0-1"}, site="slurm"))
    assert [*hpcdist.find_runs()] == []


@pytest.mark.extended
def test_another_python_is_named() -> None:
    plan = functions.plan_of(len, ([],), HERE, sys.executable)
    plan = Plan(plan._made, plan._options, {**plan._beside, "call.txt": f"2.7 {'x'}"})
    with pytest.raises(RuntimeError, match=r"was pickled by Python 2\.7, and this is "):
        plan.submit().result()
