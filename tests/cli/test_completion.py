"""TAB: what is offered where, that nothing there can fail, and that a real bash takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class

from hpcdist import importers
from hpcdist.cli import VERBS, completion, main
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.sites import SHIPPED

from .conftest import Hpcdist


def offered(*words: str) -> list[tuple[str, str]]:
    """Return what TAB offers for the last of these words, each with its type."""
    bash = get_completion_class("bash")(main, {}, "hpcdist", "_HPCDIST_COMPLETE")
    return [(item.type, item.value) for item in bash.get_completions([*words[:-1]], words[-1])]


def plain(values: Iterable[str]) -> list[tuple[str, str]]:
    return [("plain", value) for value in values]


def run(folder: Path, name: str) -> None:
    record = Record(name, "t", "local", "local", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "1")
    rundir.save(rundir.create(folder, name), record)


def test_verbs_and_their_options() -> None:
    assert offered("") == plain(name for name, verb in VERBS.items() if verb.group)
    assert offered("st") == plain(["status"])
    assert offered("--ver") == plain(["--version"])
    assert offered("submit", "--fo") == plain(["--follow"])
    assert offered("sites", "pa") == plain(["path"])
    assert offered("schema", "") == plain(["site", "experiment", "config"])


def test_sites(folder: Path) -> None:
    (folder / "sites" / "broken.yaml").write_text("name: [")
    sites = sorted(["toy", "broken", *SHIPPED])
    assert offered("render", "--site-path", "sites", "--site", "") == plain(sites)
    assert offered("render", "--site=vis") == plain(["vista"])
    assert offered("render", "--site", "perl") == plain(["perlmutter"])
    assert offered("sites", "show", "polar") == plain(["polaris"])
    assert offered("sites", "check", "./s") == [("file", "./s")]
    assert offered("doctor", "--site", "anv") == plain(["anvil"])


def test_runs(folder: Path) -> None:
    assert offered("logs", "") == [("dir", "")]
    run(folder / "runs", "resnet")
    run(folder / "runs", "resnet")
    run(folder / "runs", "digits")
    run(folder / "elsewhere", "other")
    (folder / "runs" / "digits-1" / "record.json").write_text("{")
    assert offered("logs", "") == plain(["resnet-2", "resnet-1"])
    assert offered("status", "resnet-1", "resnet-2") == plain(["resnet-2"])
    assert offered("cancel", "--runs-dir", "elsewhere", "o") == plain(["other-1"])
    assert offered("wait", "--runs-dir", "el") == [("dir", "el")]


def test_files_and_formats() -> None:
    assert offered("submit", "ex") == [("file", "ex")]
    assert offered("import", "job.yml", "-o", "") == [("file", "")]
    assert offered("import", "--from", "") == plain(importers.registry.names())
    assert offered("import", "--from", "k") == plain(["kubeflow"])


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense", "--"),
        ("sites", "nonsense", "x"),
        ("submit", "-p", "x", "--site-path", "nowhere", "--site", "zz"),
        ("status", "--runs-dir", "/proc/1/nowhere", "x"),
        ("schema", "nonsense", "x"),
    ],
)
def test_completion_of_invalid_lines(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert {kind for kind, _ in offered(*words)} <= {"plain", "file", "dir"}
    assert capfd.readouterr() == ("", "")


def test_errors_complete_to_nothing() -> None:
    def broken(ctx: click.Context) -> Iterable[str]:
        raise ValueError(ctx)

    verb = main.get_command(click.Context(main), "logs")
    assert verb is not None
    assert completion._names(broken)(click.Context(main), verb.params[0], "x") == []


REGISTERED = {
    "bash": "    complete -o nosort -F _hpcdist_completion hpcdist\n",
    "zsh": "    compdef _hpcdist_completion hpcdist\n",
    "fish": 'complete --no-files --command hpcdist --arguments "(_hpcdist_completion)";\n',
}


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script(shell: str, hpcdist: Hpcdist) -> None:
    result = hpcdist("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert REGISTERED[shell] in result.out
    assert f"_HPCDIST_COMPLETE={shell}_complete" in result.out


IN_BASH = """\
source <(hpcdist completion bash)
complete -p hpcdist
compopt() { echo compopt "$@"; }  # the builtin wants somebody at a keyboard
ask() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _hpcdist_completion hpcdist
  echo "$*:" "${COMPREPLY[@]}"
}
ask hpcdist su
ask hpcdist logs res
ask hpcdist render --site-path sites --site to
ask hpcdist check e
ask hpcdist nonsense --
"""

BASH_SAYS = """\
complete -o nosort -F _hpcdist_completion hpcdist
hpcdist su: submit
hpcdist logs res: resnet-1
hpcdist render --site-path sites --site to: toy
compopt -o default
hpcdist check e:
hpcdist nonsense --: --version --debug --help
"""


def test_in_a_real_bash(folder: Path) -> None:
    run(folder / "runs", "resnet")
    (folder / "sites" / "tobroken.txt").touch()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", IN_BASH], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == (BASH_SAYS, "")
