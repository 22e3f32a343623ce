"""Commands that bash does not parse, by the bash of this machine."""

from __future__ import annotations

from hpcdist.base.shell import Shell
from hpcdist.loading.bash_syntax import problems_of
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
    prepare, worker = problems_of(ODD, Shell())
    assert worker.path == ("environment", "replicas", "default_worker", "cmd")
    assert (prepare.severity, worker.severity) == ("warning", "warning")
    wording(str(prepare))


def test_nothing_is_known_without_bash() -> None:
    assert [*problems_of(ODD, FakeShell([(("bash",), MISSING)]))] == []
