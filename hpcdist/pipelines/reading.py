"""A file with several operations becomes a pipeline, with all of its problems at once."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from hpcdist.documents import source
from hpcdist.documents.tree import Document, Map, Seq
from hpcdist.errors import ConfigError, Key, Path, Place, Problem, did_you_mean, errors_in, unknown
from hpcdist.loading import recognition
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.pipelines import importing, references
from hpcdist.pipelines.model import Need, Operation, Pipeline
from hpcdist.pipelines.needs import needs_of
from hpcdist.words import RUN_NAME, RUN_NAME_FORM, slug

_KEYS: Final = ("version", "kind", "name", "description", "params", "operations")
_OWN: Final = ("name", "needs", "dependencies", "file", "path")
_FOR_ALL: Final = "batch.container"
"""The one setting that is of all operations: ``--no-container``."""

_SETTING: Final = re.compile(r"--set ('?)(?=[a-z])(?!batch\.container\b)")
_PARAM: Final = re.compile(r"(?<![\w-])-p ('?)(?=\w)")
_SYNONYMS: Final = (("needs", "dependencies"), ("file", "path"))


def is_pipeline(document: Document, form: str = "") -> bool:
    """Return whether a file has several operations.

    Raises:
        ConfigError: if it is a pipeline of another tool that no batch system runs.
    """
    is_own = document.data.get("kind") == "pipeline" or importing.is_dag(document.data)
    return is_own or bool(importing.steps_of(document, form))


def read(document: Document, options: ExperimentOptions) -> Pipeline:
    """Return the pipeline of a file; ``-p`` sets its params, ``--set OPERATION.KEY`` a key of an operation.

    Raises:
        ConfigError: with all problems of the file as a pipeline; those of experiments come when planned.
    """
    reading = _Reading(importing.as_pipeline(document, options.form), options)
    pipeline = reading.pipeline()
    if errors_in(reading.problems):
        shown = (one for one in reading.problems if one.severity != "note")
        located = map(reading.document.locate, shown)
        raise ConfigError(*sorted(located, key=lambda one: one.place or Place("", 0, 0)))
    return pipeline._replace(problems=tuple(map(reading.document.locate, reading.problems)))


class _Reading:
    """The document while it is read, and the problems so far."""

    def __init__(self, document: Document, options: ExperimentOptions) -> None:
        self.document, self.options = document, options
        self.problems: list[Problem] = []
        self.params = self._params()

    def pipeline(self) -> Pipeline:
        data = self.document.data
        for key in data:
            if key not in _KEYS:
                hint = did_you_mean(key, _KEYS)
                self._refuse("a pipeline has no such key", (Key(key),), hint)
        name = data.get("name") or slug(FilePath(self.document.file).stem)
        if not RUN_NAME.fullmatch(str(name)):
            self._refuse(f"{name!r} cannot be the name of a pipeline", ("name",), RUN_NAME_FORM)
        listed = data.get("operations")
        if not isinstance(listed, Seq) or not listed:
            self._refuse("a pipeline has a list of operations", ("operations",), "write `- name: ...`")
            listed = Seq()
        named = [*self._named(listed)]
        known = [name for _, name, _ in named]
        found = [self._operation(("operations", at), own, body, known) for at, own, body in named]
        self._check_settings(known)
        ordered = self._ordered(found)
        if not errors_in(self.problems):
            self.problems += _alone(found)
            self.problems += self._unused_params(found)
        return Pipeline(str(name), self.document, ordered, self.params)

    def _named(self, listed: Sequence[Any]) -> Iterator[tuple[int, str, Map]]:
        """Yield the operations that have a name of their own."""
        seen: dict[str, int] = {}
        for at, body in enumerate(listed):
            path: Path = ("operations", at)
            name = body.get("name") if isinstance(body, Map) else None
            if name is None:
                self._refuse("an operation has a name", path, "write `- name: prep`")
            elif not RUN_NAME.fullmatch(str(name)) or str(name).isdecimal():
                hint = f"{RUN_NAME_FORM}, one letter at least"
                self._refuse(f"{name!r} cannot be the name of an operation", (*path, "name"), hint)
            elif str(name) in seen:
                first = self.document.place(("operations", seen[str(name)], "name"))
                line = first.line if first else 0
                message = f"there are two operations {str(name)!r}; the other one is in line {line}"
                self._refuse(message, (*path, "name"), "give each a name of its own")
            else:
                seen[str(name)] = at
                yield at, str(name), body

    def _operation(self, path: Path, name: str, body: Map, known: Sequence[str]) -> Operation:
        rest = body.copy()
        for key in _OWN:
            rest.drop(key)
        for first, second in _SYNONYMS:
            if first in body and second in body:
                hint = f"put both into `{first}`" if first == "needs" else "remove one of both"
                self._refuse(
                    f"an operation has `{first}` or `{second}`, not both", (*path, Key(second)), hint
                )
        own_needs, problems = needs_of(body, rest, path, [one for one in known if one != name])
        self.problems += problems
        needs = {need.operation: need._replace(place=self.document.place(where)) for where, need in own_needs}
        self.problems += references.problems(rest, path)
        self.problems += self._unused(path, name, needs, rest)
        own = self.options._replace(params=(), settings=tuple(self._settings(name)))
        place = self.document.place((*path, "name"))
        file = next((body[key] for key in ("file", "path") if key in body), None)
        if file is None:
            inline = self.document._replace(data=rest, others=())
            return Operation(name, own, inline, (*needs.values(),), place=place)
        own, document = self._of_file(path, str(file), own, rest)
        given = self._given(path, rest)
        return Operation(name, own, document, (*needs.values(),), is_inline=False, place=place, params=given)

    def _of_file(
        self, path: Path, file: str, own: ExperimentOptions, rest: Map
    ) -> tuple[ExperimentOptions, Document]:
        """Return the options and the document of an experiment in another file."""
        for key in rest:
            if key != "params":
                hint = f"write it into {file}, or set it: `--set OPERATION.{key}=...`"
                self._refuse("an operation with a file has only params besides", (*path, Key(key)), hint)
        where = FilePath(self.document.file).parent / file
        try:
            document = recognition.read(where)
        except ConfigError as error:
            found = (one if one.place and one.place.line else one._replace(place=None, path=(*path, "file"))
                     for one in error.problems)  # fmt: skip
            self.problems += found
            document = self.document._replace(data=Map())
        return own._replace(file=str(where), form=""), document

    def _given(self, path: Path, rest: Map) -> Map:
        """Return the params of an operation whose experiment is in another file."""
        given = rest.get("params") or Map()
        if isinstance(given, Map):
            return given
        self._refuse("params are keys and values", (*path, "params"), "write `params: {NAME: VALUE}`")
        return Map()

    def _unused(self, path: Path, name: str, needs: Mapping[str, Need], rest: Map) -> Iterator[Problem]:
        used = {other for _, other in references.operations(rest)}
        for other, need in needs.items():
            if other not in used and need.condition == "afterok":
                message = f"{name} waits for {other}, and uses none of its outputs"
                hint = f"its folder is `{{{{ ops.{other}.outputs.path }}}}`"
                yield Problem(message, path, hint, "note", need.place)

    def _params(self) -> dict[str, object]:
        declared = self.document.data.get("params") or Map()
        if not isinstance(declared, Map):
            self._refuse("params are keys and values", ("params",), "write `params: {NAME: VALUE}`")
            declared = Map()
        params = dict(declared)
        for name, text in self.options.params:
            place = Place(f"-p {name}={text}", 0, 0)
            if name not in declared:
                self.problems.append(unknown("param", name, declared)._replace(place=place))
            else:
                params[name] = source.read_value(text, place)
        return params

    def _unused_params(self, found: Sequence[Operation]) -> Iterator[Problem]:
        """Yield a warning for each param of the pipeline that no operation uses."""
        taken = (one.document.data if one.is_inline else one.params for one in found)
        used = {name for data in taken for name in references.params(data)}
        for name in self.params:
            if name not in used:
                hint = f"write `{{{{ params.{name} }}}}` where it belongs, or remove it"
                message = f"no operation uses the param {name!r}"
                yield Problem(message, ("params", Key(name)), hint, "warning")

    def _settings(self, name: str) -> Iterator[tuple[str, str]]:
        for key, text in self.options.settings:
            operation, _, rest = key.partition(".")
            if key == _FOR_ALL:
                yield key, text
            elif operation == name and rest:
                yield rest, text

    def _check_settings(self, known: Sequence[str]) -> None:
        for key, text in self.options.settings:
            operation, dot, _ = key.partition(".")
            if (operation not in known or not dot) and key != _FOR_ALL:
                place = Place(f"--set {key}={text}", 0, 0)
                hint = f"write OPERATION.{key}; {did_you_mean(operation, known)}"
                message = "a setting of a pipeline begins with the name of an operation"
                self.problems.append(Problem(message, hint=hint, place=place))

    def _ordered(self, found: Sequence[Operation]) -> tuple[Operation, ...]:
        """Return the operations, each behind those that it needs, else in the order of the file."""
        by_name = {one.name: one for one in found}
        sorter = graphlib.TopologicalSorter({one.name: [n.operation for n in one.needs] for one in found})
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            circle = error.args[1][::-1]
            places = {need.operation: need.place for need in by_name[circle[0]].needs}
            message = f"these operations wait for each other: {' needs '.join(circle)}"
            hint = "remove one of these needs, or the reference to outputs that implies it"
            self.problems.append(Problem(message, (), hint, place=places.get(circle[1])))
            return tuple(found)
        ordered: list[Operation] = []
        while sorter.is_active():
            ready = sorter.get_ready()
            ordered += [one for one in found if one.name in ready]
            sorter.done(*ready)
        return tuple(ordered)

    def _refuse(self, message: str, path: Path, hint: str = "") -> None:
        self.problems.append(Problem(message, path, hint))


def _alone(found: Sequence[Operation]) -> Iterator[Problem]:
    """Yield a warning for each operation that no other one is connected with."""
    needed = {need.operation for one in found for need in one.needs}
    for one in found:
        if len(found) > 1 and not one.needs and one.name not in needed:
            message = f"nothing uses the outputs of {one.name} or waits for it, and it waits for nothing"
            yield Problem(message, (), "is a `needs` missing?", "warning", one.place)


def places(problems: Iterable[Problem], operation: Operation) -> list[Problem]:
    """Return problems of an operation as those of its pipeline.

    Those of its dependency are at the place of what it needs. Options that a text or a place has are those
    of the pipeline: ``--set OPERATION.KEY``.
    """
    at, name = next((need.place for need in operation.needs), operation.place), operation.name
    found = [
        one._replace(message=f"{name}: {one.message}", place=at)
        if one.path == ("batch", "dependency") and operation.needs
        else one
        for one in problems
    ]
    return [
        one._replace(
            message=_of_pipeline(one.message, name),
            hint=_of_pipeline(one.hint, name),
            place=_option(one.place, name),
        )
        for one in found
    ]


def _of_pipeline(text: str, name: str) -> str:
    """Return a text with options for this operation alone in place of those for one experiment."""
    own = _SETTING.sub(lambda match: f"--set {match[1]}{name}.", text)
    return _PARAM.sub(lambda match: f"--set {match[1]}{name}.params.", own)


def _option(place: Place | None, name: str) -> Place | None:
    """Return a place as the user typed it, where it is an option."""
    if place is None or not place.file.startswith("--set ") or place.file.startswith(f"--set {_FOR_ALL}="):
        return place
    return place._replace(file=_of_pipeline(place.file, name))
