"""Makes a plan from an experiment file, with its machine, warnings and notes, in one call without output."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from pathlib import PurePath
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from hpcdist.base import ownership, resources
from hpcdist.base.errors import ConfigError, Path, Place, PlanError, Problem, located, preceded_by, warning
from hpcdist.base.tree import Document, Map, Seq, value_at
from hpcdist.base.words import slug
from hpcdist.experiment.batch import Dependency
from hpcdist.experiment.model import Experiment
from hpcdist.loading import load, machine, preferences, recognition, trials
from hpcdist.loading.load import Loaded
from hpcdist.loading.machine import Machine
from hpcdist.loading.preferences import Preferences
from hpcdist.plan.model import Plan
from hpcdist.plan.trials import TrialTexts
from hpcdist.plan.values import DEFAULT, Origin, Where, Word
from hpcdist.planner import container_choice, node_launches
from hpcdist.planner.make_plan import make_plan
from hpcdist.planner.worst_case import Cost, worst_case
from hpcdist.site.model import Site


class ExperimentOptions(NamedTuple):
    """An experiment file, and the options with which it is read.

    ``words``: a command line of another tool in place of the file, whose ``file`` is then only a name.
    ``site`` and ``site_path``: the machine, and folders in which sites are searched first. ``params`` and
    ``settings``: names and texts of ``-p`` and ``--set``. ``form`` and ``job``: the form of a file of another
    tool, and the name of one of its jobs. ``remote``: the config's remote that has the job.
    """

    file: str
    site: str | None = None
    site_path: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    form: str = ""
    job: str = ""
    words: tuple[str, ...] = ()
    remote: str | None = None

    @property
    def changes(self) -> list[str]:
        """The options that change the file or its reading, or name files of sites, as command-line words."""
        words = [word for name, text in self.params for word in ("-p", f"{name}={text}")]
        words += [word for name, text in self.settings for word in ("--set", f"{name}={text}")]
        words += ["--from", self.form] if self.form else []
        words += ["--name", self.job] if self.job else []
        own = self.site if self.site and FilePath(self.site).is_file() else None
        words += ["--site", str(FilePath(own).absolute())] if own else []
        words += [word for path in self.site_path for word in ("--site-path", str(FilePath(path).absolute()))]
        return words


class Planned(NamedTuple):
    """A plan, what it was made from, and all warnings and notes with their places, in order.

    ``trials``: the texts of each trial of a search. ``preferences``: the user's.
    """

    document: Document
    experiment: Experiment
    machine: Machine
    plan: Plan
    problems: tuple[Problem, ...]
    trials: Sequence[TrialTexts] = ()
    preferences: Preferences = preferences.NONE

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings, without the notes."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def unusual(self) -> tuple[Problem, ...]:
        """Notes about valid but unusual settings, such as a variable for debugging."""
        notes = (note for note in self.plan.notes if note.severity == "note")
        return tuple(located_once(notes, self.document))

    @property
    def cost(self) -> Cost | None:
        """What the job takes at most; None without a batch system, or without any time limit."""
        return worst_case(self.plan, self.experiment, self.machine.site)

    @property
    def summary(self) -> str:
        """What runs where, in a few words: ``8 tasks by srun, 2 nodes, 8 GPUs (site perlmutter)``."""
        return f"{self.plan.summary} (site {self.plan.identity.site})"


Awaiting = Callable[[Experiment, Site], Experiment]
"""Returns an experiment with the ids of jobs where it waits for runs, which only a runs directory knows."""


def _without_runs(experiment: Experiment, site: Site) -> Experiment:
    """Return the experiment, which must not wait for runs: no runs directory is known.

    Raises:
        ConfigError: if it does.
    """
    del site
    texts = experiment.batch.dependency
    for text in (texts,) if isinstance(texts, str) else texts:
        if any(job.is_run for wait in Dependency.parse(text).conditions for job in wait.jobs):
            message = f"{text!r} names a run, whose jobs are not looked up here"
            raise ConfigError(Problem(message, ("batch", "dependency"), "write the id of its job"))
    return experiment


def plan_experiment(
    options: ExperimentOptions,
    environment: Mapping[str, str] = os.environ,
    document: Document | None = None,
    awaiting: Awaiting = _without_runs,
    find: machine.Here | None = None,
) -> Planned:
    """Load the experiment, choose the site and make the plan.

    ``document``: the contents of a file that does not exist yet. ``awaiting``: `runs.awaited.resolved`.
    ``find``: as of `machine.choose`.

    Raises:
        ConfigError: when the experiment, the site file or the user's config is invalid.
        PlanError: when the experiment does not fit the site; both begin with the warnings and notes.
    """
    own = preferences.read(environment)
    read = native(options, document)
    loaded = load.checked(read)
    with preceded_by(loaded.problems):
        chosen = _machine(options, loaded, own, environment, find)
    so_far = (*loaded.problems, *chosen.problems, *_unknown_sites(own, chosen, options, environment))
    loaded = _named(preferences.with_defaults(loaded, own, chosen.site))
    document = loaded.document
    with preceded_by(so_far), located(lambda problem: _located(problem, document)):
        experiment = awaiting(loaded.experiment, chosen.site)
        plan = make_plan(experiment, chosen.site, origins(document))
    warned = (note for note in plan.notes if note.severity == "warning")
    scripts = dict(_scripts(options.file, plan))
    advice = (text for own in scripts.items() for text in node_launches.script_advice(plan, *own))
    more = (*map(warning, advice), *_param_warnings(read, scripts.values()))
    warnings = located_once((*warned, *more), document)
    return Planned(document, experiment, chosen, plan, (*so_far, *warnings), loaded.trials, own)


def loaded(options: ExperimentOptions, document: Document | None = None) -> Loaded:
    """Load the experiment alone: no site is chosen, and nothing is planned; see `plan_experiment`.

    Raises:
        ConfigError: when the experiment is invalid.
    """
    return load.checked(native(options, document))


def native(options: ExperimentOptions, document: Document | None = None) -> load.Native:
    """Return the file in native form, before its templates are filled in.

    Raises:
        ConfigError: when it cannot be read.
    """
    given = {"importer": options.form, "job": options.job}
    found = document or _document(options)
    return load.to_native(found, params=dict(options.params), settings=options.settings, **given)


def in_jobs(made: Planned, first: int = 1) -> list[Planned]:
    """Return the plan of each job; a search has several where one array cannot have all its trials.

    So has a training whose attempts are jobs that follow each other.

    ``first``: the number of the first of them in its run.

    Raises:
        PlanError: as `plan_experiment`.
    """
    restarts = made.plan.completion.restarts
    if restarts and restarts.is_followed:
        return [_numbered(made, number) for number in range(first, first + restarts.max + 1)]
    array, sweep = made.plan.request.array, made.plan.sweep
    size = array.size if sweep and array and not sweep.pack else max(1, len(made.trials))
    if len(made.trials) <= size:
        return [_numbered(made, first)]
    parts = (made.trials[place : place + size] for place in range(0, len(made.trials), size))
    return [of_trials(made, part, number) for number, part in enumerate(parts, first)]


def of_trials(made: Planned, chosen: Sequence[TrialTexts], number: int) -> Planned:
    """Return the plan of the run's job with this number, which runs these trials of the search.

    Raises:
        PlanError: as `plan_experiment`.
    """
    search = made.experiment.hptuning
    only = search and search.of_trials([dict(trial.params) for trial in chosen])
    experiment = msgspec.structs.replace(made.experiment, hptuning=only)
    return _numbered(made._replace(plan=replanned(made, experiment).plan, trials=chosen), number)


def alone(made: Planned, number: int | None) -> Planned:
    """Return the plan of one trial of a search as a separate job; a plan without trials stays the same.

    Raises:
        ConfigError: if there is no such trial.
    """
    if not made.trials and number is None:
        return made
    one = next((trial for trial in made.trials if trial.number == (number or 1)), None)
    if one is None:
        hint = f"it has 1 to {len(made.trials)}" if made.trials else "only searches have trials: leave it out"
        raise ConfigError(Problem(f"there is no trial {number}", hint=hint))
    run, own = made.experiment.run, made.experiment.environment
    program = {"args": one.command} if run.starts_entrypoint else {"cmd": one.command}
    experiment = msgspec.structs.replace(
        made.experiment,
        hptuning=None,
        run=msgspec.structs.replace(run, **program),
        batch=msgspec.structs.replace(made.experiment.batch, pack=None),
        environment=msgspec.structs.replace(own, env_vars={**own.env_vars, **one.variables}),
    )
    return replanned(made, experiment)


def replanned(made: Planned, experiment: Experiment) -> Planned:
    """Return the plan of another experiment of the same file, on the same machine.

    Raises:
        PlanError: as `plan_experiment`.
    """
    with located(lambda problem: _located(problem, made.document)):
        plan = make_plan(experiment, made.machine.site, origins(made.document))
    return made._replace(plan=plan, experiment=experiment)


def _numbered(made: Planned, number: int) -> Planned:
    identity = msgspec.structs.replace(made.plan.identity, number=number)
    return made._replace(plan=msgspec.structs.replace(made.plan, identity=identity))


def _document(options: ExperimentOptions) -> Document:
    if options.words:
        return recognition.read_words(options.words, options.form)
    return recognition.read(options.file)


def located_once(problems: Iterable[Problem], document: Document) -> Iterable[Problem]:
    """Return problems with their places; equal ones of one place, as from several replicas, once."""
    found: dict[object, Problem] = {}
    for problem in (_located(problem, document) for problem in problems):
        found.setdefault((problem.message, problem.place or problem.path), problem)
    return found.values()


def _located(problem: Problem, document: Document) -> Problem:
    return document.locate(problem) if problem.path else problem


def _machine(
    options: ExperimentOptions,
    loaded: Loaded,
    own: Preferences,
    environment: Mapping[str, str],
    find: machine.Here | None,
) -> Machine:
    """Return the chosen site; without a batch system, with a launcher that is installed."""
    batch = loaded.experiment.batch
    in_file = (batch.site, loaded.document.place(("batch", "site")))
    folders = resources.site_folders(options.site_path, environment)
    chosen = machine.choose(options.site, folders, own, in_file, environment, find)
    if batch.launcher_name:
        return chosen
    return machine.with_working_launcher(chosen, loaded.experiment.framework, environment)


def _unknown_sites(
    own: Preferences, chosen: Machine, options: ExperimentOptions, environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a warning for each section of the user's config whose site does not exist."""
    if own.config.sites:
        known = resources.site_files(resources.site_folders(options.site_path, environment))
        yield from preferences.unknown_sites(own, {chosen.site.name, *known})


