"""The table of trials, read again by the script's own bash."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpcdist.plan.trials import Sweep, TrialTexts
from hpcdist.script.renderer import render
from hpcdist.script.trial_table import params, params_of, table
from tests.plans import planned
from tests.tiers import examples

TEXTS = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TRIALS = some.builds(
    TrialTexts,
    some.dictionaries(some.sampled_from(["lr", "n"]), TEXTS),
    TEXTS,
    some.dictionaries(some.sampled_from(["PATH_OF", "X", "Y1"]), TEXTS),
    some.integers(1, 10**9 - 1),
)
PRINTED = (
    'printf "%s\\0" "$HPCDIST_TRIAL" "${hpcdist_trial[:program]}"'
    ' && hpcdist_export_trial && for name in "${hpcdist_trial_variables[@]}"; do'
    ' printf "%s\\0" "$name" "${!name}"; done'
)
SCRIPT = render(msgspec.structs.replace(planned(run={"cmd": "x"}), sweep=Sweep(2, ("lr", "n"))))


def script(folder: Path, element: int, line: str = "") -> subprocess.CompletedProcess[bytes]:
    """Let the script choose its trial in this folder, and then run this line."""
    functions, _, _ = SCRIPT.rpartition("\nmain\n")
    calls = f"trap - EXIT\nhpcdist_element={element}\nhpcdist_find_trial\nhpcdist_choose_trial"
    text = f"{functions}\n{calls}\n{line}\n"
    return subprocess.run(["bash", "-s"], input=text.encode(), cwd=folder, capture_output=True, check=False)


@pytest.mark.extended
@examples(40)
@given(some.lists(TRIALS, min_size=1, max_size=4))
def test_the_script_reads_what_was_written(tmp_path: Path, trials: list[TrialTexts]) -> None:
    (tmp_path / "trials.tsv").write_text(table(trials), newline="")
    names = [*{name: None for trial in trials for name in trial.variables}]
    for number, trial in enumerate(trials, 1):
        variables = [text for name in names for text in (name, trial.variables.get(name, ""))]
        expected = [str(trial.number), trial.command, *variables, ""]
        done = script(tmp_path, number, PRINTED)
        assert (done.stderr, done.stdout.decode().split("\0")) == (b"", expected)


WHOLE = table(
    [TrialTexts({"lr": "1"}, "train", {"X": "long text"}, 1), TrialTexts({"lr": "2"}, "t", {"X": "y"}, 2)]
)


@pytest.mark.parametrize(
    ("element", "text", "message"),
    [
        (1, None, "cannot read FOLDER/trials.tsv, which has the trials of this job"),
        (3, WHOLE, "FOLDER/trials.tsv has no trial for element 3"),
        (2, WHOLE[:-2], "FOLDER/trials.tsv has no trial for element 2"),
        (1, "trial\tlr\t:program\tX\n1\t2\ttrain\n", "trial 1 in FOLDER/trials.tsv is cut short"),
        (1, "trial\tlr\n1\t2\n", "trial 1 in FOLDER/trials.tsv is cut short"),
    ],
)
def test_a_table_that_lacks_the_trial_ends_the_job(
    tmp_path: Path, element: int, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "trials.tsv").write_text(text)
    done = script(tmp_path, element)
    said = done.stderr.decode().replace(str(tmp_path), "FOLDER")
    assert (done.returncode, f"hpcdist: {message}\n" in said) == (86, True)


def test_the_params_of_a_table_have_their_types_again() -> None:
    given: list[dict[str, object]] = [{"lr": 0.1, "text": 'a\tb\\ \n\r"é'}, {"lr": [1, None], "text": "x"}]
    texts = [{"POLYAXON_PARAMS": json.dumps(params)} for params in given]
    trials = [TrialTexts({}, "", text, number) for number, text in enumerate(texts, 1)]
    assert params(table(trials)) == {"1": given[0], "2": given[1]}


@pytest.mark.parametrize(
    "text",
    ["", "trial\tlr\n1\t2\n", "trial\t:program\tPOLYAXON_PARAMS\n1\t\t{\n2\t\t[1]\n3\n\x00\nx\t\t{}\n"],
)
def test_a_table_that_is_none_has_no_params(text: str) -> None:
    assert params(text) == {}


def test_a_param_may_have_the_name_of_the_variable_that_has_them_all() -> None:
    own = {"POLYAXON_PARAMS": '{"POLYAXON_PARAMS": 5}'}
    assert params(table([TrialTexts({"POLYAXON_PARAMS": "5"}, "x", own, 1)])) == {"1": {"POLYAXON_PARAMS": 5}}


def test_the_params_of_a_trial_are_those_that_its_table_has() -> None:
    values = {"text": 'a\tb\\n "c"', "number": 1e-3, "none": None}
    trial = TrialTexts({}, "x", {"POLYAXON_PARAMS": json.dumps(values)}, 7)
    assert params_of(trial) == params(table([trial]))["7"] == values
    assert params_of(TrialTexts({}, "x", {}, 7)) is None
