"""``hpcdist sites check --measured``: the bandwidths that a job measured, written into the site file."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import yaml

from hpcdist.base import fields, ownership, resources, source, tree
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.tree import Document
from hpcdist.checks.bandwidth import site_entries
from hpcdist.cli.messages import note
from hpcdist.runs.rundir import RunDirectory
from hpcdist.site.model import Site
from hpcdist.site.published import Measured, measured_problems

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
