"""Azure ML: DistributedComponent and CommandComponent (spec v1), and ``type: command`` jobs and components.

Read are azure-ml-component 0.9 (``DistributedComponent``, ``CommandComponent``) and azure-ai-ml 1
(https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command). One file is one job.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NoReturn

from hpcdist.errors import ConfigError, Path, Problem
from hpcdist.importers import Imported
from hpcdist.importers.azure.command import SUBMITTED_IN, Translation, one_line, with_options
from hpcdist.importers.azure.inputs import Inputs, read_outputs
from hpcdist.importers.azure.layout import SETTINGS, Layout
from hpcdist.importers.azure.surroundings import take_environment, take_rest, take_variables
from hpcdist.importers.container import finished, protected
from hpcdist.importers.reading import Reading
from hpcdist.tree import Map
from hpcdist.words import quote, slug

_SCHEMA: Final = re.compile(
    r"componentsdk|azureml/sdk-[12]|azuremlschemas|azuremlsdk2|command(job|component)", re.IGNORECASE
)
_TYPE: Final = r"\w+Component(@|$)|MpiJob$|Microsoft\.MachineLearning"
_SEARCH: Final = "write its `trial` as a file of its own, with a value for each param, and run it with -p"
_OTHER: Final = "what is read: `type: command`, CommandComponent, DistributedComponent"
_MANY: Final = {
    "sweep": ("a sweep is many jobs", _SEARCH),
    "pipeline": ("a pipeline is many jobs", "write one file for each, and chain them by `batch.dependency`"),
}
_MADE: Final = {"image", "docker", "conda", "conda_file", "build", "name"}
"""What tells an environment of Azure's from our own section of that name."""
_OF_AZURE: Final = {
    "AZ_BATCHAI_MPI_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS",
    "AZ_BATCH_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT",
    "AZUREML_NODE_COUNT": "$HPCDIST_NODES",
    "AZUREML_MPI_HOSTFILE": "$HPCDIST_HOSTFILE",
}


