"""``hpcdist sites check``: errors and warnings of a site file."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import groupby, product
from pathlib import Path
from typing import Final

import msgspec
import yaml

from hpcdist.base import fields, ownership, resources, source, tree
from hpcdist.base.command import Command, Runner
from hpcdist.base.errors import ConfigError, Problem, comma_list, errors_in
from hpcdist.base.errors import Path as Keys
from hpcdist.base.shell import Shell
from hpcdist.base.tree import Document, Map
from hpcdist.checks.bandwidth import site_entries
from hpcdist.cli.messages import note, print_problems
from hpcdist.layers.launchers import launchers
from hpcdist.loading import load
from hpcdist.loading.sites import problems_in
from hpcdist.plan.fabric_variables import of_fabric
from hpcdist.plan.values import Origin, Word
from hpcdist.planner import lint
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers import schedulers
from hpcdist.site import provenance
from hpcdist.site.fabric import ConditionalText, JobFacts, active_groups, applying, text_of
from hpcdist.site.model import Site, Source
from hpcdist.site.nodes import libraries_of
from hpcdist.site.published import Measured, Published, measured_problems

# --- Lint of a site's own variables, for every kind of job that may get them


def findings(site: Site) -> Iterator[Problem]:
    """Yield each finding once, at the variable's key, without notes: a site follows its centre's advice."""
    seen: set[tuple[Keys, str]] = set()
    for facts in _jobs(site):
        for found in lint.findings(of_fabric(site, facts), _context(site, facts)):
            path = _path(site, found)
            if found.severity != "note" and (path, found.text) not in seen:
                seen.add((path, found.text))
                yield Problem(found.text, path, found.hint, severity=found.severity)


def _jobs(site: Site) -> Iterator[JobFacts]:
    """Yield the facts that conditions of the file can test: nodes, container or none, framework or none."""
    kinds: list[tuple[str, ...]] = [(name,) for name in site.node_types] or [()]
    images = (False, True) if any(site.containers()) else (False,)
    frameworks = (None, *site.conditional_frameworks())
    for nodes, names, image, framework in product((2, 1), kinds, images, frameworks):
        library = next(iter(libraries_of(site.node_types[name] for name in names)), None)
        yield JobFacts(nodes, library, image, library is not None, framework, names)


def _context(site: Site, facts: JobFacts) -> lint.LintContext:
    return lint.LintContext(
        network=site.network_of(facts.node_types),
        library=facts.library,
        nodes=facts.nodes,
        words=tuple(_words(site, facts)),
        versions=lint.versions_of(name for name, _ in applying(site.modules, facts)),
        known=site.fabric.known,
    )


def _words(site: Site, facts: JobFacts) -> Iterator[Word]:
    together = (
        text for _, group in active_groups(site.fabric, facts) for text in (*group.directives, *group.args)
    )
    for text in (*site.directives.mandatory, *together, *site.options(site.launcher).args):
        yield Word(text=text, origin=Origin("site", site.name))


def _path(site: Site, found: lint.LintFinding) -> Keys:
    """Return the path of the variable's key; of a variable that is not set, the section."""
    if found.name in site.fabric.env:
        return ("fabric", "env", found.name)
    for index, group in enumerate(site.fabric.together):
        if found.name in group.env and found.origin.key == f"fabric.together.{index}":
            return ("fabric", "together", index, "env", found.name)
    return ("fabric",)


# --- ``hpcdist sites check``

_COMMON_HOSTS: Final = ("login1", "login01", "nid0001", "nid000001", "node001", "n1", "head", "localhost")

_MAX_NAMES: Final = 3


