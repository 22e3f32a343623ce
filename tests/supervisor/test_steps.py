"""Steps before the program, beside it and after it: run by a real bash, on nodes that are this one."""

from __future__ import annotations

import os
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from supervisor import steps
from supervisor.events import Event
from supervisor.job import Step
from supervisor.start import Start
from supervisor.steps import Beside, Steps

from tests.supervisor.starts import start as begin

HERE = {"PATH": os.environ["PATH"]}


def start_of(run: Path, *own: Step, nodes: int = 2, alone: int = 0) -> Start:
    """Return the start of a job with these steps, on nodes of one letter each."""
    start = begin(run)
    start.job = start.job._replace(steps=own)
    start.nodes, start.own = [*"abcdefgh"[:nodes]], [*"xyz"[:alone]]
    return start


def on_nodes(first: int, last: int, nodes: Sequence[str], words: Sequence[str]) -> list[list[str]]:
    """Reach all nodes here, which have their names in a variable."""
    return [[f"NAME={nodes[number]}", *words, str(number)] for number in range(first, last + 1)]


def steps_of(start: Start, lines: str = "") -> Steps:
    return Steps(start, lines, on_nodes, lambda: None)


def before(
    capfd: pytest.CaptureFixture[str], start: Start, lines: str = "", **own: str
) -> tuple[int, list[str]]:
    """Run the steps before a program; return its exit code, or 0, and what they print."""
    code = steps_of(start, lines).before({**HERE, **own})
    return code, sorted("".join(capfd.readouterr()).splitlines())


@pytest.mark.parametrize(
    ("on", "said"),
    [("job", ["0"]), ("node", ["0 a", "1 b"]), ("last_node", ["1 b"])],
)
def test_where_a_step_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], on: str, said: list[str]
) -> None:
    command = 'echo $HPCDIST_NODE "${NAME:-}"'
    found = before(capfd, start_of(tmp_path, Step("before", on, command)))
    assert found == (0, [line if " " in line else f"{line} " for line in said])


def test_programs_with_nodes_of_their_own_follow_those_of_the_tasks() -> None:
    own = [Step("beside", on, "") for on in ("own_node", "node", "own_node")]
    assert [steps.nodes_of(own, place, 4) for place in range(3)] == [(4, 4), (0, 3), (5, 5)]


def test_a_step_has_the_variables_and_the_folder_that_the_script_makes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = f'echo loading; export A="it\'s \\$5" B= HPCDIST_PORT=$((X + 1)); unset GONE; cd {tmp_path}'
    command = 'echo "$A,${B-},$HPCDIST_PORT,${GONE-},$PWD,${HPCDIST_FAILURE-}"'
    start = start_of(tmp_path, Step("before", "job", command))
    found = before(capfd, start, lines, X="1", GONE="1", HPCDIST_FAILURE="f")
    assert found == (0, [f"it's $5,,2,,{tmp_path},", "loading"])


def test_only_what_a_step_needs_is_told_to_other_nodes() -> None:
    there = {"PATH": "/bin", "SLURM_JOB_ID": "7", "SET": "1", "HPCDIST_RUN_DIR": "/r", "HPCDIST_TOKEN": "t"}
    after = {**there, "NEW": "2", "PWD": "/", "_": "x", "BASH_FUNC_module%%": "() { :; }"}
    expected = {"HPCDIST_RUN_DIR": "/r", "NEW": "2", "PATH": "/bin", "SET": "1"}
    assert steps.needed(there, after, "export SET=1") == expected


@pytest.mark.parametrize(
    ("lines", "code", "why"),
    [("echo no such module >&2; exit 3", 3, ["no such module"]), ("exit 0", 86, [])],
)
def test_lines_that_fail_are_those_of_a_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], lines: str, code: int, why: list[str]
) -> None:
    start = start_of(
        tmp_path, Step("before", "job", "echo x"), Step("beside", "job", "x"), Step("after", "job", "x")
    )
    own = steps_of(start, lines)
    assert (own.before(HERE), own.beside(HERE, lambda: None).end(), own.after(86, HERE)) == (86, None, 86)
    failed = f"a step before the program failed (exit code {code}), so that it does not run"
    assert "".join(capfd.readouterr()).splitlines() == [
        *why,
        f"hpcdist: {failed}; its messages are above",
        f"hpcdist: a step after the program failed, with exit code {code}",
    ]