def _scripts(file: str, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the scripts in the experiment file's folder that the command, or one of them, runs."""
    scripts = [*node_launches.scripts_of(plan.identity.command)] if file != "-" else []
    for script in scripts:  # it grows
        try:
            with ownership.open_regular((FilePath(file).parent / script).resolve()) as stream:
                head = stream.read(node_launches.MOST).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        yield script, head
        inner = node_launches.scripts_of(head) if not script.endswith(".py") else ()
        new = dict.fromkeys(one for one in inner if one not in scripts)
        scripts += [*new][: max(0, 20 - len(scripts))]  # enough for any that people write


def _param_warnings(read: load.Native, scripts: Iterable[str]) -> Iterator[Problem]:
    """Yield a warning for each param of a native file that nothing uses, and for lists in the command."""
    params, run = read.document.data.get("params"), read.document.data.get("run")
    if read.origins or not isinstance(params, Map) or any(map(_READS_PARAMS.search, scripts)):
        return
    command = str(run.get("cmd")) if isinstance(run, Map) else ""
    for name, value in params.items():
        if isinstance(value, Seq) and re.search(rf"\{{\{{-? *(?:params\.)?{name} *-?\}}\}}", command):
            what = f"the param {name!r} is a list, and the command gets all of it"
            values = f"hptuning: {{matrix: {{{name}: {{values: {[*value]}}}}}}}"
            yield Problem(what, ("params", name), f"for a trial with each value write `{values}`", "warning")
        elif not any(trials.uses(read.document, name)):
            shown = re.search(rf"\$\{{{name}\}}|\$?\{{{name}\}}|\${name}\b", command)
            what = (
                f"{shown[0]} in the command is not the param" if shown else f"nothing uses the param {name!r}"
            )
            hint = f"write `{{{{ {name} }}}}` in `run.cmd` where its value belongs"
            yield Problem(what, ("params", name), hint, "warning")


_READS_PARAMS: Final = re.compile(r"POLYAXON_PARAMS|get_params|get_inputs")
"""How a program reads params that no template passes on."""


def origins(document: Document) -> Where:
    """Return a function from paths to origins: ``exp.yml:14``, ``--set batch.walltime``, ``default``."""

    def where(path: Path) -> Origin:
        place = document.place(path) if value_at(document.data, path) is not None else None
        return Origin("place", machine.origin(place)) if place else DEFAULT

    return where


def _named(loaded: Loaded) -> Loaded:
    """Return the experiment, named after its file if it has no name."""
    document = loaded.document
    if document.data.get("name") is not None or document.file == "<stdin>":
        return loaded
    name = slug(PurePath(document.file).stem)
    data = document.data.copy()
    data.put("name", name, Place(f"the name of {document.file}", 0, 0))
    experiment = msgspec.structs.replace(loaded.experiment, name=name)
    return loaded._replace(experiment=experiment, document=document._replace(data=data))


# --- The plan of an allocation in which a shell, or a command of the user's, runs in place of the program

_ORIGIN = Origin("rule", "hpcdist shell")


def with_shell(made: Planned, command: Sequence[str]) -> Planned:
    """Return the plan with a shell, or this command, in the container of the experiment if it has one.

    It is not started again, and its output goes to the terminal.

    Raises:
        PlanError: for an array or a search, or as `planning.plan_experiment`.
    """
    own = made.experiment
    key = ("hptuning",) if own.hptuning else ("batch", "array")
    if own.hptuning or own.batch.array is not None:
        problem = Problem(
            "a shell is one job, and this experiment makes several", key, "remove it, or set it to null"
        )
        raise PlanError(made.document.locate(problem))
    batch = replace(own.batch, output=None, error=None)
    environment = replace(own.environment, restart=None, max_restarts=None)
    made = replanned(made, replace(own, batch=batch, environment=environment))
    return made._replace(plan=replace(made.plan, shell=tuple(_words(made, command))))


def _words(made: Planned, command: Sequence[str]) -> Iterator[Word]:
    plan, site = made.plan, made.machine.site
    if plan.container:
        inside = replace(plan, container=replace(plan.container, entrypoint=False))
        by_launcher = container_choice.launcher_words(inside, site, inside.environment)
        if by_launcher:  # srun starts the container
            yield Word.raw('srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" --mpi=none', _ORIGIN)
            yield Word.raw("${terminal:+--pty}", _ORIGIN)
            yield from by_launcher
        yield from container_choice.words(inside, site)
    if command:
        yield from (Word(text=word, origin=_ORIGIN) for word in command)
    else:
        yield Word.raw('"${shell[@]}"', _ORIGIN)
