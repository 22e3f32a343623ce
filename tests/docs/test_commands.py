"""Every command in the README and in ``docs/`` is run, with their files; batch systems are answered for."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from hpcdist.cli import VERBS, main
from tests.docs.pages import CHECKOUT, PAGES, block, blocks, prose, typed
from tests.plug_in import plugged_in

PROGRAMS: Final = (
    "hpcdist", "make", "pip", "pipx", "uv", "git", "spack", "export", "source", "python", "pytest", "mkdir",
    "until",
)  # fmt: skip
"""What a command of the pages begins with; those of other tools are not its to keep."""

ELSEWHERE: Final = {
    "pip install .": ("tests/test_wheel.py", "installs the wheel with pip, outside the tree"),
    "pipx install .": ("tests/test_wheel.py", "pip into an empty environment, which is what pipx does"),
    "uv tool install .": ("tests/test_wheel.py", "does it with the wheel"),
    "pip install --no-deps --target app .": ("tests/test_wheel.py", "makes such an archive"),
    "python -m zipapp app -m hpcdist.__main__:program -o hpcdist.pyz": ("tests/test_wheel.py", "and runs it"),
    "pip install '.[pyslurm]'": ("tests/standins/pyslurm", "what PyPI has fits no Slurm of the tests"),
    "pip install '.[mpi]'": ("tools/setup", "installs extras in this way"),
    "hpcdist submit first.yml --follow": ("tests/docs/test_commands.py", "a real test at the end runs it"),
    "source venv/bin/activate": ("tests/layers/frameworks/test_torchrun_start.py", "gives it a venv"),
    "python train.py --multirun lr=0.1,0.2,0.4": (
        "tests/hydra_plugins/test_hpcdist_launcher.py",
        "has Hydra",
    ),
    "hpcdist sites check NAME --measured": ("tests/cli/test_sites_measured.py", "has a job that measured"),
    **dict.fromkeys(
        (
            "python train.py",
            "source venv/bin/activate && python train.py",
            "source ~/miniforge3/etc/profile.d/conda.sh && conda activate torch && python train.py",
        ),
        ("tests/docs/test_first_week.py", "plans jobs with these commands"),
    ),
    "pip install '.[mlflow]'": ("tools/setup", "installs extras in this way"),
    "python -m benchmarks.scaling_studies": (
        "benchmarks/scaling_studies.py",
        "takes minutes, on a cluster of its own",
    ),
    **dict.fromkeys(
        ("hpcdist exec", "hpcdist exec JOB", "hpcdist exec COMMAND", "hpcdist exec JOB COMMAND..."),
        ("tests/cli/test_exec.py", "has a job that runs"),
    ),
    **dict.fromkeys(
        (
            "hpcdist shell",
            "hpcdist shell EXP",
            "hpcdist shell COMMAND",
            "hpcdist shell train.yml",
            "hpcdist shell train.yml -- python -m pytest",
            "hpcdist shell train.yml --set batch.walltime=30m",
        ),
        ("tests/slurm/test_shell.py", "has a terminal"),
    ),
    **dict.fromkeys(
        (
            "hpcdist submit notebook.yml",
            "hpcdist submit notebook.yml --follow",
            "hpcdist describe notebook-1",
            "hpcdist status notebook-1",
            "hpcdist cancel notebook-1",
        ),
        ("tests/services/test_browser.py", "has Jupyter"),
    ),
    **dict.fromkeys(
        ("hpcdist submit notebook.yml --on perlmutter", "hpcdist wait notebook-1"),
        ("tests/runs/remotes/test_tunnels.py", "has another machine"),
    ),
    **dict.fromkeys(
        (
            "hpcdist check diamond.yml",
            "hpcdist submit diamond.yml -p size=4",
            "hpcdist check examples/pipeline.yml",
            "hpcdist plan examples/pipeline.yml",
            "hpcdist submit examples/pipeline.yml",
            *(f"hpcdist {verb} diamond-1" for verb in ("wait", "status", "resume")),
            *(f"hpcdist {verb} digits-1" for verb in ("wait", "status", "resume", "cancel", "logs", "rm")),
            "hpcdist logs digits-1/small",
            "hpcdist resume digits-1/small -p lr=0.1",
        ),
        ("tests/slurm/test_pipelines.py", "has a batch system"),
    ),
    **dict.fromkeys(
        (
            "hpcdist submit hang.yml",
            "hpcdist debug hang-1",
            "hpcdist cancel hang-1",
            "hpcdist shell hang.yml",
        ),
        ("tests/slurm/test_tutorial.py", "has this file"),
    ),
    "hpcdist debug JOB": ("tests/cli/test_debug.py", "has a job that runs"),
    "hpcdist debug": ("tests/cli/test_debug.py", "has a job that runs"),
    "hpcdist debug train-1": ("tests/cli/test_debug.py", "has a job that runs"),
    "pip install '.[debug]'": ("pyproject.toml", "the extra is part of what tests need"),
    "hpcdist exec train-1 --rank 3 -- nvidia-smi": ("tests/cli/test_exec.py", "has such a job"),
    "hpcdist exec train-1 --node 1 -- bash": ("tests/cli/test_exec.py", "has such a job"),
    "hpcdist submit exp.yml --on perlmutter --set batch.code=snapshot --follow": (
        "tests/runs/remotes/test_over_ssh.py",
        "has another machine",
    ),
    "hpcdist outputs": ("tests/cli/test_outputs.py", "names runs"),
    "hpcdist outputs train-1": ("tests/cli/test_outputs.py", "has a run with outputs"),
    "hpcdist outputs train-1 --get 'model*' --get plots": (
        "tests/runs/remotes/test_outputs.py",
        "has a run on another machine",
    ),
    **dict.fromkeys(
        (
            "hpcdist plan far.yml --on far",
            "hpcdist submit far.yml --on far",
            *(f"hpcdist {verb} far-1" for verb in ("wait", "logs", "outputs")),
            "hpcdist outputs far-1 --get 'model*'",
        ),
        ("tests/runs/remotes/test_tutorial.py", "has another machine"),
    ),
    "hpcdist rehearse EXP": ("tests/cli/test_rehearse.py", "waits for a job that trains"),
    "hpcdist rehearse exp.yml --nodes 2 --minutes 15": (
        "tests/slurm/test_rehearse.py",
        "does it on two nodes",
    ),
    "hpcdist rehearse --report JOB": ("tests/cli/test_rehearse.py", "has a rehearsal"),
    "hpcdist resume JOB": ("tests/cli/test_resume.py", "gives it a run that has ended"),
    "hpcdist resume JOB --nodes 4": ("tests/slurm/test_restarts.py", "has a cluster"),
    "hpcdist logs JOB --attempt 2": ("tests/cli/test_resume.py", "gives it a run of three attempts"),
    "hpcdist logs JOB/3 --attempt 1": ("tests/cli/test_resume.py", "gives it a run of three attempts"),
    "hpcdist export": ("tests/cli/test_export.py", "gives it a run"),
    "hpcdist export JOB": ("tests/cli/test_export.py", "gives it a destination"),
    "hpcdist export train-1 --csv all.csv --tensorboard tb -o model.tar": (
        "tests/docs/test_export.py",
        "runs it",
    ),
    "hpcdist export train-1 --mlflow http://mlflow.example.org:5000": (
        "tests/docs/test_export.py",
        "has a server",
    ),
    "spack -e . concretize && spack -e . install": ("tests/test_spack.py", "holds the names against Spack's"),
    "spack env activate .": ("tests/test_spack.py", "there is no Spack here"),
    "make test": (".ci/run", "runs this"),
    "hpcdist compare --only-differing --sort -accuracy": ("tests/cli/test_compare.py", "sorts by its metric"),
    "hpcdist outputs --models --sort -accuracy": ("tests/cli/test_compare.py", "sorts by this metric"),
    "hpcdist report": ("tests/cli/test_report.py", "has runs to show"),
    "hpcdist report 'train-*' -o train.html": ("tests/cli/test_report.py", "has runs of this name"),
    "pip install '.[report]'": ("pyproject.toml", "the extra is part of what tests need"),
    **dict.fromkeys(
        (
            "hpcdist sweep status JOB",
            "hpcdist sweep best JOB",
            "hpcdist sweep stop JOB",
            "hpcdist sweep advance JOB",
            "hpcdist sweep advance JOB --wait",
            "hpcdist sweep advance JOB --by-job",
            "hpcdist sweep advance JOB --trials 50",
            "hpcdist sweep best JOB --sort accuracy --top 5",
        ),
        ("tests/slurm/test_sweeps.py", "has a search"),
    ),
    "hpcdist scale EXP": ("tests/cli/test_scale.py", "names numbers of nodes"),
    "hpcdist scale exp.yml --nodes 1,2,4,8 --repeat 3 --max-gpu-hours 40": (
        "tests/cli/test_scale.py",
        "has an experiment for this",
    ),
    "hpcdist scale exp-1-node-1 --plot scaling.html": ("tests/cli/test_scale.py", "has a study"),
    "hpcdist scale strong.yml --nodes 1,2,4 --strong --repeat 3 --dry-run": (
        "tests/docs/test_scaling.py",
        "has this file",
    ),
    "python -m tests.published mymachine": ("tests/site/test_published.py", "calls it with such a site"),
    **dict.fromkeys(
        ("hpcdist plan train.yml", "hpcdist submit train.yml --follow"),
        ("tests/docs/test_first_week.py", "has this file"),
    ),
    "hpcdist plan tune.yml": ("tests/docs/test_sweeps.py", "has this file"),
    "hpcdist check tune.yml": ("tests/docs/test_cost.py", "has this file"),
    "hpcdist plan two.yml --when": ("tests/slurm/test_starts.py", "asks a real Slurm about it"),
    "hpcdist plan seeds.yml": ("tests/docs/test_sweeps.py", "has this file"),
    "hpcdist rm": ("tests/cli/test_removal.py", "names runs, or gives it a time"),
    "hpcdist metrics train-1": ("tests/docs/test_metrics.py", "runs it with the page's own program"),
    "hpcdist doctor --job": ("tests/cli/test_doctor.py", "runs it on this machine"),
    "hpcdist doctor --job 4": ("tests/slurm/test_bandwidth.py", "has a slow node"),
    "hpcdist doctor --job --try NCCL_CROSS_NIC=0,1 --try 'UCX_TLS=rc,sm|tcp'": (
        "tests/slurm/test_bandwidth.py",
        "tries settings of Open MPI",
    ),
    "hpcdist doctor --job --gpus 1 --site odd.yaml": ("tests/slurm/test_doctor.py", "runs it on Slurm"),
}
"""What is not run here: the file that is nearest to it, and why."""

VENV: Final = Path(sys.executable).parents[1]
"""What stands for the clone's own ``.venv``."""

