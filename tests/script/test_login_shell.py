"""What the login shell and a site's lines of setup bring, by a real bash: none of it breaks a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcdist.host.resources import template_folders
from hpcdist.script.renderer import render_job, runtime
from hpcdist.site.model import Site
from tests.plans import changed, planned
from tests.script.jobs import NO_CHANGE, ONE_PROCESS, started
from tests.sites import shipped_site

LOCALS = sorted(
    {
        word.partition("=")[0]
        for line in re.findall(r"^ *local (?:-\w+ )?(.*)$", runtime(template_folders()), re.MULTILINE)
        for word in line.split()
        if re.fullmatch(r"(?!hpcdist_)[a-z_]+(=.*)?", word)
    }
    | {"code", "status", "try"}
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
    ["SHELLOPTS=" + name for name in ("errexit", "keyword", "noclobber", "noglob", "nounset", "posix")]
    + ["BASHOPTS=" + name for name in ("failglob", "nocasematch", "nullglob", "xpg_echo")]
    + ["POSIXLY_CORRECT=1"],
)
def test_options_of_the_login_shell(tmp_path: Path, options: str) -> None:
    name, _, value = options.partition("=")
    assert ran(tmp_path, environ={name: value}) == (0, "ran\n")


@pytest.mark.parametrize("name", ["setup", "task_setup", "fail", "run", "task", "main"])
def test_functions_that_the_login_shell_exports(tmp_path: Path, name: str) -> None:
    assert ran(tmp_path, environ={f"BASH_FUNC_{name}%%": "() { echo another; }"}) == (0, "ran\n")


@pytest.mark.parametrize("name", ["status", "program", "told_to_end", "ended_by", "nodes", "changed"])
def test_variables_of_another_job(tmp_path: Path, name: str) -> None:
    assert ran(tmp_path, environ={f"hpcdist_{name}": "0"}) == (0, "ran\n")


def test_a_job_in_a_job_has_no_hostfile_of_the_other(tmp_path: Path) -> None:
    name = "HPCDIST_" + "HOSTFILE"  # where the command names it, the job has one
    outer = {name: "/other/hostfile", "HPCDIST_ENDED": "/other/ended"}
    assert ran(tmp_path, environ=outer, cmd="env | grep /other") == (
        1,
        "hpcdist: rank 0 on " + os.uname().nodename + " was the first to fail, with exit code 1\n",
    )


@pytest.mark.parametrize("source", ["login", "setup", "task_setup"])
def test_variables_called_like_those_of_the_runtime_reach_the_program(tmp_path: Path, source: str) -> None:
    lines = tuple(f"export {name}=keep" for name in LOCALS)
    machine = ONE_PROCESS if source == "login" else changed(ONE_PROCESS, **{source: lines})
    environ = dict.fromkeys(LOCALS, "keep") if source == "login" else {}
    code, out = ran(tmp_path, machine, environ, cmd="env | grep =keep | sort")
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


@pytest.mark.parametrize(("line", "code"), [("exit 0", 86), ("return 0", 86), ("exit 3", 3)])
def test_a_line_of_task_setup_that_ends_the_task_is_no_success(tmp_path: Path, line: str, code: int) -> None:
    got, out = ran(tmp_path, changed(ONE_PROCESS, task_setup=(line,)))
    assert got == code
    assert out.endswith(
        f": a line of task_setup ended this task before its program had run (exit code {code})\n"
    )


@pytest.mark.parametrize(
    ("array", "setting"), [("7%2", "7"), ("5-5", "5"), ("3,3", "3"), ("0-3%2", "0-3%2"), ("0", "0")]
)
def test_an_array_of_one_element_is_its_number(array: str, setting: str) -> None:
    script = render_job(planned(shipped_site("pbs"), batch={"array": array}))
    assert f"[array]={setting}" in script.split()


def test_a_hostfile_for_a_line_of_task_setup() -> None:
    data: dict[str, Any] = {"task_setup": ('export LIST="$HPCDIST_HOSTFILE"',)}
    assert "[hostfile]=" in render_job(planned(changed(ONE_PROCESS, **data)))