class Azure:
    """The importer of components and command jobs; run settings stand in no file of a component."""

    settings: Final = SETTINGS

    def recognises(self, data: Map) -> bool:
        """Tell by the schema or the type, else by a command with an environment or a compute target."""
        if "apiVersion" in data or "run" in data or "kind" in data:
            return False
        kind = str(data.get("type", ""))
        if _SCHEMA.search(str(data.get("$schema", ""))) or re.match(_TYPE, kind):
            return True
        steps = {"sweep": {"trial", "search_space"}, "pipeline": {"jobs"}, "command": data.keys()}
        if steps.get(kind.lower(), set()) & data.keys() or {"jobType", "implementation"} <= data.keys():
            return True
        environment = data.get("environment")
        ours = isinstance(environment, str) or (isinstance(environment, dict) and _MADE & environment.keys())
        return "command" in data and bool(ours or {"compute", "distribution"} & data.keys())

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is many jobs, a kind of job that no batch machine runs, or no command.
        """
        read = Reading(data)
        legacy = _is_legacy(data)
        _refuse_kinds(read)
        folder = posixpath.dirname(data.place.file) if data.place and data.place.file[:1] != "<" else ""
        _names(read)
        inputs = Inputs(read, legacy=legacy, folder=folder)
        command = _command(read, inputs, legacy=legacy, folder=folder)
        take_environment(read)
        take_variables(read)
        Layout(read, legacy=legacy, command=command).put()
        take_rest(read)
        return finished(read)


IMPORTER: Final = Azure()


def _is_legacy(data: Map) -> bool:
    """Tell whether this is a component of spec v1."""
    return bool(re.match(r"(Distributed|Command)Component", str(data.get("type", "")))) or "launcher" in data


def _refuse_kinds(read: Reading) -> None:
    kind = read.text("type")
    schema = read.text("$schema") or ""
    key: Path = ("type",) if kind is not None else ("$schema",) if schema else ()
    of_steps = "pipeline" if "jobs" in read.data else ""
    words = (kind or re.sub(r".*/", "", schema) or of_steps).lower()
    many = next((word for word in _MANY if word in words), "")
    steps = read.keys("jobs")
    if many == "pipeline" and len(steps) == 1:
        hint = f"write {steps[0]!r} as a file of its own, with its inputs, code and environment"
        _fail(read, ("jobs",), "this pipeline has one step, and steps are not read", hint)
    if many:
        _fail(read, key, *_MANY[many])
    if "jobType" in read.data:
        _fail(read, ("jobType",), "this is a module, which came before components", _OTHER)
    plain = re.sub(r"@.*", "", kind or "command").lower()
    if kind is None and schema and "command" not in schema.lower() and "component" not in schema.lower():
        _fail(read, key, f"files of the schema {re.sub('.*/', '', schema)} are no jobs", _OTHER)
    if plain not in ("command", "commandcomponent", "distributedcomponent"):
        _fail(read, key, f"files of type {kind!r} are not run", _OTHER)


def _fail(read: Reading, path: Path, message: str, hint: str) -> NoReturn:
    raise ConfigError(Problem(message, path, hint, place=read.place(*path)))


def _names(read: Reading) -> None:
    """Take what the job is called, and what is kept with it as tags."""
    said = [(key, text) for key in ("name", "display_name", "experiment_name") if (text := _text(read, key))]
    if said:
        key, text = said.pop(0)
        read.put("name", slug(text), key)
        if slug(text) != text:
            read.warn(
                key,
                why=f"the name becomes {slug(text)!r}",
                hint="a job is called by letters, digits, - and _",
            )
    read.move("description", "description")
    if version := _text(read, "version"):
        said.append(("version", version))
    tags = [f"{key}={text}" for key, text in said] + _tags(read)
    if tags:
        read.put("tags", [protected(tag) for tag in tags], "tags" if "tags" in read.data else said[0][0])


def _text(read: Reading, key: str) -> str | None:
    """Take a text; refuse a section or a list."""
    if isinstance(read.peek(key), (dict, list)):
        read.refuse(key, why="expected text")
        return None
    return read.text(key)


def _tags(read: Reading) -> list[str]:
    value = read.peek("tags")
    if isinstance(value, dict):
        read.get("tags")
        return [key if item is None else f"{key}={read.text('tags', key)}" for key, item in value.items()]
    if isinstance(value, list):
        return [read.text("tags", at) or "" for at, _ in read.items("tags")] or read.get("tags")
    text = read.text("tags")
    return [text] if text else []


def _command(read: Reading, inputs: Inputs, *, legacy: bool, folder: str) -> str:
    """Take the command, its code and its outputs; return the text as it was."""
    path: Path = ("launcher", "additional_arguments") if legacy and read.peek("launcher") else ("command",)
    outputs = read_outputs(read)
    code = _code(read, folder, legacy=legacy)
    text = read.get(*path)
    if not isinstance(text, str) or not text.strip():
        read.refuse(*path, why="there is no command", hint="write what is to run")
        return ""
    joined = one_line(text) if legacy else with_options(text)
    if joined != text and not legacy:
        why = "lines that begin with an option are joined to those before them"
        read.warn(*path, why=why, hint="write `command: >-`, or end each line that goes on with a backslash")
    translation = Translation(joined, inputs.params, outputs, legacy=legacy)
    for remark in translation.remarks:
        tell = read.refuse if remark.is_error else read.warn
        tell(*path, why=remark.message, hint=remark.hint)
    for name, ours in _OF_AZURE.items():
        if re.search(rf"\b{name}\b", text):
            read.warn(*path, why=f"{name} is Azure's own and is not set here", hint=f"write {ours}")
    lines = [f"{SUBMITTED_IN}=$PWD"] if translation.has_paths else []
    lines += [f"cd {protected(quote(code))} || exit"] if code not in ("", ".") else []
    folders = [f'"$HPCDIST_OUTPUTS/{output.name}"' for output in translation.used if not output.is_file]
    lines += [f"mkdir -p {' '.join(folders)}"] if folders else []
    read.put("run.cmd", "\n".join([*lines, translation.text]), *path)
    return text


def _code(read: Reading, folder: str, *, legacy: bool) -> str:
    """Return the folder in which the command runs, from the folder of the file on."""
    path: Path = ("code",)
    for key in ("local_path", "directory", "path"):
        if isinstance(read.peek("code"), dict) and read.peek("code", key) is not None:
            path = ("code", key)
    code = read.get(*path) if path != ("code",) or not isinstance(read.peek("code"), dict) else None
    if code is None:
        return folder if legacy else ""
    if not isinstance(code, str):
        read.refuse(*path, why=f"expected the path of a folder, got {code!r}")
        return ""
    if re.match(r"[A-Za-z][\w+.-]+:|git@", code) or code.endswith(".zip"):
        why, hint = f"the code {code!r} is not fetched", "check it out, and write its folder"
        read.warn(*path, why=why, hint=hint)
        return ""
    if re.search(r"\.(py|sh|ipynb|R|r|jl)$", code):  # a file, which Azure puts into a folder of its own
        code = posixpath.dirname(code)
    return posixpath.normpath(posixpath.join(folder, code))
