"""``hpcdist check job.sh``: what is wrong with a job script, on its site, and its mended copy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.base.errors import ConfigError, HpcdistError, Place, Problem
from hpcdist.base.tree import Document
from hpcdist.base.units import Walltime
from hpcdist.cli.experiment import new_file
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.session import planned, remote_of, runs_here
from hpcdist.cli.site.doctor import lint_context, site_of_env
from hpcdist.importers.job_scripts import lint
from hpcdist.importers.job_scripts.directives import SYSTEMS
from hpcdist.loading import planning
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.plan.values import Origin, Variable
from hpcdist.planner import lint as lint_variables

_KEY: Final = re.compile(r"`batch: \{(\w+): ([^{}]+)\}`")


def check(options: ExperimentOptions, document: Document, *, fix: bool) -> Planned | None:
    """Print what is wrong with a job script, and return its plan; ``fix``: write its mended copy.

    Without a site that is named or detected, there is no plan: only the script itself is checked. What the
    import changes is only counted.

    Raises:
        HpcdistError: with all errors.
    """
    remote = remote_of(options).site if options.remote is not None else None
    site = site_of_env(options.site or remote, options.site_path)
    print_problems(lint.problems(document, lambda folder: _is_missing(options.file, folder)))
    if site is None:  # else the plan says it, with the number of nodes
        print_problems(_variables(document))
    if fix:
        _write_mended(options.file, document)
    remarks: tuple[Problem, ...] = ()
    try:
        remarks = planning.native(options, document).problems
        made = planned(options, document, runs_dir=runs_here(), shown=False) if site else None
    except HpcdistError as error:
        own = [_for_script(document, one) for one in error.problems if _is_own(one, remarks)]
        if site:
            raise type(error)(*own) from None
        print_problems(one._replace(severity="note") for one in own if one.severity == "error")
        return None
    print_problems(
        _for_script(document, one) for one in (made.problems if made else ()) if _is_own(one, remarks)
    )
    changes = sum(one.severity == "warning" for one in remarks)
    print_problems([_changed(document.file, changes)] if changes else ())
    return made


def _is_own(problem: Problem, remarks: Sequence[Problem]) -> bool:
    """Whether a problem is one of the script on its site, and not of what hpcdist changes."""
    return problem.severity == "error" or problem not in remarks


def _for_script(document: Document, problem: Problem) -> Problem:
    """Return a problem of the plan with directives in its hint; a missing account is at the file's head."""
    hint = _as_directive(str(document.data["job_script"]), problem.hint)
    if problem.path != ("batch", "account"):
        return problem._replace(hint=hint)
    options = lint.Script(document, lambda _: False).options
    is_named = any(one.option.row and one.option.row.target == "batch.account" for one in options)
    return problem._replace(hint=hint, place=problem.place if is_named else Place(document.file, 1, 1))


def _changed(file: str, changes: int) -> Problem:
    message = f"`hpcdist submit` runs it with {changes} change{'s' * (changes > 1)}"
    hint = f"`hpcdist import {file}` lists them"
    return Problem(message, hint=hint, severity="note", place=Place(file, 0, 0))


def _variables(document: Document) -> Iterator[Problem]:
    """Yield what is wrong with exported variables of NCCL and others on any machine."""
    places = {
        Origin("place", str(place)): (name, value, place) for name, value, place in lint.exported(document)
    }
    variables = [Variable(name=name, value=value, origin=at) for at, (name, value, _) in places.items()]
    for found in lint_variables.findings(variables, lint_context(None)):
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
