"""From what the user typed to a plan: load, choose the site, plan; every problem with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path as FilePath
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from hpcdist.cli import machine
from hpcdist.cli.machine import Machine
from hpcdist.cli.tell import located, tell
from hpcdist.documents import source
from hpcdist.documents.tree import Document
from hpcdist.errors import Path, Place, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.host import resources, untrusted
from hpcdist.loading import load, preferences
from hpcdist.loading.load import Loaded
from hpcdist.loading.preferences import Preferences
from hpcdist.plan.model import Plan
from hpcdist.planner import script_advice
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import summary
from hpcdist.words import slug


class Asked(NamedTuple):
    """An experiment file, what the command line changes in it, and its ``form`` and ``job``, if said."""

    file: str
    site: str | None = None
    site_path: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    form: str = ""
    job: str = ""

    @property
    def changes(self) -> list[str]:
        """The options that change the file, or how it is read, word by word."""
        words = [word for name, text in self.params for word in ("-p", f"{name}={text}")]
        words += [word for name, text in self.settings for word in ("--set", f"{name}={text}")]
        words += ["--from", self.form] if self.form else []
        words += ["--name", self.job] if self.job else []
        return words


class Session(NamedTuple):
    """A plan and what it was made of."""

    document: Document
    experiment: Experiment
    machine: Machine
    plan: Plan
    warnings: tuple[Problem, ...]

    @property
    def summary(self) -> str:
        """In a few words what runs where: ``8 tasks by srun, 2 nodes, 8 GPUs (site perlmutter)``."""
        return f"{summary(self.plan)} (site {self.plan.site})"


def session(asked: Asked, document: Document | None = None) -> Session:
    """Load the experiment, choose the site and make the plan; tell warnings as they come.

    ``document`` is what the file will hold where it is not yet there.

    Raises:
        ConfigError: when the experiment, the site file or the user's config is broken.
        PlanError: when the site cannot take the experiment.
    """
    own = preferences.read(os.environ)
    document = document or source.load(asked.file, several=True)
    native = load.to_native(
        document, params=dict(asked.params), settings=asked.settings, importer=asked.form, job=asked.job
    )
    loaded = load.checked(native)
    tell(loaded.problems)
    chosen = _machine(asked, loaded, own)
    tell(preferences.unknown_sites(own, {chosen.site.name, *_site_names(asked)}))
    loaded = _named(preferences.filled(loaded, own, chosen.site))
    document, experiment = loaded.document, loaded.experiment
    with located(lambda problem: document.locate(problem) if problem.path else problem):
        plan = make_plan(experiment, chosen.site, origins(document))
    said = (*plan.warnings, *_of_its_script(asked.file, plan))
    warnings = tuple(Problem(text, severity="warning") for text in said)
    tell(warnings)
    return Session(document, experiment, chosen, plan, (*loaded.problems, *warnings))


def _of_its_script(file: str, plan: Plan) -> Iterator[str]:
    """Yield what the imports of the command's script tell, where that lies beside the experiment's file."""
    script = script_advice.script_of(plan.command)
    if script and file != "-":
        try:
            with untrusted.opened((FilePath(file).parent / script).resolve()) as stream:
                head = stream.read(script_advice.MOST).decode("utf-8", "replace")
        except (OSError, ValueError):
            return
        yield from script_advice.advice(plan, script, head)


def origins(document: Document) -> Callable[[Path], str]:
    """Return what tells where a value comes from: ``exp.yml:14``, ``--set batch.walltime``, ``default``."""

    def where(path: Path) -> str:
        place = document.place(path) if _has(document, path) else None
        return machine.origin(place) if place else "default"

    return where


def _has(document: Document, path: Path) -> bool:
    node: Any = document.data
    for step in path:
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            return False
    return node is not None


def _named(loaded: Loaded) -> Loaded:
    """Return the experiment under the name of its file where it has none of its own."""
    document = loaded.document
    if _has(document, ("name",)) or document.file == "<stdin>":
        return loaded
    name = slug(PurePath(document.file).stem)
    data = document.data.copy()
    data.put("name", name, Place(f"the name of {document.file}", 0, 0))
    experiment = msgspec.structs.replace(loaded.experiment, name=name)
    return loaded._replace(experiment=experiment, document=document._replace(data=data))


def _site_names(asked: Asked) -> Collection[str]:
    return resources.site_files(resources.site_folders(asked.site_path))


def _machine(asked: Asked, loaded: Loaded, own: Preferences) -> Machine:
    """Return the site, where it has no batch system with a launcher that this machine has."""
    batch = loaded.experiment.batch
    in_file = (batch.site, loaded.document.place(("batch", "site")))
    chosen = machine_of(asked.site, asked.site_path, own, in_file)
    if batch.launcher_name:
        return chosen
    return chosen._replace(site=machine.with_working_launcher(chosen.site, loaded.experiment.framework))


def machine_of(
    option: str | None,
    site_path: tuple[str, ...],
    own: Preferences,
    in_file: tuple[str | None, Place | None] = (None, None),
) -> Machine:
    """Return the site that is said, as `machine.said` finds it, else this machine's.

    Raises:
        ConfigError: when there is none of that name, its file is broken, or this machine could be several.
    """
    folders = resources.site_folders(site_path)
    return machine.said(option, folders, own, in_file) or machine.this(folders)
