"""The remotes of the user's config, and the services that submit and query runs there; their mirrors."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from hpcdist.base import ownership, resources
from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import (
    ConfigError,
    Place,
    Problem,
    SchedulerError,
    SubmissionUnknown,
    did_you_mean,
    located,
)
from hpcdist.base.shell import Shell
from hpcdist.loading import preferences
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.loading.preferences import Preferences, RemoteMachine
from hpcdist.planner import node_launches
from hpcdist.runs import rundir, this_machine
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.job_states import GRACE, age
from hpcdist.runs.remotes import channel, connection, fetching, program
from hpcdist.runs.remotes.channel import AnsweredRunner, Channel, RemoteRunner, Section
from hpcdist.runs.remotes.connection import Connection, Unreachable, folder_of
from hpcdist.runs.rundir import Event, Phase, Run, RunDirectory, timestamp
from hpcdist.runs.services import Outdated, Services, Unanswered
from hpcdist.runs.submission import SubmitOutput, SubmitRequest
from hpcdist.schedulers import schedulers


class Remote(NamedTuple):
    """A remote as `hpcdist.runs.services.Elsewhere`; ``voids`` as in `look`.

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
        """Look at runs, as the function `look`."""
        return look(self.runner, runs, services, voids=self.voids)

    def pull(self, runs: Sequence[Run], services: Services, *, whole: bool = False) -> None:
        """Bring mirrors up to date, as the function `pull`."""
        pull(self.runner, runs, services, whole=whole)


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
        self, request: SubmitRequest, made: Planned, runs_dir: Path, services: Services, begins_with: str = ""
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


# --- The mirror: small files of a run there, written into its directory here; and when that was done last


SEEN: Final = "remote.json"
"""A file of the mirror: when the remote last answered, by its clock and by the one here."""

_GROWING: Final = re.compile(r"(?:logs|tracking)/")
"""Folders of files that only grow: their new part is enough."""

_SMALL: Final = 1 << 20
"""A larger file is assumed to only grow, wherever it is."""

_OVERLAP: Final = 120
"""Seconds by which the clocks of a login node and of its file server may differ."""

_LEFT: Final = frozenset({"outputs", "checkpoints", "code", "python"})
"""Folders that are not mirrored."""

_MINE: Final = re.compile(
    r"(?:record|plan|options|remote|scaling|accounting|pipeline).*\.json|.*\.(?:sh|py|yml|tsv)|code\..*|\..*",
    re.IGNORECASE,
)
_CALL: Final = re.compile(r"call\..*", re.IGNORECASE)
"""Results of calls are pickles: reading one runs what is in it."""


class Seen(Struct, frozen=True):
    """When the remote last answered about a run: seconds since 1970 there and here; 0 is never."""

    there: int = 0
    here: float = 0.0

    @property
    def since(self) -> str:
        """The time there, a little earlier, as ``touch -t`` reads it in UTC; empty for never."""
        return time.strftime("%Y%m%d%H%M.%S", time.gmtime(self.there - _OVERLAP)) if self.there else ""


