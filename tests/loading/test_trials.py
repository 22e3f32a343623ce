"""The trials of a search: what each of them has of its own, and what keeps them from being one job."""

from __future__ import annotations

import json

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading import load
from hpcdist.plan.trials import TrialTexts
from tests.wording import Wording


def loaded(text: str, *settings: tuple[str, str]) -> load.Loaded:
    return load.load_experiment(source.parse(text, "e.yml"), settings=settings)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return [str(problem) for problem in caught.value.problems]


def of_polyaxon(**params: object) -> dict[str, str]:
    return dict.fromkeys(("POLYAXON_PARAMS", "POLYAXON_DECLARATIONS"), json.dumps(params))


def test_each_trial_has_its_command_and_its_variables() -> None:
    done = loaded("""
params: {epochs: 3}
hptuning:
  matrix: {lr: {values: [0.10, 1e-3]}, opt: {values: [sgd, "a'b"]}}
environment: {env_vars: {KEPT: x, HALF: "{{ lr / 2 }}", SPELT: "{{ lr }}"}}
run: {cmd: "train --lr {{ lr }} '{{ opt }}' {% if opt == 'sgd' %}-m{% endif %} -e {{ epochs }}"}
""")
    expected = [
        TrialTexts(
            {"lr": spelt, "opt": opt},
            f"train --lr {spelt} '{opt}' {'-m' if opt == 'sgd' else ''} -e 3",
            of_polyaxon(epochs=3, lr=lr, opt=opt) | {"HALF": str(lr / 2), "SPELT": spelt},
            2 * (lr == 0.001) + 1 + (opt != "sgd"),
        )
        for spelt, lr in (("0.10", 0.1), ("1e-3", 0.001))
        for opt in ("sgd", "a'b")
    ]
    assert done.trials == expected
    first = done.experiment
    assert (first.run.cmd, first.params) == (expected[0].command, {"epochs": 3, "lr": 0.1, "opt": "sgd"})


def test_a_search_that_stops_early_has_its_trials_too() -> None:
    done = loaded("""
hptuning: {matrix: {lr: {values: [1, 2]}}, early_stopping: [{metric: loss, policy: {kind: median}}]}
run: {cmd: "x {{ lr }}"}
""")
    assert [trial.command for trial in done.trials] == ["x 1", "x 2"]
    assert not done.problems


def test_a_value_beside_those_of_the_search_is_a_warning(wording: Wording) -> None:
    text = (
        "params: {lr: 5, n: 6}\nhptuning: {matrix: {lr: {values: [1]}, n: {values: [2]}}}\n"
        "run: {cmd: 'x {{ lr }} {{ n }}'}"
    )
    done = load.load_experiment(source.parse(text, "e.yml"), params={"n": "7"})
    assert [trial.command for trial in done.trials] == ["x 1 2"]
    wording(map(str, done.problems))


def test_a_trial_of_a_list_has_the_params_of_the_file_for_those_that_it_lacks() -> None:
    done = loaded("""
params: {b: 9}
hptuning: {mapping: [{a: 1, b: 2}, {a: 3}]}
run: {cmd: "echo {{ a }} {{ b }}"}
""")
    assert (done.trials, done.problems) == (
        [
            TrialTexts({"a": "1", "b": "2"}, "echo 1 2", of_polyaxon(a=1, b=2), 1),
            TrialTexts({"a": "3"}, "echo 3 9", of_polyaxon(b=9, a=3), 2),
        ],
        (),
    )


V1_LIST = """
version: 1.1
kind: operation
matrix: {kind: mapping, values: [{lr: 0.9, n: 1}, {n: 2}]}
component:
  inputs: [{name: n, type: int}%s]
  run: {kind: job, container: {image: x, command: [sh, -c, "echo {{ lr }} {{ n }}"]}}
"""


