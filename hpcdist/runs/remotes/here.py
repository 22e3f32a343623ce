"""The services of this machine with the user's remotes, which are read only for runs that are there."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from hpcdist.runs import address, this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from hpcdist.base.command import Command
    from hpcdist.runs.address import Address
    from hpcdist.runs.remotes.machines import Remote
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.services import Services


def services(*, voids: bool = False) -> Services:
    """Return the services of this machine; `Services.at` finds the services of remotes.

    ``voids`` as in `machines.Remote`: for a caller that alone may submit the jobs of a run.
    """
    return this_machine.services()._replace(remote=partial(_of_runs, voids=voids))


def address_of(run: Run) -> Address | None:
    """Return the address of a run's server; on a remote, as reached through its host in the config."""
    found = address.read(run.directory)
    if not found or not run.record.remote:
        return found
    from hpcdist.runs.remotes import machines  # reads the config

    remote = machines.connection_of(run)
    return found.through(remote.host, run.directory) if remote else found


def is_trusted(run: Run) -> bool:
    """Return whether results of calls may be read: always of local runs, else if the remote is trusted."""
    if not run.record.remote:
        return True
    from hpcdist.runs.remotes import machines  # reads the config

    return machines.of_runs([run]).runner.trusted


def attach(run: Run, command: Command, *, terminal: bool) -> int:
    """Run a command on the run's machine with this process's own input and output; return its exit code.

    Raises:
        ConfigError: if the config does not have its remote any more.
        SchedulerError: if the remote cannot be reached.
    """
    if run.record.remote:
        return _of_runs([run]).runner.attach(command, terminal=terminal)
    from hpcdist.base.shell import Shell

    return Shell().attach(command)


def with_tunnels(
    runs: Sequence[Run], services: Services, note: Callable[[str], object]
) -> AbstractContextManager[Services]:
    """Return services whose pauses keep tunnels open to the servers of runs on remotes."""
    if not any(run.record.remote for run in runs):
        return nullcontext(services)
    from hpcdist.runs.remotes import tunnels  # with ssh and the config

    return tunnels.kept(runs, services, note)


def _of_runs(runs: Sequence[Run], *, voids: bool = False) -> Remote:
    from hpcdist.runs.remotes import machines  # reads the config

    return machines.of_runs(runs, voids=voids)
