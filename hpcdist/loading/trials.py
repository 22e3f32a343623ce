"""The trials of a search: the experiment is the first trial's; the others differ in their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from hpcdist.base import fields
from hpcdist.base.errors import Path, Problem, errors_in, warning
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.experiment.launch_line import user_launch, with_own_hostfile
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import search_problems
from hpcdist.experiment.program import Run
from hpcdist.experiment.replicas import task_command
from hpcdist.experiment.search import Search, Space
from hpcdist.experiment.shell_words import START
from hpcdist.experiment.trials import Trial, trials
from hpcdist.layers.frameworks import framework_of
from hpcdist.layers.variables import polyaxon_params
from hpcdist.loading import inputs, templates
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.trials import TrialTexts

_SEARCH: Final = ("hptuning",)
_MATRIX: Final = ("hptuning", "matrix")
_VARIABLES: Final = ("environment", "env_vars")
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_OWN: Final = (("run", "cmd"), ("run", "args"), _VARIABLES)
"""Where trials may differ."""


class Searched(NamedTuple):
    """A document with the params of the first trial, and all trials; ``unknown``: params without a value.

    ``params``: the file's, which trials have besides their own. ``warnings``: of the file's values that no
    trial has.
    """

    document: Document
    trials: Sequence[Trial] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    params: Map | None = None


def searched(document: Document) -> Searched:
    """Return the document with the params of the first trial of its search, if it has one.

    Making the experiment reports the search's problems; an invalid search has no trials.
    """
    section = document.data.get("hptuning")
    if not isinstance(section, Map):
        return Searched(document)
    search, problems = fields.build(Search, section)
    if search is None or problems or errors_in([*search_problems(search, _SEARCH)]):
        return Searched(document, unknown=search.names if search else ())
    found = [inputs.whole(document.data.get("inputs"), one) for one in trials(_as_spelt(search, section))]
    data, given = document.data.copy(), document.data.get("params")
    own = given if isinstance(given, Map) else None
    data.put("params", _params(document, own, found[0]), document.place(("params",)))
    warnings = tuple(_replaced(document, own or Map(), found))
    return Searched(document._replace(data=data), found, warnings=warnings, params=own)


def _replaced(document: Document, given: Map, found: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a warning for each param of the file whose value no trial has."""
    for name, value in given.items():
        if value is not None and all(name in trial for trial in found):
            message = f"the param {name!r} has the values of the search, and not this one"
            yield document.locate(warning(message, ("params", name), "remove one of them"))


def texts_of(searched: Searched, experiment: Experiment) -> tuple[Sequence[TrialTexts], list[Problem]]:
    """Return the texts of each trial, or the problems that keep the trials from being one job."""
    document, search = searched.document, experiment.hptuning
    if not searched.trials or search is None:
        return (), []
    unused = _unused(document, search)
    problems = [*unused, *(problem for name in search.names for problem in _misused(document, name))]
    if errors_in(problems):
        return (), problems
    maker, found = _Maker(document, experiment), []
    for number, trial in enumerate(searched.trials, 1):
        own, problems = maker.texts(_params(document, searched.params, trial))
        if problems:
            return (), [_of_trial(number, problems[0], search)]
        found.append(TrialTexts({name: str(value) for name, value in trial.items()}, *own, number))
    return found, [*unused, *searched.warnings]


def _misused(document: Document, name: str) -> Iterator[Problem]:
    """Yield the problem of each text outside the program that a param changes."""
    for path in uses(document, name):
        if path[:2] not in _OWN:
            message = f"the trials of a search have one job, which the param {name!r} would change"
            yield Problem(message, path, "use it in `run.cmd` and in `environment.env_vars`")


def _unused(document: Document, search: Search) -> list[Problem]:
    """Return a warning for each param that no command uses, or one for all.

    Programs of Polyaxon 0.x may read params from one variable.
    """
    unused = [name for name in search.names if not any(True for _ in uses(document, name))]
    if len(unused) == len(search.names):
        message = "no command uses the params of the search: the program must read them from POLYAXON_PARAMS"
        return [warning(message, _SEARCH, f"or write `{{{{ {unused[0]} }}}}` in `run.cmd`")]
    return [
        warning(
            f"no command uses the param {name!r}: the program must read it from POLYAXON_PARAMS",
            _path_of(name, search),
            f"or write `{{{{ {name} }}}}` in `run.cmd`, or in a variable of `environment.env_vars`",
        )
        for name in unused
    ]