def test_a_trial_of_a_list_has_the_default_of_its_input() -> None:
    done = loaded(V1_LIST % ", {name: lr, type: float, isOptional: true, value: 0.0}")
    assert [trial.variables["POLYAXON_PARAMS"] for trial in done.trials] == [
        '{"lr": 0.9, "n": 1}',
        '{"n": 2, "lr": 0.0}',
    ]


def test_an_input_whose_values_a_broken_search_has_is_not_missing(wording: Wording) -> None:
    text = """
inputs: [{name: lr, type: float}, {name: n, type: int}]
hptuning: {concurrency: 0, matrix: {lr: {values: [1]}}}
run: {cmd: "echo {{ lr }} {{ n }}"}
"""
    wording(problems(text))


@pytest.mark.parametrize("declared", ["", ", {name: lr, type: float}"])
def test_a_trial_of_a_list_without_a_value_is_an_error_at_this_trial(declared: str, wording: Wording) -> None:
    wording(problems(V1_LIST % declared))


@pytest.mark.parametrize(
    "text",
    [
        "hptuning: {matrix: {lr: {values: [1, 2]}, opt: {values: [a]}}}",
        "hptuning: {mapping: [{opt: a, lr: 2}]}",
        (
            "hptuning: {matrix: {lr: {uniform: [0, 1]}}, "
            "hyperband: {max_iterations: 4, resource: {name: epochs}, metric: {name: loss}}}"
        ),
    ],
)
def test_a_param_that_only_the_program_may_read_is_a_warning(text: str, wording: Wording) -> None:
    wording(map(str, loaded(f"{text}\nrun: {{cmd: 'x {{{{ lr }}}}'}}").problems))


def test_a_list_of_commands_is_joined_as_ever_and_a_flag_is_one() -> None:
    done = loaded("""
inputs: [{name: fast, type: bool, is_flag: true}, {name: n, type: int}]
hptuning: {mapping: [{fast: true, n: 1}, {fast: false, n: 2}]}
run: {cmd: ["a {{ fast }}", "b {{ n }}"]}
""")
    assert [trial.command for trial in done.trials] == ["a --fast && b 1", "a  && b 2"]
    assert [trial.params for trial in done.trials] == [
        {"fast": "True", "n": "1"},
        {"fast": "False", "n": "2"},
    ]


def test_a_file_without_a_search_has_no_trials() -> None:
    assert loaded("run: {cmd: x}").trials == ()


SEARCH = "hptuning: {matrix: {lr: {values: [0.1, 0.2]}}}"


@pytest.mark.parametrize(
    "text",
    [
        f"{SEARCH}\nrun: {{cmd: 'x {{{{ lr }}}}'}}\nbatch: {{account: 'a{{{{ lr }}}}'}}",
        f"{SEARCH}\nrun: {{cmd: 'x {{{{ lr }}}}', prepare: {{cmd: 'y {{{{ lr }}}}'}}}}",
        f"{SEARCH}\nrun: {{cmd: 'x {{{{ lr }}}} {{{{ 1 / (lr - 0.2) }}}}'}}",
        f"{SEARCH}\ninputs: [{{name: lr, type: float, maximum: 0.15}}]\nrun: {{cmd: 'x {{{{ lr }}}}'}}",
        (
            "framework: pytorch\npytorch: {launch: torchrun}\n"
            "hptuning: {matrix: {n: {values: ['. v;', '']}}}\nrun: {cmd: '{{ n }} x'}"
        ),
        "hptuning: {matrix: {n: {values: [2, 4]}}}\nrun: {cmd: 'mpirun -np {{ n }} x'}",
        (
            "hptuning: {matrix: {lr: {uniform: [2, 1]}}, random_search: {n_experiments: 3}}\n"
            "run: {cmd: 'x {{ lr }}'}"
        ),
        f"{SEARCH}\nrun: {{cmd: 'x {{{{ lr }}}}'}}\nbatch: {{array: 0-3}}",
    ],
    ids=[
        "a key of the job",
        "a step of the job",
        "a template that fails",
        "an input",
        "a launch",
        "a number of processes",
        "a space",
        "an array",
    ],
)
def test_what_cannot_be_one_job_of_trials_is_an_error_with_its_place(text: str, wording: Wording) -> None:
    wording(problems(text))


