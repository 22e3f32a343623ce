"""Options of Gradient in another file: ``--optionsFile`` of a command line."""

from __future__ import annotations

import pathlib
import shlex

import pytest

from hpcdist import importers
from hpcdist.base.tree import Document
from hpcdist.loading.load import to_native

OPTIONS = "name: own\nmachineType: C7\ncommand: python x.py\nexperimentEnv: {A: 1}\n"


@pytest.fixture(autouse=True)
def _repository(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".ps_project"
    folder.mkdir()
    (tmp_path / ".git").mkdir()
    (folder / "options.yml").write_text(OPTIONS)
    monkeypatch.chdir(tmp_path)


EXPECTED = {
    "name": "own",
    "environment": {
        "env_vars": {"A": "1"},
        "resources": {"cpu": {"requests": 12}, "memory": {"requests": 30720}},
    },
    "run": {"cmd": "python x.py"},
}


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
