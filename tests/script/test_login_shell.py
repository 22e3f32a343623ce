"""What the login shell and a site's lines of setup bring: none of it breaks a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcdist.base.resources import template_folders
from hpcdist.site.model import Site
from tests.plans import changed
from tests.script.jobs import NO_CHANGE, ONE_PROCESS, started

LOCALS = sorted(
    {
        name
        for file in (template_folders()[-1] / "job").iterdir()
        for name in re.findall(r"(?<![-\w$])(?!hpcdist_)([a-z][a-z_]*)\+?=", file.read_text())
    }
)


def ran(
    folder: Path, machine: Site = ONE_PROCESS, environ: Mapping[str, str] = NO_CHANGE, cmd: str = "echo ran"
) -> tuple[int, str]:
    """Run a job; return its exit code, and what it printed below its first line."""
    with started(folder, machine, environ, run={"cmd": cmd}) as job:
        out, _ = job.communicate(timeout=60)
    return job.returncode, out.partition("\n")[2]


@pytest.mark.parametrize(
    "options",
    ["SHELLOPTS=" + name for name in ("errexit", "noclobber", "noglob", "nounset", "posix")]
    + ["BASHOPTS=" + name for name in ("failglob", "nocasematch", "nullglob", "xpg_echo")]
    + ["POSIXLY_CORRECT=1"],
)
def test_options_of_the_login_shell(tmp_path: Path, options: str) -> None:
    name, _, value = options.partition("=")
    assert ran(tmp_path, environ={name: value}) == (0, "ran\n")


@pytest.mark.parametrize("name", ["fail", "task", "begin", "end_all", "peers", "hosts"])
def test_functions_that_the_login_shell_exports(tmp_path: Path, name: str) -> None:
    assert ran(tmp_path, environ={f"BASH_FUNC_{name}%%": "() { echo another; }"}) == (0, "ran\n")


@pytest.mark.parametrize("name", ["over", "code", "pids", "left", "commands", "role", "value"])
def test_variables_that_the_script_has_too(tmp_path: Path, name: str) -> None:
    assert ran(tmp_path, environ={name: "1"}) == (0, "ran\n")


def test_a_job_in_a_job_has_no_variables_of_the_other(tmp_path: Path) -> None:
    names = ("HOSTFILE", "ENDED", "ROLE", "HEAD_ADDRESS", "NODES", "TRIAL", "PEERS_worker")
    outer = {f"HPCDIST_{name}": "/other" for name in names}
    assert ran(tmp_path, environ=outer, cmd="env | grep /other") == (
        1,
        "hpcdist: rank 0 on " + os.uname().nodename + " was the first to fail, with exit code 1\n",
    )


def test_variables_called_like_those_of_the_script_reach_the_program(tmp_path: Path) -> None:
    """Those of a line of ``task_setup``: it comes last."""
    lines = tuple(f"export {name}=keep" for name in LOCALS)
    code, out = ran(tmp_path, changed(ONE_PROCESS, task_setup=lines), cmd="env | grep =keep | sort")
    assert (code, out.splitlines()) == (0, sorted(f"{name}=keep" for name in LOCALS))


@pytest.mark.parametrize("key", ["setup", "task_setup"])
@pytest.mark.parametrize(
    "line",
    [
        "declare -x FOO=1",
        "typeset -x FOO=1; BAR() { local FOO=2; }; BAR",
        "cat >/dev/null <<EOF && export FOO=1\n\n$((1 + 1))\nEOF",
        "export FOO=1\nIFS=:",
        "set -euo pipefail; export FOO=1",
        "set -o posix; export FOO=1",
        "shopt -s failglob; export FOO=1",
        "export FOO=1; run() { :; }; start() { :; }; task() { :; }; fail() { :; }; hi() { :; }",
    ],
)
def test_setup_lines_set_variables_but_break_no_job(tmp_path: Path, key: str, line: str) -> None:
    assert ran(tmp_path, changed(ONE_PROCESS, **{key: (line,)}), cmd="echo $FOO") == (0, "1\n")


@pytest.mark.parametrize("key", ["setup", "task_setup"])
def test_a_comment_is_a_line_too(tmp_path: Path, key: str) -> None:
    assert ran(tmp_path, changed(ONE_PROCESS, **{key: ("# nothing", "")})) == (0, "ran\n")


def test_lines_of_task_setup_do_not_see_the_program_as_their_arguments(tmp_path: Path) -> None:
    machine = changed(ONE_PROCESS, task_setup=("echo $#; set -- a b; shift",))
    assert ran(tmp_path, machine) == (0, "0\nran\n")


@pytest.mark.parametrize(
    ("key", "line", "code", "says"),
    [
        ("setup", "exit 0", 86, "this script ended before its program had run; does a line of setup exit?"),
        ("setup", "exit 3", 3, ""),
        ("task_setup", "exit 0", 86, "a line of task_setup ended this task before its program had run"),
        ("task_setup", "return 0", 86, "a line of task_setup ended this task before its program had run"),
        ("task_setup", "exit 3", 3, "rank 0 on HOST was the first to fail, with exit code 3"),
    ],
)
def test_a_line_of_setup_that_ends_the_job_is_no_success(
    tmp_path: Path, key: str, line: str, code: int, says: str
) -> None:
    got, out = ran(tmp_path, changed(ONE_PROCESS, **{key: (line,)}))
    assert (got, "ran" in out.splitlines()) == (code, False)
    assert says in out.replace(os.uname().nodename, "HOST")
