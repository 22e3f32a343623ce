"""Files of GradientCI and workflows of Gradient: one experiment, converted to options.

GradientCI (``.ps_project/config.yaml``) began with one experiment in a file; its second version has workflows
of steps, whose ``params`` are options. Both ran for each commit. Later workflows (``.gradient/workflows``)
have jobs. (https://github.com/Paperspace/Docs, ``gradientci`` and ``workflows/workflow-spec.md``.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Key, Path, Problem
from hpcdist.importers import Imported
from hpcdist.importers.container import skip_empty, words
from hpcdist.importers.reading import Reading
from hpcdist.words import join, quote

_PARAMS: Final = "write the `params` of the step that you want as a file of their own"
_ACTION: Final = re.compile(r"[\w-]+@v\d+")
_RUNS: Final = re.compile(r"(?:container|script|script-runner)@v\d+")
_TYPES: Final = {"single": "", "multi-grpc": "GRPC", "grpc": "GRPC", "multi-mpi": "MPI", "mpi": "MPI"}
_COMMANDS: Final = {
    "experiment.run_single_node": "",
    "experiment.run_multi_node": "GRPC",
    "experiment.run_mpi_multi_node": "MPI",
}
_ROLES: Final = {
    "worker": "worker", "parameter-server": "parameterServer", "parameter_server": "parameterServer",
    "master": "master",
}  # fmt: skip
_OF_ROLE: Final = {
    "container": "Container", "command": "Command", "machine-type": "MachineType", "count": "Count",
}  # fmt: skip
SECTIONS: Final = frozenset({*_ROLES, "workflows", "jobs", "defaults"})
"""Sections of such a file that define what is run."""
_COMMON: Final = {
    "experiment": "name", "project": "projectId", "ports": "ports", "model.type": "modelType",
    "model.path": "modelPath", "paths.workdir": "workingDirectory", "paths.artifacts": "artifactDirectory",
}  # fmt: skip
_BY_COMMIT: Final = "a job is submitted by you, and not by a commit"
_NO_CHECKS: Final = "metrics are not checked"
_ONE_NODE: Final = "an experiment of one node has no such role"
RUNNING: Final = "use a job of `container@v1` or `script@v1`"
_NEEDS: Final = "a job does not wait for others; chain jobs with `batch.dependency`"
_HANDED: Final = "write a path of the machine in the command, and remove this"


class Options:
    """A file converted to options: ``data``, and in ``paths`` the source path of each.

    Options that are not given belong to the section ``section``.
    """

    def __init__(self, data: Map) -> None:
        self.read = Reading(data)
        self.data = Map(place=data.place)
        self.paths: dict[str, Path] = {}
        self.section: Path = ()

    def take(self, option: str, *path: str | int) -> None:
        """Set an option to the value at a path, if there is one."""
        above = self.read.peek(*path[:-1])
        self.paths.setdefault(option, path)
        self.read.get(*path)
        if isinstance(above, Map) and isinstance(path[-1], str) and path[-1] in above:
            self.data.copy_from(above, path[-1], option)
            self.paths[option] = path

    def put(self, option: str, value: object, *path: str | int) -> None:
        """Set an option derived from the value at a path."""
        if option not in self.data:
            self.data.put(option, value, self.read.place(*path))
            self.paths[option] = path

    def imported(self, found: Imported) -> Imported:
        """Return the converted options, with remarks and origins at the paths of the file."""
        own = self.read.finish().remarks
        remarks = [self._relocated(problem) for problem in found.remarks]
        origins = {ours: self._source_path(theirs) for ours, theirs in found.origins.items()}
        return Imported(found.data, (*own, *remarks), origins)

    def _relocated(self, problem: Problem) -> Problem:
        """Return a remark with its path in the file; that of a missing option is where it belongs."""
        path = self._source_path(problem.path)
        missing = bool(problem.path) and problem.path[0] not in self.data
        return problem._replace(path=path, place=self.read.place(*path) if missing else problem.place)

    def _source_path(self, path: Path) -> Path:
        if not path or path[0] not in self.paths:
            return (*self.section, *path)
        there = self.paths[str(path[0])]
        last = Key(there[-1]) if isinstance(path[0], Key) and isinstance(there[-1], str) else there[-1]
        return (*there[:-1], last, *path[1:])


def form_of(data: Map) -> str:
    """Return the key that identifies such a file, an empty text for other files."""
    if any("steps" in item for item in _sections(data.get("workflows"))):
        return "workflows"
    worker = data.get("worker")
    if isinstance(worker, Mapping) and ("machine-type" in worker or str(data.get("type")) in _TYPES):
        return "worker"
    jobs = [item.get("uses") for item in _sections(data.get("jobs")) if "steps" not in item]
    return "jobs" if any(isinstance(item, str) and _ACTION.fullmatch(item) for item in jobs) else ""


def jobs_of(data: Map) -> dict[Path, str]:
    """Return the paths of the steps or jobs of such a file, with their names."""
    read = Reading(data)
    if form_of(data) == "jobs":
        return {("jobs", name): name for name in read.keys("jobs")}
    steps = [
        (("workflows", name, "steps", index), item)
        for name in read.keys("workflows")
        for index, item in read.items("workflows", name, "steps")
    ]
    return {path: str(item.get("name") or "") for path, item in steps if isinstance(item, Map)}


def _by_name(read: Reading) -> str:
    """Return the hint to choose a job by name, an empty text if none that runs a program has a name."""
    jobs = jobs_of(read.data).items()
    name = next((name for path, name in jobs if name and runs(read, path)), "")
    return f"; or choose one with `--name {quote(name)}`" if name else ""


def runs(read: Reading, path: Path) -> bool:
    """Return whether a job or a step runs a program."""
    action = read.peek(*path, "uses")
    return str(read.peek(*path, "command")) in _COMMANDS or bool(_RUNS.fullmatch(str(action)))


def options_of(data: Map) -> Options:
    """Return the options of the one experiment of such a file.

    Raises:
        ConfigError: where there are several, or something else than an experiment.
    """
    options = Options(data)
    skip_empty(options.read)
    {"workflows": _step, "worker": _first_version, "jobs": _job}[form_of(data)](options)
    return options


def _first_version(options: Options) -> None:
    """Take a file of the first version: one experiment."""
    read = options.read
    roles = [role for role in _ROLES if role in read.data]
    plain = "mpi" if "master" in roles else "single" if roles == ["worker"] else "multi-grpc"
    kind = read.text("type") or plain
    if kind not in _TYPES:
        _fail(read, ("type",), f"unknown type {kind!r}", "write single, multi-grpc or multi-mpi")
    read.get("version")
    for path, option in _COMMON.items():
        options.take(option, *path.split("."))
    if _TYPES[kind]:
        options.put("experimentType", _TYPES[kind], "type")
    needed = {"MPI": ["worker", "master"], "GRPC": ["worker"]}.get(_TYPES[kind], ["worker"])
    for role in dict.fromkeys([*roles, *needed]):
        if _TYPES[kind] or role == "worker":
            _role(options, role, "" if not _TYPES[kind] else _ROLES[role])
        else:
            read.ignore(role, why=_ONE_NODE)
    read.ignore("filters", why=_BY_COMMIT)
    read.ignore("checks", why=_NO_CHECKS)


def _role(options: Options, role: str, prefix: str) -> None:
    """Take the section of a role; without a prefix, that of one node."""
    for key, option in _OF_ROLE.items():
        if not prefix and key == "count":
            options.read.ignore(role, key, why="an experiment of one node has one")
        else:
            options.take(f"{prefix}{option}" if prefix else option[0].lower() + option[1:], role, key)
    _no_dockerfile(options.read, role)


def _no_dockerfile(read: Reading, role: str) -> None:
    if read.peek(role, "dockerfile", "use") is False:
        read.get(role, "dockerfile")
    elif "dockerfile" in read.keys(role):
        hint = "build it, and write its name as `container`"
        read.refuse(role, "dockerfile", why="no image is built here", hint=hint)


def _step(options: Options) -> None:
    """Take the one step of a file of the second version."""
    read = options.read
    steps = [
        ("workflows", name, "steps", index)
        for name in read.keys("workflows")
        for index, item in read.items("workflows", name, "steps")
        if item is not None
    ]
    commands = [str(read.peek(*step, "command")) for step in steps]
    for path in [("workflows", name, "steps") for name in read.keys("workflows")]:
        if read.keys(*path):
            _fail(read, path, "steps are a list, and this is one step", "write `- ` before its first key")
    if len(steps) != 1 or not isinstance(read.peek(*steps[0]), Mapping):
        listed = f" ({', '.join(dict.fromkeys(commands))})" if commands else ""
        message = f"this is a file of GradientCI, which runs {len(steps)} steps{listed} for each commit"
        _fail(read, ("workflows",), message, _PARAMS + _by_name(read))
    step = steps[0]
    if commands[0] not in _COMMANDS:
        message = f"this step of GradientCI runs {commands[0]}, which is not an experiment"
        _fail(read, (*step, "command"), message, f"supported: {', '.join(_COMMANDS)}")
    if "paramsFile" in read.keys(*step):
        where = "here and in another file" if "params" in read.keys(*step) else "in another file"
        message, hint = f"the params of this step are {where}", f"give {read.text(*step, 'paramsFile')}"
        _fail(read, (*step, "paramsFile"), message, hint)
    _params(options, step, _COMMANDS[commands[0]])


def _params(options: Options, step: Path, kind: str) -> None:
    read, options.section = options.read, (*step, "params")
    for path in (("version",), (*step, "command")):
        read.get(*path)
    for key in read.keys(*step, "params"):
        options.take(key, *step, "params", key)
    if "name" in options.data:
        read.ignore(*step, "name", why="the experiment has a name of its own")
    else:
        options.take("name", *step, "name")
    if kind:
        options.put("experimentType", kind, *step, "command")
    for above in ((), step[:2], step):
        read.ignore(*above, "triggers", why=_BY_COMMIT)
        read.ignore(*above, "checks", why=_NO_CHECKS)


def _job(options: Options) -> None:
    """Take the one job of a workflow."""
    read = options.read
    names = read.keys("jobs")
    job: Path = ("jobs", names[0])
    action = read.text(*job, "uses") or ""
    if len(names) > 1:
        message = "this is a workflow of Gradient: several jobs that pass on their outputs"
        hint = "`hpcdist submit` takes jobs that all run programs as a pipeline"
        _fail(read, ("jobs",), message, hint + _by_name(read))
    if not runs(read, job):
        _fail(read, (*job, "uses"), f"the action {action!r} runs no program of yours", RUNNING)
    read.ignore(*job, "needs", why=_NEEDS)
    for path in (("inputs",), (*job, "inputs"), (*job, "outputs")):
        if read.peek(*path):
            read.refuse(*path, why="Gradient would fetch and store data for the job", hint=_HANDED)
    read.ignore("on", why=_BY_COMMIT)
    options.put("name", names[0], "jobs", names[0])
    options.take("container", *job, "with", "image")
    _machine(options, job)
    _variables(options, job)
    _run(options, (*job, "with"))


def _machine(options: Options, job: Path) -> None:
    for above in (("defaults",), job):
        options.take("machineType", *above, "resources", "instance-type")


def _variables(options: Options, job: Path) -> None:
    found = Map(place=options.read.place(*job))
    for above in (("defaults", "env"), (*job, "env")):
        for name in options.read.keys(*above):
            options.read.get(*above, name)
            found.copy_from(options.read.peek(*above), name)
        if not options.read.peek(*above):
            options.read.get(*above)
    if found:
        options.put("experimentEnv", found, *job, "env")


def _run(options: Options, path: Path) -> None:
    """Take what a job runs: a script, or the words of a command."""
    read = options.read
    if read.peek(*path, "script") is not None:
        options.take("command", *path, "script")
    found = [word for key in ("command", "args") for word in _words(read, (*path, key))]
    if found:
        key = "args" if read.peek(*path, "args") is not None else "command"
        options.put("command", join(found), *path, key)
    action = read.text(*path[:-1], "uses") or ""
    options.paths.setdefault("command", (*path, "script" if action.startswith("script") else "args"))


def _words(read: Reading, path: Path) -> list[str]:
    found = words(read, *path)
    return [found] if isinstance(found, str) else found or []


def _sections(section: Any) -> list[Map]:
    values = section.values() if isinstance(section, Mapping) else ()
    return [item for item in values if isinstance(item, Map)]


def _fail(read: Reading, path: Path, message: str, hint: str) -> NoReturn:
    raise ConfigError(Problem(message, path, hint, place=read.place(*path)))
