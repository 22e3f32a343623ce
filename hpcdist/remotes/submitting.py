"""Submitting to a remote: planning is done here, with its site; the run directory here is the mirror."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.code.prepare import Code
from hpcdist.errors import ConfigError, Place, Problem
from hpcdist.loading import preferences
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.loading.preferences import RemoteMachine
from hpcdist.planner import node_launches
from hpcdist.remotes import machines, sending
from hpcdist.remotes.machines import Remote
from hpcdist.remotes.runner import RemoteRunner
from hpcdist.runs import rundir, this_machine
from hpcdist.runs.control import Output, SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services


class Target(NamedTuple):
    """A remote to submit to, and the folder of the experiment file, beside which its program is."""

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
        channel = machines.channel(self.name, self.machine)
        folder = sending.make_folder(channel, self.machine.directory, request.name)
        runner = RemoteRunner(channel, ((str(runs_dir), folder.path),), self.machine.python or "")
        changed = services._replace(
            runner=Remote(runner, voids=True, begins_with=begins_with),
            create=partial(rundir.create, above=folder.highest, trusts=this_machine.trusts),
            remote=partial(machines.of_runs, voids=True),
        )
        return _there(request, self.name, folder.path), changed


def target(options: ExperimentOptions, place: Place | None = None) -> Target:
    """Return the remote that these options name; ``place``: where.

    Raises:
        ConfigError: if the config has none, or its site is needed and not known.
    """
    own, name = preferences.read(os.environ), options.remote or ""
    machine = machines.named(own, name, place)
    if not options.site:
        machines.check_site(own, name, options.site_path)
    return Target(name, machine, Path(options.file).parent)


def submit(  # noqa: PLR0913, PLR0917 - as `control.submit`, and where
    there: Target | None,
    runs_dir: Path,
    services: Services,
    request: SubmitRequest,
    made: Planned,
    output: Output,
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
    """Return the request with scripts for its directory there; without code, the job starts in that."""

    def files(directory: RunDirectory) -> Mapping[str, str]:
        return request.files(directory._replace(path=Path(all_runs, directory.name)))

    def code(directory: RunDirectory) -> Code:
        found = request.code(directory)
        if found.folder:
            return found
        note = f"the job starts in its run directory on {remote}, without the files of this folder"
        return found._replace(folder=str(directory.path), notes=(note,))

    return request._replace(files=files, code=code, remote=remote, there=all_runs)
