"""``hpcdist sites check``: everything that is wrong with a site file, and what one should know of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from hpcdist.cli.site import sites_lint
from hpcdist.cli.tell import tell
from hpcdist.documents import fields, source
from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Path, Problem, comma_list, errors_in
from hpcdist.host import resources
from hpcdist.host.command import Command, Runner
from hpcdist.host.shell import Shell
from hpcdist.layers.launchers import launchers
from hpcdist.loading import load
from hpcdist.loading.sites import problems_in
from hpcdist.schedulers import ChecksDirectives, schedulers
from hpcdist.site import provenance
from hpcdist.site.model import Site

_ANYBODYS_HOSTS: Final = ("login1", "login01", "nid0001", "nid000001", "node001", "n1", "head", "localhost")

_SHOWN: Final = 3


def check(name: str, site_path: tuple[str, ...]) -> str:
    """Return the file where it can be used; what is odd is told as warnings.

    Raises:
        ConfigError: with all problems, located and in the order of the file.
    """
    file = resources.site_file(name, resources.site_folders(site_path))
    document = source.load(file)
    site, problems = fields.build(Site, document.data)
    found = [*problems, *(problems_in(site) if site else ())]
    if site:
        found += [*_launcher_problems(site), *_directive_problems(site)]
        found += [*sites_lint.findings(site), *_bash_problems(site, Shell())]
        found += [
            problem._replace(severity="warning") for problem in _remarks(site, document.data, file.stem)
        ]
    ordered = load.in_order([*map(document.locate, found)])
    if errors_in(ordered):
        raise ConfigError(*ordered)
    tell(ordered)
    return str(file)


def _launcher_problems(site: Site) -> Iterator[Problem]:
    if site.launcher in launchers and site.scheduler not in launchers.get(site.launcher).schedulers:
        hint = f"it goes with {', '.join(launchers.get(site.launcher).schedulers)}"
        yield Problem(
            f"launcher {site.launcher} does not go with scheduler {site.scheduler}", ("launcher",), hint
        )


def _directive_problems(site: Site) -> Iterator[Problem]:
    """Yield what its scheduler would refuse of the site's directives, where there is such a scheduler."""
    if site.scheduler in schedulers:
        scheduler = schedulers.get(site.scheduler)
        if isinstance(scheduler, ChecksDirectives):
            yield from scheduler.directive_problems(site)


def _bash_problems(site: Site, runner: Runner) -> Iterator[Problem]:
    """Yield the lines of bash that bash cannot read; several may be one command together."""
    sections: list[tuple[Path, tuple[str, ...]]] = [
        (("setup",), site.setup),
        (("task_setup",), site.task_setup),
        (("container", "setup"), site.container.setup if site.container else ()),
    ]
    for path, lines in sections:
        if not (said := _misread(lines, runner)):
            continue
        whole = 0
        for end in range(1, len(lines)):
            whole = whole if _misread(lines[whole:end], runner) else end
        said = _misread(lines[whole:], runner) or said
        yield Problem(f"bash cannot read it: {said}", (*path, whole), "`bash -n` tells the same")


def _misread(lines: Sequence[str], runner: Runner) -> str:
    """Return what bash says against these lines, nothing where they are well, or where there is no bash."""
    text = "\n".join(lines)
    done = runner.run(Command(("bash", "-n"), stdin=text))
    if done.ok or done.missing or not text:
        return ""
    return re.sub(r"^\S*bash: ", "", (done.stderr.splitlines() or ["it says nothing more"])[0])


def _remarks(site: Site, data: Map, stem: str) -> Iterator[Problem]:
    if site.name != stem:
        message = f"the file is found as {stem!r}, and is called {site.name!r} in it"
        yield Problem(message, ("name",), f"write `name: {stem}`, or rename the file")
    for index, pattern in enumerate(site.detect.fqdn):
        matched = [host for host in _ANYBODYS_HOSTS if _fits(pattern, host)]
        if matched:
            message = f"{pattern!r} fits {matched[0]}, a name that hosts of many machines have"
            yield Problem(message, ("detect", "fqdn", index), "write the full host name, with its domain")
    if not site.sources:
        if (
            not data.get("sources") and site.status != "unverified"
        ):  # a file of one's own need not prove anything
            yield Problem("it has no `sources`", (), "say where its values come from, and when that was read")
        return
    yield from provenance.stale(site, data)
    for key, names in groupby(provenance.unvouched(site, data), key=lambda name: name.partition(".")[0]):
        message = f"no source vouches for {comma_list(names, _SHOWN)}"
        yield Problem(message, (key,), "name it in `of` of one of the `sources`")


def _fits(pattern: str, host: str) -> bool:
    try:
        return re.fullmatch(pattern, host) is not None
    except re.error:
        return False  # which is an error that stands beside this