@pytest.mark.parametrize(
    ("commands", "status", "code"),
    [(["true"], 3, 3), (["exit 4", "false"], 0, 4), (["kill -9 $$"], 0, 137), (["exit 4"], 3, 3), ([], 2, 2)],
)
def test_a_failure_after_the_program_is_the_jobs_if_that_ended_well(
    tmp_path: Path, commands: list[str], status: int, code: int
) -> None:
    start = start_of(tmp_path, Step("before", "job", ""), *(Step("after", "node", text) for text in commands))
    assert steps_of(start).after(status, HERE) == code
    assert [(event.what, event.number) for event in start.events()] == [("finishing", status)]


def test_steps_after_the_program_have_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    start = start_of(tmp_path, Step("after", "job", "echo $HPCDIST_EXIT_CODE"))
    assert (steps_of(start).after(7, HERE), capfd.readouterr().out) == (7, "7\n")


def test_a_command_that_is_missing_is_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    start = start_of(tmp_path, Step("before", "node", "true"))
    own = Steps(start, "", lambda *_: [["no-such-srun"], ["true"]], lambda: None)
    assert own.before(HERE) == 86
    assert "no-such-srun" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it is not awaited
def test_a_signal_that_ends_the_job_ends_its_step(tmp_path: Path) -> None:
    class Told(Exception):  # noqa: N818
        pass

    def tick() -> None:
        if (tmp_path / "pid").exists():
            raise Told

    start = start_of(
        tmp_path,
        Step("before", "job", f"echo $$ >{tmp_path}/pid.new; mv {tmp_path}/pid{{.new,}}; exec sleep 60"),
    )
    with pytest.raises(Told):
        Steps(start, "", on_nodes, tick).before(HERE)
    process = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    until(lambda: not process.exists() or ") Z" in process.read_text())


def until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(holds)


def beside(start: Start, told: list[str]) -> Beside:
    return steps_of(start).beside(HERE, lambda: told.append("told"))


def test_programs_beside_the_tasks_end_with_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    serve = f"echo serving; touch {tmp_path}/$HPCDIST_NODE; for ((;;)); do sleep 0.1; done"
    server = f"trap 'echo ended; exit' TERM; {serve}"
    own = beside(start_of(tmp_path, Step("after", "job", ""), Step("beside", "node", server)), [])
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    own.tick()
    assert (own.end(), capfd.readouterr().err) == (None, "")
    said = (tmp_path / "logs/job.beside-3.out").read_text().split()
    assert sorted(set(said) - {"Terminated"}) == ["ended", "serving"]
    assert (said.count("ended"), (tmp_path / "jobs/7/beside.0").exists()) == (2, True)


@pytest.mark.parametrize(
    ("on", "code", "told"), [("own_node", 9, ["told"]), ("own_node", 0, []), ("last_node", 9, [])]
)
def test_a_program_that_ends_early(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], on: str, code: int, told: list[str]
) -> None:
    got: list[str] = []
    own = beside(start_of(tmp_path, Step("beside", on, f"exit {code}"), alone=1), got)
    said: list[str] = []

    def is_over() -> bool:
        own.tick()
        said.extend(capfd.readouterr().err.splitlines())
        return bool(said)

    until(is_over)
    log = tmp_path / "logs/job.beside-0.out"
    assert said == [
        f"hpcdist: a program beside the tasks ended with exit code {code}; its output is in {log}"
    ]
    assert (own.end(), got) == (code if told else None, told)
    failed = tmp_path / "jobs/7/beside_failed.0"
    assert (failed.read_text() if failed.exists() else None) == ("9\n" if told else None)


@pytest.mark.parametrize(
    ("log", "lost"),
    [
        (["finishing"], True),
        (["finishing", "ended", "started"], False),
        (["finishing", "started"], True),
        ([], False),
    ],
)
def test_a_job_that_was_lost_in_its_last_steps(log: list[str], *, lost: bool) -> None:
    assert steps.was_finishing([Event(what, "7", 1, "0") for what in log]) == lost


def staged(folder: Path, *commands: str) -> int:
    own = [Step("before", "job", command) for command in commands]
    return steps_of(start_of(folder / "run", *own)).before({**HERE, "HPCDIST_STAGE": str(folder / "local")})


def test_data_is_copied_and_unpacked_once_and_whole(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "x").write_text("whole")
    (tmp_path / "y.part").write_text("wh")  # a copy that broke off
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "x", "x")
    copy = f"stage_copy {tmp_path}/x {tmp_path}/y"
    unpack = f"stage_unpack {tmp_path}/x.tar {tmp_path}/local/.x.tar {tmp_path}/local"
    assert staged(tmp_path, copy, unpack) == 0
    assert ((tmp_path / "y").read_text(), [*(tmp_path / "local").iterdir()]) == (
        "whole",
        [tmp_path / "local" / "x"],
    )
    assert staged(tmp_path, unpack) == 86  # which would replace what is there