def uses(document: Document, name: str) -> Iterator[Path]:
    """Yield the paths of the texts with this word in a template."""
    word = re.compile(rf"\b{name}\b")
    for path, text in _templates(document.data, ()):
        if any(map(word.search, _TEMPLATE.findall(text))):
            yield path


def _templates(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the texts with templates that are filled in."""
    if isinstance(node, str) and templates.has_template(node):
        yield path, node
    entries = node.items() if isinstance(node, Map) else enumerate(node) if isinstance(node, Seq) else ()
    for step, item in entries:
        if path or templates.is_rendered(str(step)):
            yield from _templates(item, (*path, step))


def _of_trial(number: int, problem: Problem, search: Search) -> Problem:
    """Return a problem of one trial, placed at its param's values, or at the trial in a list."""
    name = problem.path[1] if len(problem.path) > 1 and problem.path[0] == "params" else None
    path = _path_of(str(name), search) if name in search.names else problem.path
    if search.mapping and path[0] in {"hptuning", "inputs"}:
        path = ("hptuning", "mapping", number - 1)
    return problem._replace(message=f"trial {number}: {problem.message}", path=path)


def _path_of(name: str, search: Search) -> Path:
    """Return the place of the values that a param of the search may have."""
    if search.hyperband and name == search.hyperband.resource.name:
        return ("hptuning", "hyperband", "resource")
    return (*_MATRIX, name) if name in search.matrix else ("hptuning", "mapping")


class _Maker:
    """Makes the texts of each trial; what they share is compiled once."""

    def __init__(self, document: Document, experiment: Experiment) -> None:
        self._data, self._experiment = document.data, experiment
        self._filler = templates.Filler({})
        self._launches = framework_of(experiment).topology(experiment).task == "node"
        self._launch = self._launch_of(experiment)

    def texts(self, params: Map) -> tuple[tuple[str, Mapping[str, str]], list[Problem]]:
        """Return the command and the variables of a trial with these params, and its problems."""
        values, shown, problems = inputs.resolve(self._data.get("inputs"), params)
        self._filler.use(shown)
        run, _ = fields.build(Run, self._filler.filled(self._data["run"], ("run",)))
        variables = self._filler.filled(self._own_variables(), _VARIABLES)
        if problems or self._filler.problems or run is None:
            return ("", {}), [*problems, *self._filler.problems]
        experiment = with_own_hostfile(msgspec.structs.replace(self._experiment, run=run))
        if self._launch_of(experiment) != self._launch:
            message = "its launch differs from that of trial 1, and both would have to be one job"
            return ("", {}), [Problem(message, ("run", "cmd"), "submit an experiment for each")]
        own = {name: variables.texts.get(name, text_of(value)) for name, value in variables.items()}
        return (
            task_command(experiment, launches=self._launches),
            {**polyaxon_params(values), **own},
        ), []

    def _launch_of(self, experiment: Experiment) -> object:
        """Return whether processes are started within the command, and the words of the user's launch."""
        launch = user_launch(experiment.run.command)
        starts = self._launches and START in task_command(experiment, launches=True)
        return starts, launch and (launch.program, launch.words[: launch.head + launch.end])

    def _own_variables(self) -> Map:
        found = self._data.get("environment", {}).get("env_vars") or Map()
        return Map({name: text for name, text in found.items() if [*_templates(text, _VARIABLES)]})


def _as_spelt(search: Search, section: Map) -> Search:
    """Return the search with the numbers of its lists as templates render them: in their source spelling."""
    matrix = {name: _spelt_space(space, section["matrix"][name]) for name, space in search.matrix.items()}
    mapping = (
        {name: inputs.as_spelt(value, given.texts.get(name, str(value))) for name, value in trial.items()}
        for trial, given in zip(search.mapping, section.get("mapping") or (), strict=True)
    )
    return msgspec.structs.replace(search, matrix=matrix, mapping=tuple(mapping))


def _spelt_space(space: Space, section: Map) -> Space:
    if space.values is None:
        return space
    texts: Mapping[int, str] = section["values"].texts
    values = (inputs.as_spelt(one, texts.get(at, str(one))) for at, one in enumerate(space.values))
    return msgspec.structs.replace(space, values=tuple(values))


def _params(document: Document, given: Map | None, trial: Trial) -> Map:
    """Return the file's params with a trial's."""
    params = Map(place=document.place(_SEARCH)) if given is None else given.copy()
    for name, value in trial.items():
        params.put(name, None, document.place((*_MATRIX, name)))
        inputs.put_spelt(params, name, value)
    return params