def test_a_param_of_an_invalid_search_is_no_further_problem() -> None:
    text = "hptuning: {matrix: {lr: {range: 1}}}\nrun: {cmd: 'x {{ lr }}'}"
    assert len(problems(text)) == 1


def test_a_program_that_may_read_all_params_from_their_variable_is_a_warning(wording: Wording) -> None:
    done = loaded(f"{SEARCH}\nrun: {{cmd: x}}")
    wording(map(str, done.problems))
    assert [trial.variables["POLYAXON_PARAMS"] for trial in done.trials] == ['{"lr": 0.1}', '{"lr": 0.2}']


def test_settings_change_a_search() -> None:
    done = loaded(f"{SEARCH}\nrun: {{cmd: 'x {{{{ lr }}}}'}}", ("hptuning.matrix.lr.values", "[5]"))
    assert [trial.command for trial in done.trials] == ["x 5"]


def test_an_input_that_is_a_whole_number_has_whole_numbers_of_any_kind_of_values(wording: Wording) -> None:
    done = loaded("""
inputs: [{name: units, type: int}, {name: rate, type: float}]
hptuning: {matrix: {units: {linspace: [8, 16, 2]}, rate: {linspace: [0, 1, 2]}}}
run: {cmd: "x {{ units }} {{ rate }}"}
""")
    assert [trial.command for trial in done.trials] == ["x 8 0.0", "x 8 1.0", "x 16 0.0", "x 16 1.0"]
    text = "inputs: [{name: n, type: int}]\nhptuning: {matrix: {n: {linspace: [1, 2, 3]}}}"
    wording(problems(f"{text}\nrun: {{cmd: 'x {{{{ n }}}}'}}"))


def test_a_value_for_a_param_that_only_the_search_has_is_a_warning(wording: Wording) -> None:
    for search in ("matrix: {lr: {values: [1]}}", "mapping: [{lr: 1}]"):
        text = f"hptuning: {{{search}}}\nrun: {{cmd: 'x {{{{ lr }}}}'}}"
        done = load.load_experiment(source.parse(text, "e.yml"), params={"lr": "7"})
        assert [trial.command for trial in done.trials] == ["x 1"]
        wording(map(str, done.problems))


def test_problems_of_a_list_of_trials_are_located_there(wording: Wording) -> None:
    wording(problems("hptuning: {mapping: [{a b: 1, c: 2}]}\nrun: {cmd: 'x {{ c }}'}"))


def test_values_that_stand_alone_are_an_error_with_the_key_to_write(wording: Wording) -> None:
    text = "hptuning: {matrix: {lr: {values: [1]}}, random_search: 5}\nrun: {cmd: 'x {{ lr }}'}"
    wording(problems(text))
    wording(problems("hptuning: {matrix: {lr: [1]}}\nrun: {cmd: x}"))
    wording(problems("hptuning: {matrix: {lr: 5}}\nrun: {cmd: x}"))


def test_a_matrix_beside_a_list_of_trials_is_refused(wording: Wording) -> None:
    text = "hptuning: {matrix: {lr: {values: [1]}}, mapping: [{lr: 2}]}\nrun: {cmd: 'x {{ lr }}'}"
    wording(problems(text))


@pytest.mark.parametrize("name", ["True", "none", "not", "self"])
def test_a_param_with_a_name_that_has_a_meaning_in_templates_is_refused(name: str, wording: Wording) -> None:
    wording(
        problems(f"hptuning: {{matrix: {{'{name}': {{values: [7]}}}}}}\nrun: {{cmd: 'x {{{{ {name} }}}}'}}")
    )