WORDS: Final = {
    "EXP": "resnet.yml",
    "exp.yml": "resnet.yml",
    "JOB": "resnet-1",
    "FORM": "toytrain",
    "<this repository>": str(CHECKOUT),
}
"""What stands for something; FILE and NAME are what the verb takes."""
TAKES: Final = {
    "metrics": {"NAME": "resnet-1"},
    "import": {"FILE": "toy.yml"},
    "doctor": {"FILE": "env.sh"},
    "sites check": {"FILE": "mycluster.yaml", "NAME": "perlmutter"},
    "sites show": {"NAME": "perlmutter"},
    "sites init": {"NAME": "here"},
}

ODD: Final = {"doctor": {0, 3}}
"""Verbs with an exit code of their own for what is odd, which a machine may be."""

ANSWERS: Final = {
    "sbatch": "echo 4711",
    "squeue": "true",
    "sacct": "echo '4711|COMPLETED|0:0|None'",
    "scancel": "true",
    "scontrol": f"cat {CHECKOUT}/tests/transcripts/slurm/${{3%s}}s.22.05.8.txt 2>/dev/null || true",
    "sinfo": "true",
}
"""A Slurm whose jobs have ended before anybody asks."""


def scripts() -> list[tuple[str, ...]]:
    """Return every command of the pages; those of one block, or of a tutorial, are run in order."""
    found = [script for page in PAGES for script in _scripts(page)]
    return [*filter(None, dict.fromkeys([*found, *((usage,) for usage in usages())]))]


