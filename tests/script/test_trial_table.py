"""The params of a table of trials; jobs read it in `tests/supervisor/test_trials.py`."""

from __future__ import annotations

import json

import pytest

from hpcdist.plan.trials import TrialTexts
from hpcdist.script.trial_table import params, params_of, table


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
