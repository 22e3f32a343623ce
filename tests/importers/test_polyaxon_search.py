"""Searches of each generation of Polyaxon 0.x become one section."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source


def read(text: str) -> tuple[Any, list[str]]:
    document = source.parse(text, "p.yml")
    imported = importers.read(document.data, "polyaxon")
    return imported.data, [str(document.locate(problem)) for problem in imported.remarks]


LR = {"lr": {"values": [0.1, 0.2]}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hptuning: {matrix: {lr: {values: [0.1, 0.2]}}, concurrency: 2}", {"matrix": LR, "concurrency": 2}),
        ("matrix: {lr: {values: [0.1, 0.2]}}\nconcurrency: 2", {"matrix": LR, "concurrency": 2}),
        (
            (
                "settings: {matrix: {lr: {values: [0.1, 0.2]}}, concurrent_experiments: 2,"
                " search_method: Random, n_experiments: 3}"
            ),
            {"matrix": LR, "concurrency": 2, "random_search": {"n_experiments": 3}},
        ),
        (
            "settings: {matrix: {lr: {values: [0.1, 0.2]}}, search_method: sequential}",
            {"matrix": LR, "grid_search": {}},
        ),
        (
            "settings: {matrix: {lr: {values: [0.1, 0.2]}}, random_search: {n_experiments: 3}}",
            {"matrix": LR, "random_search": {"n_experiments": 3}},
        ),
        (
            (
                "hptuning: {matrix: {lr: {values: [0.1, 0.2]}}, hyperband: {max_iter: 9, eta: 3,"
                " resource: {name: n, type: INT}, metric: {name: loss, optimization: Minimize}}}"
            ),
            {
                "matrix": LR,
                "hyperband": {
                    "eta": 3,
                    "resource": {"name": "n", "type": "int"},
                    "metric": {"name": "loss", "optimization": "minimize"},
                    "max_iterations": 9,
                },
            },
        ),
        (
            (
                "settings: {matrix: {lr: {values: [0.1, 0.2]}}, early_stopping: [{metric: a, value: 0.9},"
                " {metric: b, value: 1, higher: true}, {metric: c, value: 2, higher: False, policy: ALL}]}"
            ),
            {
                "matrix": LR,
                "early_stopping": [
                    {"metric": "a", "value": 0.9},
                    {"metric": "b", "value": 1, "optimization": "maximize"},
                    {"metric": "c", "value": 2, "optimization": "minimize"},
                ],
            },
        ),
        (
            "hptuning: {matrix: {kind: {values: [SGD, Adam]}}}",
            {"matrix": {"kind": {"values": ["SGD", "Adam"]}}},
        ),
    ],
)
def test_a_search_is_one_section_with_the_names_of_later_versions(text: str, expected: object) -> None:
    data, remarks = read(f"kind: group\n{text}\nrun: {{cmd: 'x {{{{ lr }}}}'}}")
    assert (data, remarks) == ({"hptuning": expected, "run": {"cmd": "x {{ lr }}"}}, [])


def test_a_key_in_two_places_is_an_error() -> None:
    _, remarks = read("hptuning: {matrix: {a: {values: [1]}}}\nsettings: {matrix: {}}\nrun: {cmd: x}")
    assert remarks == [
        (
            "p.yml:2:12: settings.matrix: `settings.matrix` and `hptuning.matrix` are the same; "
            "keep `hptuning.matrix`"
        )
    ]


@pytest.mark.parametrize("section", ["matrix: {", "hptuning: {matrix: {"])
def test_a_matrix_of_later_versions_is_refused_in_a_file_of_earlier_ones(section: str) -> None:
    end = "}" * section.count("{")
    _, remarks = read(
        f"{section}kind: grid, params: {{lr: {{kind: choice, value: [1]}}}}{end}\nrun: {{cmd: x}}"
    )
    assert [remark.partition(": ")[2] for remark in remarks] == [
        (
            f"{section.rstrip('{').rstrip(': ').replace(': {', '.')}: "
            "a matrix with a `kind` is one of Polyaxon 1 and 2, and this is not a Polyaxon 1 or 2 file; "
            "write the params as `matrix: {lr: {values: [1, 2]}}`, or `kind: operation` with a `component`"
        )
    ]


@pytest.mark.parametrize("number", ["", ", n_experiments: null"])
@pytest.mark.parametrize("method", ["RANDOM", "random", "random_search"])
def test_a_random_search_without_a_number_is_all_trials(method: str, number: str) -> None:
    text = f"settings: {{matrix: {{lr: {{values: [0.1, 0.2]}}}}, search_method: {method}{number}}}"
    data, remarks = read(f"{text}\nrun: {{cmd: 'x {{{{ lr }}}}'}}")
    assert (data["hptuning"], remarks) == (
        {"matrix": LR, "grid_search": {}},
        [
            (
                "p.yml:1:63: settings.search_method: a random search without `n_experiments` has all trials "
                "of its matrix; write `random_search: {n_experiments: 20}` for some of them"
            )
        ],
    )


def test_a_random_search_of_a_distribution_needs_a_number() -> None:
    data, remarks = read("settings: {matrix: {lr: {uniform: [0, 1]}}, search_method: RANDOM}\nrun: {cmd: x}")
    assert (data["hptuning"]["random_search"], remarks) == ({}, [])


def test_words_of_early_stopping_that_do_not_fit() -> None:
    stop = (
        "early_stopping: [{metric: a, higher: true, optimization: maximize}, {metric: b, policy: experiment}]"
    )
    data, remarks = read(f"hptuning: {{matrix: {{lr: {{values: [0.1, 0.2]}}}}, {stop}}}\nrun: {{cmd: x}}")
    assert data["hptuning"]["early_stopping"] == [
        {"metric": "a", "optimization": "maximize"},
        {"metric": "b"},
    ]
    assert remarks == [
        (
            "p.yml:1:85: hptuning.early_stopping[0].higher: `higher` and `optimization` are the same; "
            "keep `optimization`"
        ),
        (
            "p.yml:1:136: hptuning.early_stopping[1].policy: it ends the search, and not the trial alone; "
            "write the condition in the program"
        ),
    ]


def test_logging_of_a_search_is_that_of_the_experiment() -> None:
    text = "hptuning: {logging: {level: INFO}, matrix: {lr: {values: [0.1, 0.2]}}}\nrun: {cmd: x}"
    assert read(text) == ({"hptuning": {"matrix": LR}, "logging": {"level": "INFO"}, "run": {"cmd": "x"}}, [])
    _, remarks = read("logging: {level: DEBUG}\n" + text)
    assert remarks == [
        "p.yml:2:12: hptuning.logging: `hptuning.logging` and `logging` are the same; keep `logging`"
    ]
