"""The services of this machine with the user's remotes, which are read only for runs that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcdist.runs import this_machine

if TYPE_CHECKING:
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.services import Elsewhere, Services


def services() -> Services:
    """Return the services of this machine; those of a remote's runs are found by `Services.at`."""
    return this_machine.services()._replace(remote=_of_runs)


def _of_runs(runs: Sequence[Run]) -> Elsewhere:
    from hpcdist.remotes import machines  # reads the config

    return machines.of_runs(runs)
