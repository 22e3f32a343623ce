"""``hpcdist check job.sh``: what is wrong with a job script, on its site, and its mended copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.base.errors import ConfigError, HpcdistError, Place, Problem
from hpcdist.base.tree import Document, value_at
from hpcdist.base.units import Walltime
from hpcdist.cli.experiment import new_file
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.session import planned, remote_of, runs_here
from hpcdist.cli.site.doctor_env import lint_context, site_of_env
from hpcdist.importers.job_scripts import lint
from hpcdist.importers.job_scripts.directives import SYSTEMS
from hpcdist.loading import machine, planning, preferences
from hpcdist.loading.machine import Machine
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.plan.values import Origin, Variable
from hpcdist.planner import lint as lint_variables

_KEY: Final = re.compile(r"`batch: \{(\w+): ([^{}]+)\}`")


def check(options: ExperimentOptions, document: Document, *, fix: bool) -> Planned:
    """Print what is wrong with a job script, and return its plan; ``fix``: write its mended copy.

    Without a site of its batch system, it is planned on the site of which nothing is known, and only what
    concerns its launch lines is printed of that. What the import changes is only counted.

    Raises:
        HpcdistError: with all errors.
    """
    print_problems(lint.problems(document, lambda folder: _is_missing(options.file, folder)))
    print_problems(_variables(options, document))
    if fix:
        _write_mended(options.file, document)
    native = planning.native(options, document)
    system = str(document.data["job_script"])
    here, unknown = machine.here(), list[Machine]()

    def find(folders: Sequence[Path]) -> Machine:
        found = here(folders)
        if found.site.scheduler != system:
            unknown.append(machine.choose(system, folders, preferences.NONE, environment={}))
        return unknown[-1] if unknown else found

    def own(problems: Iterable[Problem]) -> Iterator[Problem]:
        for one in problems:
            is_advice = one not in native.problems and one.path[:2] != ("environment", "env_vars")
            if one.severity == "error" or (is_advice and (one.path[:1] == ("run",) or not unknown)):
                is_missing = one.path[:1] == ("batch",) and value_at(native.document.data, one.path) is None
                place = Place(document.file, 1, 1) if is_missing else one.place
                yield one._replace(hint=_as_directive(system, one.hint), place=place)

    try:
        made = planned(options, document, runs_dir=runs_here(), shown=False, find=find)
    except HpcdistError as error:
        raise type(error)(*own(error.problems)) from None
    changes = sum(one.severity == "warning" for one in native.problems)
    print_problems([*own(made.problems), *([_changed(document.file, changes)] if changes else ())])
    return made._replace(problems=tuple(own(made.problems)))


def _changed(file: str, changes: int) -> Problem:
    message = f"`hpcdist submit` runs it with {changes} change{'s' * (changes > 1)}"
    hint = f"`hpcdist import {file}` lists them"
    return Problem(message, hint=hint, severity="note", place=Place(file, 0, 0))


def _variables(options: ExperimentOptions, document: Document) -> Iterator[Problem]:
    """Yield what is wrong with exported variables of NCCL and others, on the site if it is known."""
    places = {
        Origin("place", str(place)): (name, value, place) for name, value, place in lint.exported(document)
    }
    variables = [Variable(name=name, value=value, origin=at) for at, (name, value, _) in places.items()]
    remote = remote_of(options).site if options.remote is not None else None
    site = site_of_env(options.site or remote, options.site_path)
    for found in lint_variables.findings(variables, lint_context(site)):
        if found.severity != "note":
            place = places[found.origin][2]
            yield Problem(found.text, ("variable",), found.hint, found.severity, place)


def _is_missing(file: str, folder: str) -> bool:
    """Whether a folder exists neither here nor beside the script; of an absolute one, only the last part."""
    path = Path(folder)
    there = any((base / path).is_dir() for base in (Path(), Path(file).parent))
    return not there and (not path.is_absolute() or path.parent.is_dir())


def _write_mended(file: str, document: Document) -> None:
    """Write the mended copy beside the script, unless there is nothing to mend.

    Raises:
        ConfigError: when the copy exists, or there is no file.
    """
    text, count = lint.mended(document)
    path = Path(file)
    copy = path.with_name(f"{path.stem}.fixed{path.suffix}")
    if not count:
        note(f"{file}: no mend is certain, so that no copy is written")
        return
    if file == "-" or copy.exists():
        message = (
            "--fix writes beside a file, and this is standard input" if file == "-" else f"{copy} exists"
        )
        hint = "name the file" if file == "-" else "remove it: --fix overwrites no file"
        raise ConfigError(Problem(message, hint=hint))
    new_file.write(copy, text)
    copy.chmod(path.stat().st_mode & 0o777)
    note(f"{copy}: {count} mended; see `diff {file} {copy}`")


def _as_directive(system: str, hint: str) -> str:
    """Return a hint with directives of Slurm in place of keys: ``batch: {walltime: 2h}``."""
    flags = {row.target.split(".")[-1].split()[-1]: row.flag for row in SYSTEMS["slurm"].rows.values()}

    def directive(match: re.Match[str]) -> str:
        key, value = match[1], match[2]
        with suppress(ValueError):
            value = str(Walltime.parse(value)) if key == "walltime" else value
        return f"`#SBATCH {flags[key]}={value}`" if key in flags else match[0]

    return _KEY.sub(directive, hint) if system == "slurm" else hint