def seen(run: Run) -> Seen:
    """Return when the remote last answered about this run."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode(run.directory.read(SEEN, _SMALL), type=Seen)
    return Seen()


def save_seen(directory: RunDirectory, at: Seen) -> None:
    """Record when the remote answered.

    Raises:
        OSError: if it cannot be written.
    """
    directory.write(SEEN, f"{msgspec.json.encode(at).decode()}\n")


def sizes(directory: RunDirectory) -> dict[str, int]:
    """Return how much is here of each file that only grows."""
    return {name: size for name, size in _files(directory.path) if _GROWING.match(name) or size > _SMALL}


def _files(top: Path) -> Iterator[tuple[str, int]]:
    for folder, folders, names, handle in os.fwalk(top):
        inside = Path(folder).relative_to(top)
        if inside == Path():
            folders[:] = [name for name in folders if name not in _LEFT]
        for name in names:
            with contextlib.suppress(OSError):
                yield str(inside / name), os.stat(name, dir_fd=handle, follow_symlinks=False).st_size


def write(directory: RunDirectory, name: str, offset: int, data: bytes, *, trusted: bool = False) -> None:
    """Write a part of a file there into the mirror; one that begins at 0 replaces the file.

    What a remote must not change, or what is outside of the run, is left alone; results of calls are written
    only if the remote is ``trusted``.

    Raises:
        OSError: if it cannot be written.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return
    first = path.parts[0]
    if first.lower() in _LEFT or _MINE.fullmatch(first) or (_CALL.fullmatch(first) and not trusted):
        return
    folder = directory.path.joinpath(*path.parts[:-1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ownership.folder(folder) as handle:
        if not offset:
            ownership.write(handle, path.name, data)
            return
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(path.name, flags, dir_fd=handle)
        with os.fdopen(file, "wb") as stream:
            if offset > os.fstat(file).st_size:
                raise OSError(errno.EINVAL, "a part that came begins behind the end of what is here")
            stream.seek(offset)
            stream.write(data)


# --- Looking at runs on a remote: one round trip asks for their jobs and brings their mirrors up to date

_TIMEOUT: Final = 120.0
_ORDER: Final = "(?:{}){{{}}}(?:claimed |answer errors )*now (?:gone |file )*"


class MirrorUpdate(NamedTuple):
    """The result of one look: the bytes that came, how many are left, and why others did not come."""

    came: int
    left: int
    problems: tuple[Problem, ...] = ()


def look(there: RemoteRunner, runs: Sequence[Run], services: Services, *, voids: bool = False) -> Runner:
    """Bring the mirrors of these runs up to date; return a runner that has the answers about their jobs.

    Without an answer of the remote, the runner fails each command with the reason and the age of the last
    answer. ``voids``: give up submissions in which the batch system was not called yet. What cannot be
    written here is a warning of the services.
    """
    commands = [*queries(runs)]
    try:
        sections = _asked(there, runs, commands, services, voids=voids)
    except Unreachable as error:
        return Unanswered(f"{error}; {_age(runs, services.now)}")
    for problem in _keep(_directories(runs), sections, services.now, trusted=there.trusted).problems:
        services.warn(problem._replace(severity="warning"))
    _settle(runs, sections, services)
    return AnsweredRunner(channel.completed(sections, commands), there)


def pull(there: RemoteRunner, runs: Sequence[Run], services: Services, *, whole: bool = False) -> None:
    """Bring the mirrors of these runs up to date; ``whole``: also all parts of large files.

    Raises:
        Outdated: if some files cannot be read there, or written here.
        Unreachable: without an answer; with the age of the last one.
    """
    kept = _pulled(there, runs, services)
    rounds = math.ceil(kept.left / program.PART) if whole else 0
    while rounds and kept.left and kept.came >= program.PART:  # else a size there is not what comes
        kept, rounds = _pulled(there, runs, services), rounds - 1
    if kept.problems:
        raise Outdated(*kept.problems)


def _pulled(there: RemoteRunner, runs: Sequence[Run], services: Services) -> MirrorUpdate:
    try:
        sections = _asked(there, runs, (), services)
    except Unreachable as error:
        age = _age(runs, services.now)
        changed = [one._replace(message=f"{one.message}; {age}") for one in error.problems]
        raise Unreachable(*changed) from error
    return _keep(_directories(runs), sections, services.now, trusted=there.trusted)


def queries(runs: Sequence[Run]) -> Iterator[Command]:
    """Yield the commands with which `runs.job_states` may query these runs' jobs, of one scheduler.

    Commands for one job each are left out.
    """
    scheduler = schedulers.get(runs[0].record.scheduler)
    if any(run.record.phase is Phase.SUBMITTING for run in runs):
        yield from scheduler.find()
    jobs = [run.job for run in runs if run.job and run.record.ended is None]
    for query in scheduler.queries() if jobs else ():
        if not query.one_by_one:
            yield from query.commands(jobs)


def _asked(
    there: RemoteRunner,
    runs: Sequence[Run],
    commands: Sequence[Command],
    services: Services,
    *,
    voids: bool = False,
) -> list[Section]:
    lines = [*itertools.chain.from_iterable(map(there.lines, commands))]
    for number, run in enumerate(runs):
        if run.record.phase is Phase.SUBMITTING:
            if voids or age(run, services) > GRACE:
                lines.append(program.call("hpcdist_void", channel.claim(run)))
            lines.append(program.call("hpcdist_claimed", number, channel.claim(run)))
    # After the queries: the files of a job that has ended then are complete.
    own = _directories(runs)
    room = program.ROOM // len(own)
    lines += ['hpcdist_print now "$(date +%s)"', program.known(_sizes(runs), room=room)]
    for number, run in enumerate(own):
        since = seen(run).since
        lines.append(f"({program.call('hpcdist_changed', number, run.record.there, since)})")
    order = _ORDER.format(channel.COMPLETED, len(commands))
    most = channel.MOST + program.ROOM + len(own) * program.PART
    sections = there.channel.call(lines, _TIMEOUT, order, channel.needs(commands[:1]), most=most)
    _check_runs(there, sections, runs)
    return sections


def _check_runs(there: RemoteRunner, sections: Iterable[Section], runs: Sequence[Run]) -> None:
    """Refuse an answer about runs that were not asked for."""
    own = dict.fromkeys(("claimed", "answer", "errors"), len(runs))
    own |= dict.fromkeys(("gone", "file"), len(_directories(runs)))
    for section in sections:
        if section.kind in own and not 0 <= section.run < own[section.kind]:
            raise there.channel.malformed(f"{section.kind} {section.words}")


def _directories(runs: Sequence[Run]) -> list[Run]:
    """Return one run of each directory."""
    return [*{run.directory.path: run for run in reversed(runs)}.values()][::-1]


def _sizes(runs: Sequence[Run]) -> dict[str, int]:
    return {
        f"{number}/{name}": size
        for number, run in enumerate(_directories(runs))
        for name, size in sizes(run.directory).items()
    }


def _keep(
    runs: Sequence[Run], sections: Iterable[Section], now: Callable[[], float], *, trusted: bool
) -> MirrorUpdate:
    """Write what came into the mirrors; what is left or could not be written is asked for again."""
    at, came, missing, behind = 0, 0, 0, set[int]()
    problems: list[Problem] = []
    for section in sections:
        if section.kind == "now" and section.words.isdecimal():
            at = int(section.words)
        elif section.kind == "gone":
            problems.append(connection.gone(runs[section.run]))
        elif section.kind == "file":
            _, offset, length, size, name = section.words.split(" ", 4)
            left = max(0, int(size) - int(offset) - int(length))
            problem = None
            if section.data:  # else there was no room for it
                problem = _written(runs[section.run], name, int(offset), section.data, trusted=trusted)
            problems += filter(None, [problem])
            behind |= {section.run} if problem or left else set()
            came, missing = came + len(section.data), missing + (0 if problem else left)
    for place, run in enumerate(runs):
        with suppress(OSError):
            save_seen(run.directory, Seen(seen(run).there if place in behind else at, now()))
    return MirrorUpdate(came, missing, tuple(problems))


def _written(run: Run, name: str, offset: int, data: bytes, *, trusted: bool) -> Problem | None:
    """Write a part of a file into the mirror; return why that failed, which leaves other runs alone."""
    try:
        write(run.directory, name, offset, data, trusted=trusted)
    except OSError as error:
        path, why = run.directory.path / name, error.strerror or str(error)
        return Problem(f"{run.name} cannot be brought up to date: {path}: {why}")
    return None


def _settle(runs: Sequence[Run], sections: Sequence[Section], services: Services) -> None:
    """Record what became of submissions whose answer was lost on its way here."""
    errors = {section.words: section.text for section in sections if section.kind == "errors"}
    for section in sections:
        if section.kind == "answer":
            number, _, code = section.words.partition(" ")
            run = runs[section.run]
            if code == channel.VOID:
                why = "its submission was cut off before the batch system was called"
                services.try_update(run, phase=Phase.REFUSED, message=why)
            elif code.isdecimal():
                done = channel.completed_one(Command(()), section.text, int(code), errors.get(number, ""))
                _accept(run, done, services)
        elif section.kind == "claimed":  # a job may still come: its time starts again
            at = timestamp(services.now())
            run, again = runs[section.run], {"submitted_at": at, "clock": services.host}
            services.try_update(run, phase=Phase.SUBMITTING, **again)


def _accept(run: Run, done: Completed, services: Services) -> None:
    try:
        job_id = schedulers.get(run.record.scheduler).read_submit(done)
    except SubmissionUnknown:
        return
    except SchedulerError as error:
        services.try_update(run, phase=Phase.REFUSED, message=str(error))
        return
    services.try_update(run, phase=Phase.ACCEPTED, job_id=job_id, message="")


def _age(runs: Sequence[Run], now: Callable[[], float] = time.time) -> str:
    """Return how long ago the remote last answered about one of these runs."""
    last = max((seen(run).here for run in runs), default=0.0)
    if not last:
        return "it has not answered yet"
    return f"its last answer was {_span(max(0.0, now() - last))} ago"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
