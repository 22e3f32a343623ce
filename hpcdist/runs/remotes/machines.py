"""The remotes of the user's config, and the services that submit and query runs there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.base import resources
from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import ConfigError, Place, Problem, did_you_mean, located
from hpcdist.base.shell import Shell
from hpcdist.loading import preferences
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.loading.preferences import Preferences, RemoteMachine
from hpcdist.planner import node_launches
from hpcdist.runs import rundir, this_machine
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.remotes import fetching, mirror
from hpcdist.runs.remotes.channel import Channel, RemoteRunner
from hpcdist.runs.remotes.connection import Connection, folder_of
from hpcdist.runs.rundir import Event, Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput, SubmitRequest


class Remote(NamedTuple):
    """A remote as `hpcdist.runs.services.Elsewhere`; ``voids`` as in `mirror.look`.

    ``begins_with``: the folder there of the run whose outputs a new run starts with.
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
        """Send a new run: `fetching.send`."""
        fetching.send(self.runner.channel, run)
        if self.begins_with:
            fetching.begin_with(self.runner.channel, self.begins_with, run)

    def add(self, run: Run, event: Event) -> None:
        """Send further jobs of a run: `fetching.add`."""
        fetching.add(self.runner.channel, run, event)

    def look(self, runs: Sequence[Run], services: Services) -> Runner:
        """Look at runs, as `mirror.look`."""
        return mirror.look(self.runner, runs, services, voids=self.voids)

    def pull(self, runs: Sequence[Run], services: Services, *, whole: bool = False) -> None:
        """Bring mirrors up to date, as `mirror.pull`."""
        mirror.pull(self.runner, runs, services, whole=whole)


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


def channel_of(name: str, machine: RemoteMachine) -> Channel:
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
    made = RemoteRunner(channel_of(name, machine), roots, machine.python or "", machine.trusted)
    return Remote(made, voids)


def connection_of(run: Run) -> Connection | None:
    """Return the connection to a run's remote; None without one, or if the config no longer has it."""
    with suppress(ConfigError):
        return of_runs([run]).runner.channel.connection if run.record.remote else None
    return None


# --- Submitting to a remote: planning is done here, with its site; the run directory here is the mirror


class Target(NamedTuple):
    """A remote to submit to, and the folder of the experiment file and its program."""

    name: str
    machine: RemoteMachine
    folder: Path

    @property
    def site(self) -> str:
        """The name of its site."""
        return self.machine.site or self.name

    @property
    def all_runs(self) -> Path:
        """The folder of all runs there, as the config has it."""
        return Path(self.machine.directory)

    def dry(self, request: SubmitRequest) -> SubmitRequest:
        """Return the request as it would be there, without asking the remote."""
        return _there(request, self.name, self.machine.directory)

    def prepare(
        self,
        request: SubmitRequest,
        made: Planned,
        runs_dir: Path,
        services: Services,
        begins_with: str = "",
    ) -> tuple[SubmitRequest, Services]:
        """Return the request for the remote and the services that submit it; this connects to it.

        ``begins_with``: as of `Remote`.

        Raises:
            ConfigError: if the job would not find its program there, or the remote's folder cannot be used.
            Unreachable: if the remote does not answer.
        """
        check_code(made, self)
        channel = channel_of(self.name, self.machine)
        folder = fetching.make_folder(channel, self.machine.directory, request.name)
        runner = RemoteRunner(channel, ((str(runs_dir), folder.path),), self.machine.python or "")
        changed = services._replace(
            runner=Remote(runner, voids=True, begins_with=begins_with),
            create=partial(rundir.create, above=folder.highest, trusts=this_machine.trusts),
            remote=partial(of_runs, voids=True),
        )
        return _there(request, self.name, folder.path), changed


def target(options: ExperimentOptions, place: Place | None = None) -> Target:
    """Return the remote that these options name; ``place``: where.

    Raises:
        ConfigError: if the config has none, or its site is needed and not known.
    """
    own, name = preferences.read(os.environ), options.remote or ""
    machine = named(own, name, place)
    if not options.site:
        check_site(own, name, options.site_path)
    return Target(name, machine, Path(options.file).parent)


def submit(  # noqa: PLR0913, PLR0917 - as `submission.submit`, and where
    there: Target | None,
    runs_dir: Path,
    services: Services,
    request: SubmitRequest,
    made: Planned,
    output: SubmitOutput,
    *,
    again: bool = False,
) -> Run:
    """Submit the run of a plan on this remote, or on this machine.

    Raises:
        HpcdistError: as `Target.prepare` and `this_machine.submit`.
    """
    if there:
        request, services = there.prepare(request, made, runs_dir, services)
    return this_machine.submit(request, runs_dir, services, output, again=again)


def check_code(made: Planned, target: Target) -> None:
    """Refuse a job that runs a file of this folder which is not taken along.

    Raises:
        ConfigError: with what to write.
    """
    if (made.experiment.batch.code or "here") != "here":
        return
    scripts = node_launches.scripts_of(made.plan.identity.command)
    folders = (Path.cwd(), target.folder)
    if script := next((one for one in scripts if any((folder / one).is_file() for folder in folders)), ""):
        message = f"{script} is in this folder, which {target.name} does not have"
        hint = (
            "write `batch: {code: snapshot}` to take a copy of the folder along, or `code: git` for a commit"
        )
        raise ConfigError(made.document.locate(Problem(message, ("batch", "code"), hint)))


def _there(request: SubmitRequest, remote: str, all_runs: str) -> SubmitRequest:
    """Return the request with scripts for its directory there; without code, the job starts there."""

    def files(directory: RunDirectory) -> Mapping[str, str]:
        return request.files(directory._replace(path=Path(all_runs, directory.name)))

    def code(directory: RunDirectory) -> CodeResult:
        found = request.code(directory)
        if found.folder:
            return found
        note = f"the job starts in its run directory on {remote}, without the files of this folder"
        return found._replace(folder=str(directory.path), notes=(note,))

    return request._replace(files=files, code=code, remote=remote, there=all_runs)