def tiered() -> list[Any]:
    """Return them as params; ``extended`` are two of three, and those of other programs, such as pip."""
    return [
        script
        if place % 3 == 0 and all(command.startswith(("hpcdist ", "export ")) for command in script)
        else pytest.param(script, marks=pytest.mark.extended)
        for place, script in enumerate(scripts())
    ]


def _scripts(page: Path) -> Iterator[tuple[str, ...]]:
    """Yield the commands of a page."""
    shown = [tuple(typed(each.text)) for each in blocks(page)]
    parts = re.split(r"\n\s*\n|\n(?=[*-] |\|)", prose(page))
    spans = [" ".join(span.split()) for part in parts for span in re.findall(r"`([^`]+)`", part)]
    yield from [tuple(itertools.chain(*shown))] if page.parent.name == "tutorial" else shown
    programs = "|".join(PROGRAMS)
    yield from ((span,) for span in spans if re.match(rf"(?:[A-Z_]+=\S+ )?(?:{programs}) ", span))


def usages() -> Iterator[str]:
    """Yield each verb as its help shows it, with and without what may be left out."""
    context = click.Context(main)
    for name in VERBS:
        command = main.get_command(context, name)
        assert command is not None
        subcommands = dict(command.commands) if isinstance(command, click.Group) else {"": command}
        subcommands |= {"": command} if getattr(command, "invoke_without_command", False) else {}
        for below, each in subcommands.items():
            yield from _usages(f"hpcdist {name} {below}".rstrip(), each)