def check(name: str, site_path: tuple[str, ...]) -> str:
    """Return the path of the file if it can be used; print its warnings.

    Raises:
        ConfigError: with all problems, located and in the order of the file.
    """
    file = resources.site_file(name, resources.site_folders(site_path))
    document = source.load(file)
    site, problems = fields.build(Site, document.data)
    found = [*problems, *(problems_in(site) if site else ())]
    if site:
        found += [*_launcher_problems(site), *_directive_problems(site)]
        found += [*findings(site), *_bash_problems(site, Shell())]
        found += [
            problem._replace(severity="warning") for problem in _warnings(site, document.data, file.stem)
        ]
    ordered = load.in_order([*map(document.locate, found)])
    if errors_in(ordered):
        raise ConfigError(*ordered)
    print_problems(ordered)
    return str(file)


def _launcher_problems(site: Site) -> Iterator[Problem]:
    if site.launcher in launchers and site.scheduler not in launchers.get(site.launcher).schedulers:
        hint = f"it supports {', '.join(launchers.get(site.launcher).schedulers)}"
        yield Problem(
            f"launcher {site.launcher} does not support scheduler {site.scheduler}", ("launcher",), hint
        )


def _directive_problems(site: Site) -> Iterator[Problem]:
    """Yield the site's directives that its scheduler would refuse."""
    if site.scheduler in schedulers:
        yield from schedulers.get(site.scheduler).directive_problems(site)


def _bash_problems(site: Site, runner: Runner) -> Iterator[Problem]:
    """Yield the lines with bash syntax errors; several lines may form one command."""
    sections: list[tuple[Keys, Sequence[str | ConditionalText]]] = [
        (("setup",), site.setup),
        (("task_setup",), site.task_setup),
        *(((*path, "setup"), runtime.setup) for path, runtime in site.containers()),
    ]
    for path, texts in sections:
        lines = [*map(text_of, texts)]
        if not (syntax_error := _syntax_error(lines, runner)):
            continue
        whole = 0
        for end in range(1, len(lines)):
            whole = whole if _syntax_error(lines[whole:end], runner) else end
        syntax_error = _syntax_error(lines[whole:], runner) or syntax_error
        yield Problem(f"bash syntax error: {syntax_error}", (*path, whole), "check it with `bash -n`")


def _syntax_error(lines: Sequence[str], runner: Runner) -> str:
    """Return the syntax error that bash reports for these lines; empty if there is none, or no bash."""
    text = "\n".join(lines)
    done = runner.run(Command(("bash", "-n"), stdin=text))
    if done.ok or done.missing or not text:
        return ""
    return re.sub(r"^\S*bash: ", "", (done.stderr.splitlines() or ["no message"])[0])


def _warnings(site: Site, data: Map, stem: str) -> Iterator[Problem]:
    if site.name != stem:
        message = f"the site is named {site.name!r}, but its file {stem!r}"
        yield Problem(message, ("name",), f"write `name: {stem}`, or rename the file")
    for index, pattern in enumerate(site.detect.fqdn):
        matched = [host for host in _COMMON_HOSTS if _matches(pattern, host)]
        if matched:
            message = f"{pattern!r} matches {matched[0]}, a host name of many machines"
            yield Problem(message, ("detect", "fqdn", index), "write the full host name, with its domain")
    yield from _date_problems(site)
    today = datetime.fromtimestamp(time.time(), tz=timezone.utc).date()
    yield from provenance.read_after(site, today + timedelta(days=1))  # somewhere it is tomorrow
    if not site.sources:
        # A user's own file need not give its sources.
        if not data.get("sources") and site.status != "unverified":
            yield Problem(
                "it has no `sources`", (), "list where its values come from, and when that was read"
            )
        return
    yield from provenance.missing_keys(site, data)
    for key, names in groupby(
        provenance.keys_without_source(site, data), key=lambda name: name.partition(".")[0]
    ):
        message = f"no source is given for {comma_list(names, _MAX_NAMES)}"
        yield Problem(message, (key,), "add it to `of` of one of the `sources`")


def _date_problems(site: Site) -> Iterator[Problem]:
    """Yield the pages without the date on which they were read."""
    lists: dict[str, Sequence[Source | Published]] = {"sources": site.sources, "published": site.published}
    for key, pages in lists.items():
        for index, page in enumerate(pages):
            if provenance.read_on(page) is None:
                hint = "write the day or the month: 2026-11-23 or 2026-11"
                yield Problem(f"{page.read!r} is no date", (key, index, "read"), hint)


