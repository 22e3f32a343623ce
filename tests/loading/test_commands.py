"""Commands that the bash of this machine does not parse, or whose program is not there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.shell import Shell
from hpcdist.loading.commands import absent, unparsed
from hpcdist.testing import MISSING, FakeShell
from tests.experiments import experiment
from tests.wording import Wording

ODD = experiment(
    run={
        "cmd": "echo a",
        "prepare": {"cmd": "if true; then"},
        "beside": [{"cmd": "shopt -s extglob; ls !(a)"}],
    },
    environment={"replicas": {"n_workers": 1, "default_worker": {"cmd": "echo 'a\nb"}}},
)


def test_commands_that_bash_does_not_parse(wording: Wording) -> None:
    prepare, worker = unparsed(ODD, Shell())
    assert worker.path == ("environment", "replicas", "default_worker", "cmd")
    assert (prepare.severity, worker.severity) == ("warning", "warning")
    wording(str(prepare))


def test_nothing_is_known_without_bash() -> None:
    assert [*unparsed(ODD, FakeShell([(("bash",), MISSING)]))] == []


HERE = "in {}, where the job starts"


def said(folder: Path, command: str, **data: Any) -> list[str]:
    return [str(one) for one in absent(experiment(run={"cmd": command}, **data), folder)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "run.sh", "ready.sh"):
        (tmp_path / name).write_text("")
    (tmp_path / "ready.sh").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("python trian.py --lr 1", f"there is no trian.py {HERE}; did you mean 'train.py'?"),
        ("torchrun --nproc_per_node 2 tran.py", f"there is no tran.py {HERE}; did you mean 'train.py'?"),
        ("source venv/bin/activate\npython train.py", f"there is no venv/bin/activate {HERE}"),
        ("train.py --lr 1", "train.py is not on PATH, where bash looks; write `python train.py`"),
        ("./run.sh", "./run.sh is not executable; write `bash run.sh`"),
        ("bash other.sh", f"there is no other.sh {HERE}"),
    ],
)  # fmt: skip
def test_what_is_not_there(folder: Path, command: str, what: str) -> None:
    assert said(folder, command) == [f"run.cmd: {what.format(folder)}"]


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "./ready.sh",
        "python -m pkg.train",
        "python -c 'x.py'",
        "python $DIR/train.py",
        "python /other/train.py",
        "cd work; python absent.py",
        "git clone x; python x/absent.py",
        "module load pkg; tool train.py",
        "torchrun $ARGS absent.py",
    ],
)
def test_what_may_be_there(folder: Path, command: str) -> None:
    assert said(folder, command) == []


@pytest.mark.parametrize("data", [{"build": {"image": "i"}}, {"batch": {"code": "git"}}])
def test_programs_elsewhere(folder: Path, data: dict[str, Any]) -> None:
    assert said(folder, "python absent.py", **data) == []


def test_python3_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(shutil.which("python3") or "")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert said(folder, "python train.py") == [
        "run.cmd: there is no `python` on PATH here; write `python3`, or load what has it"
    ]
