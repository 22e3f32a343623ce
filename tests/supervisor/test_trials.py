"""The trials of a search: their table as bash gets it, and the limits by the event log."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from supervisor import trials
from supervisor.job import Sweep
from supervisor.start import Failed, Start

from hpcdist.plan.trials import TrialTexts
from hpcdist.script.trial_table import table
from tests.supervisor.starts import start
from tests.tiers import examples

SWEEP = Sweep(4, 400, 60, 2, "", "", 0)
TEXTS = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TRIALS = some.builds(
    TrialTexts,
    some.dictionaries(some.sampled_from(["lr", "n"]), TEXTS),
    TEXTS,
    some.dictionaries(some.sampled_from(["PATH_OF", "X", "Y1"]), TEXTS),
    some.integers(1, 10**9 - 1),
)
WHOLE = table(
    [TrialTexts({"lr": "1"}, "train", {"X": "a b"}, 7), TrialTexts({"lr": "it's\n"}, "t", {"X": "y"}, 8)]
)


def of(folder: Path, element: str = "", sweep: Sweep | None = SWEEP) -> Start:
    """Return the start of element of an array of trials, in this run directory."""
    own = start(folder, element=element)
    own.job = own.job._replace(sweep=sweep, number=1)
    return own


@pytest.mark.extended
@examples(40)
@given(some.lists(TRIALS, min_size=1, max_size=4))
def test_what_was_written_is_read_again(tmp_path: Path, written: list[TrialTexts]) -> None:
    (tmp_path / "trials.tsv").write_text(table(written), newline="")
    job = of(tmp_path).job
    params = [*{name: None for trial in written for name in trial.params}]
    names = [*{name: None for trial in written for name in trial.variables}]
    for row, trial in enumerate(written, 1):
        found = trials.choose(job, str(row))
        variables = {name: trial.variables.get(name, "") for name in names}
        assert (found.number, found.program, found.variables) == (
            str(trial.number),
            trial.command,
            variables,
        )
        line = f"printf '%s\\0'{found.params}".encode()
        said = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, check=True).stdout.decode()
        values = [("trial", str(trial.number)), *((name, trial.params.get(name, "")) for name in params)]
        assert said.split("\0")[:-1] == [f"{name}={value}" for name, value in values]


def test_a_trial_is_known_by_its_number_and_its_params_are_words_of_shell(tmp_path: Path) -> None:
    (tmp_path / "trials.tsv").write_text(WHOLE)
    job = of(tmp_path).job
    assert trials.choose(job, "2") == trials.Trial("8", r" trial=8 lr=$'it\'s\n'", "t", {"X": "y"})
    assert [trials.number_of(job, element) for element in ("1", "3")] == ["7", "3"]
    (tmp_path / "trials.tsv").unlink()
    assert trials.number_of(job, "2") == "2"


def test_its_environment_has_its_program_and_its_variables_also_as_shell() -> None:
    own = trials.Trial("5", "", "train $X", {"X": "a  'b'\n", "Y": ""}).environment(
        SWEEP._replace(stop_at="{}")
    )
    shell = own.pop("HPCDIST_VARIABLES")
    variables = {"X": "a  'b'\n", "Y": ""}
    limits = {"HPCDIST_STOP_AT": "{}"}
    assert own == {"HPCDIST_TRIAL": "5", "HPCDIST_PROGRAM": "train $X", **limits, **variables}
    words = ["bash", "-c", f'X=1 Y=2\n{shell}\nprintf \'%s\\0\' "$X" "$Y"']
    assert subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout == b"a  'b'\n\0\0"


@pytest.mark.parametrize(
    ("element", "text", "message"),
    [
        ("1", None, "cannot read FOLDER/trials.tsv, which has the trials of this job"),
        ("3", WHOLE, "FOLDER/trials.tsv has no trial for element 3"),
        ("2", WHOLE[:-2], "FOLDER/trials.tsv has no trial for element 8"),
        ("1", "trial\tlr\t:program\tX\n1\t2\ttrain\n", "trial 1 in FOLDER/trials.tsv is cut short"),
        ("1", "trial\tlr\n1\t2\n", "trial 1 in FOLDER/trials.tsv is cut short"),
    ],
)
def test_a_table_that_lacks_the_trial_ends_the_job(
    tmp_path: Path, element: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "trials.tsv").write_text(text)
    with pytest.raises(Failed) as raised:
        trials.choose(of(tmp_path).job, element)
    assert (str(raised.value).replace(str(tmp_path), "FOLDER"), raised.value.code) == (message, 86)


# --- Limits


def begun(folder: Path, trial: int, at: int, budget: int = 400) -> str:
    """Start a trial at this time; return why it may not, as the whole log and what is kept of it say."""
    own = of(folder, str(trial), SWEEP._replace(budget=budget))
    kept = trials.kept(own.job)
    log(folder, f"started 7_{trial} {at} 0")
    why = trials.over(own, SWEEP._replace(budget=budget), kept)
    whole = (folder / "events").read_bytes()
    assert why == trials.count(own.id, SWEEP._replace(budget=budget), whole)[0]
    return why


def log(folder: Path, line: str) -> None:
    with (folder / "events").open("a") as file:
        file.write(f"{line}\n")


@pytest.mark.parametrize("seed", range(3))
def test_a_trial_finds_what_the_whole_log_comes_to(tmp_path: Path, seed: int) -> None:
    """Some are lost, and the search is resumed in between."""
    chance, running, said = random.Random(seed), list[int](), list[str]()  # noqa: S311
    for trial in range(1, 31):
        said.append(begun(tmp_path, trial, 10 * trial))
        running.append(trial)
        while len(running) > seed:
            ended = running.pop(chance.randrange(len(running)))
            if chance.random() < 0.9:
                code = chance.choice(["0"] * 9 + ["1", "unknown", "85"])
                log(tmp_path, f"ended 7_{ended} {10 * trial + 5} {code}")
        if trial == 15:
            log(tmp_path, "resumed 7 1 0")
    assert any("GPU-hours are spent" in why or "trials have failed" in why for why in said)


def test_a_trial_reads_what_is_new_in_the_log(tmp_path: Path) -> None:
    """Ten thousand trials that read all of it would read gigabytes."""
    for trial in range(1, 20):
        assert begun(tmp_path, trial, trial, 10**9) == ""
        log(tmp_path, f"ended 7_{trial} {trial} 0")
    place, lines = trials.kept(of(tmp_path).job)
    assert (place, lines) == ((tmp_path / "events").stat().st_size - 16, b"spent 0.000\nstarted 7_19 19 0\n")


def test_two_that_start_at_once_do_not_both_take_what_is_left(tmp_path: Path) -> None:
    """What the second keeps is behind the start of the first, which therefore reads the log anew."""
    sweep, first = SWEEP._replace(budget=100), of(tmp_path, "1")
    kept = trials.kept(first.job)
    log(tmp_path, "started 7_1 1 0")
    why = "0 GPU-hours are spent, 2 trials that run may take 0.03333, and the budget is 0.02778"
    assert begun(tmp_path, 2, 1, 100) == why
    assert trials.over(first, sweep, kept) == trials.over(first, sweep, trials.kept(first.job)) == ""


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param("upto 9\nspent 9999999.000\nwhole\n", id="of another log: not at the end of a line"),
        pytest.param("upto 99999\nspent 9999999.000\nwhole\n", id="of a longer log"),
        pytest.param("upto 1\nspent 99999", id="cut short"),
        pytest.param("", id="empty"),
        pytest.param("?" * 99, id="damaged"),
    ],
)
def test_what_is_kept_of_another_log_does_not_count(tmp_path: Path, kept: str) -> None:
    (tmp_path / "events").write_text("started 7_1 1 0\nended 7_1 3 0\n")
    (tmp_path / "limits").write_text(kept)
    assert begun(tmp_path, 2, 5) == ""
    assert (tmp_path / "limits").read_text() == "upto 46\nspent 4.000\nstarted 7_2 5 0\nwhole\n"


def test_the_limits_of_packed_trials_are_those_of_their_jobs_and_logs(tmp_path: Path) -> None:
    """Job 9 had 3 GPUs, and may take 30 GPU-seconds; trial 4 failed in it, and the job does not count."""
    own = of(tmp_path, sweep=SWEEP._replace(workers=2))
    start(tmp_path, "9")
    (tmp_path / "jobs" / "9" / "cost").write_text("cost 9 3 30\n")
    (tmp_path / "events").write_text("started 9 1 0\nended 9 5 1\nstarted 9 9 1\nstarted 7 10 0\n")
    (tmp_path / "events.9@n1").write_text("started 9_4 2 0\nended 9_4 4 1\n")
    for most, budget, why in (
        (1, None, "1 trials have failed, and max_failures is 1"),
        (2, 102, ""),
        (2, 101, "0.003333 GPU-hours are spent, 2 jobs that run may take 0.025, and the budget is 0.02806"),
    ):
        sweep = SWEEP._replace(workers=2, max_failures=most, budget=budget)
        assert trials.over(own, sweep) == why


def test_a_trial_does_not_start_over_a_limit_or_without_a_log_and_one_without_a_place_to_keep_it_does(
    tmp_path: Path,
) -> None:
    own = of(tmp_path, "3")
    with pytest.raises(Failed, match="events, by which the limits of this search are kept"):
        trials.check(own, (0, b""))
    log(tmp_path, "started 7_3 1 0")
    (tmp_path / "jobs" / "7_3").rmdir()
    trials.check(own, (0, b""))
    (tmp_path / "stop").write_text("as it is enough\n")
    with pytest.raises(Failed) as raised:
        trials.check(own, (0, b""))
    why = "trial 3 does not start: the search was stopped as it is enough"
    assert (str(raised.value), raised.value.code) == (why, 85)
