"""Commands that bash does not parse: found by ``bash -n``, which runs nothing of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcdist.base.command import Command, Runner
from hpcdist.base.errors import Path, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import own_commands

_WHERE = re.compile(r"bash: (line \d+: .*)")


def problems_of(experiment: Experiment, runner: Runner) -> Iterator[Problem]:
    """Yield a warning for each command that the bash of this machine does not parse; none without one.

    It is no error, as the bash of the nodes may be newer.
    """
    for path, text in _commands(experiment):
        done = runner.run(Command(("bash", "-O", "extglob", "-n"), stdin=f"{text}\n", timeout=10))
        found = _WHERE.match(done.stderr)
        if found and not (done.ok or done.missing or done.timed_out):
            message = f"bash does not parse this command: {found[1]}"
            yield Problem(message, path, "correct it, or the job fails", "warning")


def _commands(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    if experiment.run.cmd is not None:
        yield ("run", "cmd"), experiment.run.command
    for path, step in experiment.run.steps:
        yield ("run", *path, "cmd"), step.command
    for path, (_, text) in own_commands(experiment).items():
        yield path, text