def _usages(verb: str, command: click.Command) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    if not any(argument.required for argument in arguments):
        yield verb
    for argument in arguments:
        word = argument.make_metavar(click.Context(command)).strip("[].")
        choices = argument.type.choices if isinstance(argument.type, click.Choice) else [word]
        yield from (f"{verb} {choice}" for choice in choices)


def filled(command: str) -> str:
    """Return the command with something for each word that stands for it."""
    verb = next((verb for verb in TAKES if command.startswith(f"hpcdist {verb}")), "")
    for word, value in (WORDS | TAKES.get(verb, {})).items():
        command = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", value, command)
    return command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder with the pages' files, and a Slurm that answers."""
    for name in [name for name in os.environ if name.startswith(("HPCDIST_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    programs, work = tmp_path / "bin", tmp_path / "work"
    for made in (programs, work):
        made.mkdir()
    for name, answer in ANSWERS.items():
        (programs / name).write_text(f"#!/bin/bash\n{answer}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    (work / ".venv").symlink_to(VENV)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.chdir(work)
    for name, example in {"resnet.yml": "experiment", "toy.yml": "foreign", "mycluster.yaml": "site"}.items():
        (work / name).write_text(block(example))
    (work / "job.sh").write_text(block("a job script"))
    (work / "env.sh").write_text("export NCCL_DEBUG=WARN\n")
    with plugged_in(tmp_path / "own", "importer", "toytrain", block("importer")):
        yield work


@pytest.mark.parametrize("script", tiered(), ids="; ".join)
def test_a_command_does_what_it_says(
    script: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in script:
        if command in ELSEWHERE:
            file, _ = ELSEWHERE[command]
            assert (CHECKOUT / file).exists()
        elif command.startswith("hpcdist ") and ">" not in command:
            _hpcdist(shlex.split(filled(command))[1:])
        elif command.startswith("export HPCDIST_"):
            monkeypatch.setenv(*command.removeprefix("export ").split("=", 1))
        elif "pytest " in command:
            words = ["--collect-only", "-q", *command.partition("pytest ")[2].split()]
            subprocess.run([sys.executable, "-m", "pytest", *words], cwd=CHECKOUT, check=True)
        elif command.startswith("make "):
            subprocess.run([*command.split(), "--dry-run"], cwd=CHECKOUT, check=True, capture_output=True)
        else:
            _bash(filled(command), folder)


def _hpcdist(words: Sequence[str]) -> None:
    if WORDS["JOB"] in words:
        assert CliRunner().invoke(main, ["submit", "resnet.yml"]).exit_code == 0
    done = CliRunner().invoke(main, words, prog_name="hpcdist")
    assert done.exit_code in ODD.get(words[0], {0}), done.output


def test_what_is_run_elsewhere_still_stands_there() -> None:
    assert ELSEWHERE.keys() <= {command for script in scripts() for command in script}


@pytest.mark.real
def test_make_demo_trains(tmp_path: Path) -> None:
    setup, submit = _recipe("demo")
    assert setup == "tools/setup demo"
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    assert "test accuracy" in _bash(f'export PATH="{VENV}/bin:$PATH"; {submit}', tmp_path)


@pytest.mark.extended
@pytest.mark.real
def test_the_first_experiment_runs_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(VENV)
    (tmp_path / "train.py").write_text(block("train"))
    said = _bash("\n".join(["set -e", *typed(block("first"))]), tmp_path).splitlines()
    assert sorted(line for line in said if "add up" in line) == block("first output").splitlines()
    assert (tmp_path / "runs/first-1").is_dir()


def _recipe(target: str) -> list[str]:
    """Return the commands of a target (an inner make would name its directory first)."""
    command = ["make", "--no-print-directory", "--dry-run", target]
    made = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return made.stdout.splitlines()


def _bash(script: str, folder: Path) -> str:
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
