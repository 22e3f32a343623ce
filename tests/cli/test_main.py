"""The group of verbs: what it imports, how it ends, what it says when something breaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hpcdist import __version__
from hpcdist.base.errors import PlanError, Problem, SchedulerError
from hpcdist.cli import RENAMED, VERBS, main
from hpcdist.cli.messages import error_boundary, one_line
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.docs.pages import CHECKOUT
from tests.slurm.process import until
from tests.wording import Wording

from .conftest import Hpcdist, argv, run_real

HELP = """\
Usage: hpcdist [OPTIONS] VERB ...

  Run one experiment file as a batch job on any supercomputer.

Options:
  --version   Show the version and exit.
  --debug     Print the Python traceback of errors.
  -h, --help  Show this message and exit.

Write:
  init    Write a first experiment file for this machine.
  import  Convert a job script or a job file into an experiment.
  check   Check an experiment for problems.
  plan    Show which tasks run on which nodes, and why.
  render  Print the job script.

Run:
  submit    Submit an experiment as a batch job.
  shell     Open a shell on the first node of an allocation.
  rehearse  End a small run on purpose, and check that it resumes.
  scale     Run an experiment on several numbers of nodes, and report on it.
  resume    Resume a run that ended before its training was finished.
  restart   Submit the experiment of a run again, as a new run.
  cancel    Cancel jobs.

Watch:
  status    Show the state of jobs.
  describe  Show the details of a job.
  logs      Print the output of a job.
  wait      Wait for jobs to end, and exit with their exit code.
  exec      Run a command on a node of a running job.
  debug     Show where the ranks of a running job are.

Compare:
  metrics  Show the metrics of a run.
  compare  Compare the params and last metrics of runs.
  sweep    Show a search and its best trials; stop it, or add trials.
  report   Write a page about runs, for a browser.

Keep:
  outputs  List the files of a run's outputs, with the recorded hashes.
  export   Hand on runs: MLflow, TensorBoard, CSV, or an archive.
  rm       Remove runs whose jobs have ended.

Machine:
  doctor  Check this machine for problems.
  sites   List, show, detect, check and create site files.
