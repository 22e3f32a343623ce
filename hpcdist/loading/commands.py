"""Commands that would fail: those that bash does not parse, and those whose program is not there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hpcdist.base import errors
from hpcdist.base.command import Command, Runner
from hpcdist.base.errors import Problem, did_you_mean
from hpcdist.experiment.launch_line import launches_of
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import own_commands
from hpcdist.experiment.shell_words import is_computed, unquoted

# --- Commands that bash does not parse, by ``bash -n``, which runs nothing of them

_WHERE = re.compile(r"bash: (line \d+: .*)")


def unparsed(experiment: Experiment, runner: Runner) -> Iterator[Problem]:
    """Yield a warning for each command that the bash of this machine does not parse; none without one.

    It is no error, as the bash of the nodes may be newer.
    """
    for path, text in _commands(experiment):
        done = runner.run(Command(("bash", "-O", "extglob", "-n"), stdin=f"{text}\n", timeout=10))
        found = _WHERE.match(done.stderr)
        if found and not (done.ok or done.missing or done.timed_out):
            message = f"bash does not parse this command: {found[1]}"
            yield Problem(message, path, "correct it, or the job fails", "warning")


def _commands(experiment: Experiment) -> Iterator[tuple[errors.Path, str]]:
    if experiment.run.cmd is not None:
        yield ("run", "cmd"), experiment.run.command
    for path, step in experiment.run.steps:
        yield ("run", *path, "cmd"), step.command
    for path, (_, text) in own_commands(experiment).items():
        yield path, text


# --- Programs that are not there
#
# Only plain commands are looked at, in the folder where the job starts: modules, images, earlier commands
# and copies of the code may bring anything else.

_CMD: Final[errors.Path] = ("run", "cmd")
_SETS_UP: Final = frozenset({"", "source", ".", "export", "ulimit", "set", "module", "ml", "conda", "echo"})
_PYTHON: Final = re.compile(r"python[\d.]*")
_PROGRAM: Final = re.compile(r"[\w.+-][\w./+-]*\.(?:py|sh|bash|ipynb)")
_MOST: Final = 1000
"""The most files of a folder among which a similar name is looked for."""


def absent(experiment: Experiment, folder: Path) -> Iterator[Problem]:
    """Yield a warning for a program that is not in this folder, or cannot be started so."""
    batch, build = experiment.batch, experiment.build
    is_elsewhere = (build and (build.image or build.git)) or batch.code == "git" or experiment.run.workdir
    if is_elsewhere or experiment.run.prepare or experiment.stage:
        return
    for one, launch in launches_of(experiment.run.command, {}):
        words = [unquoted(word) for word in one.words]
        program = words[launch.head + launch.end :] if launch else words
        if not words:
            continue
        if words[0] in _SETS_UP:
            if words[0] in ("source", ".") and words[1:] and words[1].endswith("activate"):
                yield from _absent(words[1], folder)
            continue
        yield from _of_program(program, folder, is_plain=launch is None and not batch.modules)
        return  # what comes later may use what this one makes


def _of_program(words: list[str], folder: Path, *, is_plain: bool) -> Iterator[Problem]:
    """Yield what is wrong with a program and its first argument."""
    if not words or any(map(is_computed, words[:2])):
        return
    first, *more = words
    if _PYTHON.fullmatch(first) or first in ("bash", "sh"):
        if is_plain and first == "python" and not shutil.which("python") and shutil.which("python3"):
            yield _warning("there is no `python` on PATH here", "write `python3`, or load what has it")
        script = next((word for word in more if not word.startswith("-")), "")
        is_script = more[:1] != ["-m"] and "-c" not in more and _PROGRAM.fullmatch(script)
        yield from _absent(script, folder) if is_script else ()
    elif _PROGRAM.fullmatch(first.removeprefix("./")):
        name = first.removeprefix("./")
        interpreter = "python" if name.endswith(".py") else "bash"
        yield from _absent(name, folder)
        is_found = (folder / name).is_file()
        if is_found and ((first == name and "/" not in name) or not os.access(folder / name, os.X_OK)):
            what = "is not executable" if first != name else "is not on PATH, where bash looks"
            yield _warning(f"{first} {what}", f"write `{interpreter} {name}`")


def _absent(name: str, folder: Path) -> Iterator[Problem]:
    """Yield a warning where this file of the folder does not exist."""
    if name.startswith(("/", "~")) or is_computed(name) or (folder / name).exists():
        return
    parent = (folder / name).parent
    others = [one.name for one, _ in zip(parent.glob(f"*{Path(name).suffix}"), range(_MOST), strict=False)]
    near = did_you_mean(Path(name).name, others, otherwise="")
    yield _warning(f"there is no {name} in {folder}, where the job starts", near)


def _warning(message: str, hint: str) -> Problem:
    return Problem(message, _CMD, hint, "warning")
