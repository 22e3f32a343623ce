"""The remotes of the user's config, and the services with which runs are submitted and asked for there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hpcdist.errors import ConfigError, Place, Problem, did_you_mean, located
from hpcdist.host import resources
from hpcdist.host.command import Command, Completed, Runner
from hpcdist.host.shell import Shell
from hpcdist.loading import preferences
from hpcdist.loading.preferences import Preferences, RemoteMachine
from hpcdist.remotes import looking, sending
from hpcdist.remotes.channel import Channel
from hpcdist.remotes.connection import Connection, folder_of
from hpcdist.remotes.runner import RemoteRunner
from hpcdist.runs.rundir import Event, Run
from hpcdist.runs.services import Services


class Remote(NamedTuple):
    """A remote as `hpcdist.runs.services.Elsewhere`; ``voids`` as in `looking.look`.

    ``begins_with``: the folder there of the run with whose outputs each new one begins.
    """

    runner: RemoteRunner
    voids: bool = False
    begins_with: str = ""

    def run(self, command: Command) -> Completed:
        """Run the command there."""
        return self.runner.run(command)

    def start(self, run: Run, command: Command) -> Completed:
        """Submit a run, as `RemoteRunner.start`."""
        return self.runner.start(run, command)

    def send(self, run: Run) -> None:
        """Send a new run, as `sending.send`."""
        sending.send(self.runner.channel, run)
        if self.begins_with:
            sending.begin_with(self.runner.channel, self.begins_with, run)

    def add(self, run: Run, event: Event) -> None:
        """Send further jobs of a run, as `sending.add`."""
        sending.add(self.runner.channel, run, event)

    def look(self, runs: Sequence[Run], services: Services) -> Runner:
        """Look at runs, as `looking.look`."""
        return looking.look(self.runner, runs, services, voids=self.voids)

    def pull(self, runs: Sequence[Run], services: Services, *, whole: bool = False) -> None:
        """Bring mirrors up to date, as `looking.pull`."""
        looking.pull(self.runner, runs, services, whole=whole)


def named(own: Preferences, name: str, place: Place | None = None) -> RemoteMachine:
    """Return a remote of the config.

    Raises:
        ConfigError: if it has none of this name.
    """
    if name in own.config.remotes:
        return own.config.remotes[name]
    hint = did_you_mean(name, own.config.remotes) if own.config.remotes else (
        "write one into your config: `remotes: {NAME: {host: USER@HOST, directory: $SCRATCH/hpcdist}}`"
    )  # fmt: skip
    raise ConfigError(Problem(f"there is no remote {name!r} in your config", hint=hint, place=place))


def check_site(own: Preferences, name: str, site_path: tuple[str, ...]) -> None:
    """Refuse a remote whose site has no file.

    Raises:
        ConfigError: with the place in the config.
    """
    site = own.config.remotes[name].site
    place = own.place("remotes", name, *(("site",) if site else ()))
    hint = "" if site else f"name its site as `remotes.{name}.site`"
    with located(lambda one: one._replace(place=place, hint=hint or one.hint)):
        resources.site_file(site or name, resources.site_folders(site_path))


def channel(name: str, machine: RemoteMachine) -> Channel:
    """Return what sends requests to a remote; nothing is connected yet.

    Raises:
        ConfigError: if others can use the folder of connections.
    """
    return Channel(Connection(name, machine.host, Shell(), folder_of(os.environ)).resolved())


def of_runs(runs: Sequence[Run], *, own: Preferences | None = None, voids: bool = False) -> Remote:
    """Return the remote that has these runs, which is the same for all.

    Raises:
        ConfigError: if the config does not have it any more.
    """
    name = runs[0].record.remote
    machine = named(own or preferences.read(os.environ), name)
    roots = tuple({(str(run.directory.path), run.record.there) for run in runs})
    made = RemoteRunner(channel(name, machine), roots, machine.python or "", machine.trusted)
    return Remote(made, voids)


def connection_of(run: Run) -> Connection | None:
    """Return the connection with a run's remote; None without one, or where the config has it no more."""
    with suppress(ConfigError):
        return of_runs([run]).runner.channel.connection if run.record.remote else None
    return None