"""


@pytest.fixture
def real() -> Hpcdist:
    """Run a command line as its user does."""
    return run_real


def test_help(real: Hpcdist) -> None:
    result = real("--help")
    assert (result.code, result.out, result.err) == (0, HELP, "")


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_answers_with_the_new_one(old: str, new: str, hpcdist: Hpcdist) -> None:
    result = hpcdist(old)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"there is no verb '{old}'; use `hpcdist {new}`\n")
    verb, option, *_ = new.split()
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    assert option in {name for param in command.params for name in param.opts}


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_verbs_matches_their_help(verb: str, hpcdist: Hpcdist) -> None:
    context = click.Context(main)
    command = main.get_command(context, verb)
    assert command is not None
    assert command.help is not None
    assert command.help.splitlines()[0] == VERBS[verb].text
    result = hpcdist(verb, "--help")
    assert result.code == 0
    assert VERBS[verb].text in result.out
    most = 15 if verb == "submit" else 14  # it alone has --as-is
    assert sum(isinstance(param, click.Option) for param in command.params) <= most


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["status"], "Usage: hpcdist status [OPTIONS] [JOB...]"),
        (["wait"], "Usage: hpcdist wait [OPTIONS] JOB..."),
        (["logs"], "Usage: hpcdist logs [OPTIONS] JOB"),
    ],
)
def test_optional_arguments_are_in_brackets(words: list[str], usage: str, hpcdist: Hpcdist) -> None:
    assert hpcdist(*words, "--help").out.splitlines()[0] == usage


@pytest.mark.parametrize("words", [[], ["sites"]])
def test_no_line_of_a_help_is_cut(words: list[str], hpcdist: Hpcdist) -> None:
    assert not [line for line in hpcdist(*words, "--help").out.splitlines()[1:] if line.endswith("...")]


def test_version(hpcdist: Hpcdist) -> None:
    assert hpcdist("--version").out == f"hpcdist, version {__version__}\n"


def imported_by(*words: str) -> set[str]:
    """Return every module that a fresh process has imported when this command is over."""
    program = (
        "import sys\nfrom hpcdist.cli import main\ntry: main(sys.argv[1:], 'hpcdist')\n"
        "except SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


def test_an_offline_status_imports_neither_models_nor_tracking(folder: Path) -> None:
    record = Record("ranks", "t", "local", "local", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "1")
    rundir.save(rundir.create(folder / "runs", "ranks"), record)
    assert not {"yaml", "hpcdist.tracking", "hpcdist.runs.job_states", "subprocess"} & imported_by(
        "status", "--offline"
    )


@pytest.mark.parametrize("verb", ["describe", "wait", "cancel"])
def test_what_is_asked_of_a_job_needs_no_models(verb: str) -> None:
    assert not {"yaml", "jinja2", "hpcdist.plan.model"} & imported_by(verb, "nothing-1")


def test_help_imports_no_verb() -> None:
    modules = imported_by("--help")
    assert "hpcdist.cli" in modules
    assert not {f"hpcdist.cli.{verb.module}" for verb in VERBS.values()} & modules
    assert (
        not {"dataclasses", "difflib", "msgspec", "jinja2", "pathlib", "yaml", "rich", "subprocess"} & modules
    )


STATUS_NEEDS_NONE_OF = {
    *(
        "dataclasses",
        "difflib",
        "hashlib",
        "jinja2",
        "rich",
        "shutil",
        "tempfile",
        "traceback",
        "yaml",
    ),
    *(
        "hpcdist.base.fields",
        "hpcdist.loading.load",
        "hpcdist.experiment.model",
        "hpcdist.plan.model",
        "hpcdist.planner.make_plan",
        "hpcdist.site.model",
    ),
}


def test_status_imports_no_planner() -> None:
    modules = imported_by("status")
    assert "hpcdist.runs.rundir" in modules
    assert not {"json", "hpcdist.schedulers.local", *STATUS_NEEDS_NONE_OF} & modules
    assert not {"subprocess", "hpcdist.runs.job_states", "hpcdist.base.shell"} & modules  # there is no job


@pytest.mark.parametrize("site", ["local", "slurm"])
def test_status_of_runs_imports_their_scheduler_and_nothing_of_plans(site: str, folder: Path) -> None:
    record = Record("ranks", "t", site, site, "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "1")
    rundir.save(rundir.create(folder / "runs", "ranks"), record)
    modules = imported_by("status")
    assert f"hpcdist.schedulers.{site}" in modules
    assert not STATUS_NEEDS_NONE_OF & modules
    assert (
        not {"hpcdist.runs.submission", "hpcdist.runs.waiting", "hpcdist.schedulers.slurm.reader"} & modules
    )
    assert site == "slurm" or "hpcdist.schedulers.slurm" not in modules


def test_render_starts_no_process() -> None:
    modules = imported_by("render", "ranks.yml")
    assert "hpcdist.planner.make_plan" in modules
    assert (
        not {"hpcdist.runs.submission", "hpcdist.runs.rundir", "hpcdist.base.shell", "rich", "subprocess"}
        & modules
    )
    assert not {"dataclasses", "difflib", "email", "importlib.metadata", "socket", "traceback"} & modules
    assert not {"hpcdist.planner.alternatives", "hpcdist.importers.job"} & modules  # nothing is wrong


@pytest.mark.parametrize(
    "words",
    [
        ["sumbit"],
        ["submit"],
        ["status", "--nope"],
        ["check", "ranks.yml", "-p", "lr"],
        ["check", "ranks.yml", "--set", "=3"],
        ["check", "ranks.yml", "--site-path", "nowhere"],
        ["submit", "ranks.yml", "--follow", "--json"],
        ["logs", "ranks-1", "-f", "--json"],
        ["logs"],
        ["cancel"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_exit_code_2(words: list[str], hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist(*words)
    assert (result.code, result.out) == (2, "")
    wording(result.err)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PlanError(Problem("too many", ("a", 0), "take fewer")), 3),
        (SchedulerError("sbatch: one\nsbatch: two\n"), 5),
        (FileExistsError(17, "File exists", "x.yml"), 2),
        (FileNotFoundError(2, "No such file or directory"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (KeyError("x"), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_exception_becomes_a_message_and_an_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    with click.Context(main), pytest.raises(click.exceptions.Exit) as caught, error_boundary(debug=False):
        raise error
    assert caught.value.exit_code == code
    wording(capsys.readouterr().err)


def test_debug_prints_the_traceback(real: Hpcdist, monkeypatch: pytest.MonkeyPatch) -> None:
    last = "error: nope.yml: there is no such file; known: ranks.yml\n"
    assert real("check", "nope.yml").err == last
    assert real("--debug", "check", "nope.yml").err.startswith("Traceback (most recent call last):\n")
    monkeypatch.setenv("HPCDIST_DEBUG", "1")
    result = real("check", "nope.yml")
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert result.err.endswith(last)


def test_one_line_escapes_control_characters() -> None:
    assert one_line("a\x1b[31m\n\n  b\tc") == "a\\x1b[31m | b\\x09c"


def test_a_closed_pipe_exits_silently() -> None:
    with subprocess.Popen(
        argv(["render", "ranks.yml"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_a_full_disk_is_reported(folder: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            argv(["render", str(folder / "ranks.yml")]),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert done.stderr == b"error: standard output cannot be written: No space left on device\n"
    assert done.returncode == 74


@pytest.mark.extended
@pytest.mark.parametrize(
    ("words", "last"),
    [
        (
            ["logs", "ranks-1", "-f"],
            "note: the job keeps running; `hpcdist logs ranks-1 -f` follows it again\n",
        ),
        (["wait", "ranks-1"], "note: not cancelled: ranks-1\n"),
    ],
)
def test_ctrl_c_leaves_the_job_alone(
    words: list[str], last: str, real: Hpcdist, folder: Path, ctrl_c: None
) -> None:
    """It comes while the job's state is queried, by a shell that calls this ``uname`` first."""
    del ctrl_c
    real("submit", "ranks.yml", "--set", "run.cmd=exec sleep 60")
    (folder / "uname").write_text("#!/bin/sh\n: >queried\nexec sleep 60\n")
    (folder / "uname").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv(words), env=environment, stdout=subprocess.DEVNULL, stderr=pipe, text=True
    ) as process:
        until((folder / "queried").exists, "it to query the job's state")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, last)
    assert "running" in real("status").out
    assert real("cancel", "ranks-1").code == 0
    assert real("wait", "ranks-1").code == 143


PROGRAMS = (("-m", "hpcdist"), ("-c", "from hpcdist.__main__ import program; program()"))
"""How Python starts the command line, the second as the script that pip installs."""


@pytest.mark.parametrize("words", PROGRAMS, ids=["-m", "script"])
def test_ctrl_c_while_python_imports_is_an_exit_code(
    words: tuple[str, str], tmp_path: Path, ctrl_c: None
) -> None:
    del ctrl_c
    (tmp_path / "click.py").write_text("import time\nopen('begun', 'w').close()\ntime.sleep(60)\n")
    paths = os.pathsep.join(map(str, (tmp_path, CHECKOUT)))
    with subprocess.Popen(
        [sys.executable, *words, "status"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        until((tmp_path / "begun").exists, "it to import click")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, "")


@pytest.mark.parametrize("words", PROGRAMS, ids=["-m", "script"])
def test_however_it_is_started_it_is_the_command_line(words: tuple[str, str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, *words, "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hpcdist, version {__version__}\n"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let processes that are started here obey SIGINT: those of `pytest &` would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
