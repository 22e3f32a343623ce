"""Options of Gradient in another file: ``paramsFile`` of a step, ``--optionsFile`` of a command line."""

from __future__ import annotations

import pathlib
import shlex

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.documents.tree import Document
from hpcdist.errors import ConfigError
from hpcdist.loading.load import Native, to_native
from tests.wording import Wording

OPTIONS = "name: own\nmachineType: C7\ncommand: python x.py\nexperimentEnv: {A: 1}\n"
CI = """\
version: 2
workflows:
  train:
    steps:
      - name: first
        command: experiment.run_single_node
        paramsFile: .ps_project/options.yml
"""
TWO = CI + "      - {name: second, command: experiment.run_single_node, paramsFile: other.yml}\n"


@pytest.fixture(autouse=True)
def _repository(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".ps_project"
    folder.mkdir()
    (tmp_path / ".git").mkdir()
    (folder / "options.yml").write_text(OPTIONS)
    monkeypatch.chdir(tmp_path)


def native(text: str, job: str = "") -> Native:
    return to_native(source.parse(text, ".ps_project/config.yaml"), job=job)


def errors(text: str, job: str = "") -> list[str]:
    try:
        return [str(problem) for problem in native(text, job).problems if problem.severity == "error"]
    except ConfigError as error:
        return [str(problem) for problem in error.problems]


EXPECTED = {
    "name": "own",
    "environment": {
        "env_vars": {"A": "1"},
        "resources": {"cpu": {"requests": 12}, "memory": {"requests": 30720}},
    },
    "run": {"cmd": "python x.py"},
}


def test_the_params_of_a_step_are_read_from_the_root_of_the_repository() -> None:
    found = native(CI)
    assert found.document.data == EXPECTED
    assert str(found.document.place(("run", "cmd"))) == ".ps_project/options.yml:3:10"
    assert "\n# .ps_project/options.yml:\n# name: own\n" in found.foreign.text
    assert native(TWO, "first").document.data == EXPECTED


def test_problems_have_the_place_in_the_file_of_params(wording: Wording) -> None:
    pathlib.Path(".ps_project/options.yml").write_text(OPTIONS + "commnd: x\n")
    wording([*errors(CI), *errors(TWO, "second"), *errors(CI + "        params: {name: a}\n")])


def test_options_of_a_command_line_take_precedence_over_those_of_its_file() -> None:
    line = "experiments run singlenode --optionsFile .ps_project/options.yml --name 'b c' --machineType C5"
    data = importers.from_command_line(shlex.split(line), "gradient")
    found = to_native(Document(data, "a command line of gradient"), importer="gradient")
    resources = {"cpu": {"requests": 4}, "memory": {"requests": 8192}}
    assert found.document.data == {
        **EXPECTED,
        "name": "b-c",
        "environment": {"env_vars": {"A": "1"}, "resources": resources},
    }


@pytest.mark.parametrize(
    "text",
    [
        "version: 2\nworkflows: {}\n",
        "version: 2\nworkflows: {a: {steps: [{paramsFile: 1}]}}\n",
        "version: 2\nworkflows: {a: {steps: [{paramsFile: [x]}, 3]}}\n",
        "version: 2\nworkflows: {a: {steps: [null, {paramsFile: ''}]}}\n",
    ],
)
def test_what_names_no_file_is_refused_as_before(text: str) -> None:
    assert all("cannot be read" not in error for error in errors(text))
    assert errors(text)