def _matches(pattern: str, host: str) -> bool:
    try:
        return re.fullmatch(pattern, host) is not None
    except re.error:
        return False  # reported as an error elsewhere


# --- ``hpcdist sites check --measured``: the bandwidths that a job measured, written into the site file


_DOCTOR: Final = "doctor"
"""The name of the job, in templates/doctor.yml."""


def write(name: str, site_path: tuple[str, ...], runs_dir: Path) -> str:
    """Write what the last job of ``hpcdist doctor --job`` on this site measured; return the file.

    A shipped site file is copied into the user's folder of sites. Bandwidths of other libraries stay.

    Raises:
        ConfigError: if the site file is invalid, no job has measured bandwidths, one is out of range, or the
            section of the file cannot be replaced without a change of others.
    """
    folders = resources.site_folders(site_path)
    file = resources.site_file(name, folders)
    text = source.read_text(file)
    site = _site(source.parse(text, str(file)))
    run, found = _last(runs_dir, site.name)
    if problems := [*measured_problems(found)]:
        raise ConfigError(
            *(one._replace(message=f"{run} measured: {one.message}", hint="") for one in problems)
        )
    known = {one.library: one for one in (*site.measured, *found)}
    entries = [msgspec.to_builtins(one) for one in known.values()]
    given = [{key: value for key, value in entry.items() if value not in (None, {})} for entry in entries]
    section = yaml.safe_dump({"measured": given}, sort_keys=False, width=110)
    changed = tree.with_section(text, "measured", section)
    wanted = msgspec.structs.replace(site, measured=tuple(known.values()))
    if not _is(wanted, changed, str(file)):
        hint = f"write it yourself:\n{section}"
        raise ConfigError(
            Problem(f"{file}: `measured` cannot be replaced without a change of others", hint=hint)
        )
    target = _target(file, folders)
    _write(target, changed)
    note(f"{target}: `measured` is that of {run}")
    if target != file.resolve():
        note(f"it is a copy of {file}, which hpcdist does not read any more")
    return str(target)


def _site(document: Document) -> Site:
    site, problems = fields.build(Site, document.data)
    if not site:
        raise ConfigError(*map(document.locate, problems))
    return site


def _last(runs_dir: Path, site: str) -> tuple[str, list[Measured]]:
    for run in _runs(runs_dir):
        with suppress(ConfigError):
            record = run.record()
            if record.site != site:
                continue
            if found := site_entries(run, record.created_at[:10]):
                return run.name, found
    hint = f"run `hpcdist doctor --job 4 --site {site}` first"
    raise ConfigError(Problem(f"no job of the doctor in {runs_dir} has measured {site}", hint=hint))


def _runs(runs_dir: Path) -> Iterator[RunDirectory]:
    """Yield the runs of the doctor, the last first."""
    numbers = (path.name.removeprefix(f"{_DOCTOR}-") for path in runs_dir.glob(f"{_DOCTOR}-*"))
    for number in sorted((int(text) for text in numbers if text.isdecimal()), reverse=True):
        yield RunDirectory(runs_dir / f"{_DOCTOR}-{number}")


def _is(wanted: Site, text: str, file: str) -> bool:
    """Return whether the text is that of this site."""
    with suppress(ConfigError):
        return _site(source.parse(text, file)) == wanted
    return False


def _target(file: Path, folders: Sequence[Path]) -> Path:
    """Return the file to write: this one, or one of the user's own for a shipped one."""
    if file.parent == folders[-1]:
        return folders[0] / file.name
    return file.resolve()


def _write(file: Path, text: str) -> None:
    ownership.make(file.parent)
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644
    with ownership.folder(file.parent) as folder:
        ownership.write(folder, file.name, text.encode(), mode)
