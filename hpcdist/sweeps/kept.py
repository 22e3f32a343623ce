"""What a run keeps when it is resumed: its name, its site, and that it is no search."""

from __future__ import annotations

from hpcdist.errors import ConfigError, Problem
from hpcdist.loading.planning import Planned
from hpcdist.runs.rundir import Run
from hpcdist.sweeps.replanning import Changes


def check(run: Run, made: Planned, changes: Changes) -> None:
    """Check that the changes of a further job, which is planned so, leave the run what it is.

    Raises:
        ConfigError: if they do not; a new run can have them.
    """
    hint = f"`hpcdist copy {run.name}` makes a new run, which begins with its checkpoints"
    if made.experiment.hptuning is not None:
        raise ConfigError(Problem(f"{run.name} is a training, and is not resumed as a search", hint=hint))
    if made.plan.identity.name != run.record.name:
        raise ConfigError(Problem(f"{run.name} keeps its name when it is resumed", hint=hint))
    site = made.experiment.batch.site
    if {"batch", "batch.site"} & {key for key, _ in changes.settings} and site not in {None, run.record.site}:
        raise ConfigError(
            Problem(f"{run.name} is resumed on site {run.record.site}, where it ran", hint=hint)
        )
