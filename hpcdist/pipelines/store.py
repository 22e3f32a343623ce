"""The directory of a pipeline: its file, and what was submitted of it.

RUNS/diamond-1/
    pipeline.yml     the file, as its user wrote it
    options.json     the options of its submission
    pipeline.json    its operations and what each needs; how far its submission is

The run of an operation is beside it, as ``diamond-1-prep-1``; its record names the operation, by which the
run is found. The directory is written when a submission begins, ends, or is taken back, and never else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import MsgspecError, Struct
from msgspec.structs import astuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.runs import finding, rundir
from hpcdist.runs.rundir import Run, RunDirectory

FILE: Final = finding.PIPELINE
_TEXT: Final = "pipeline.yml"
_MOST: Final = 1 << 22


class Phase(str, Enum):
    """The progress of a pipeline's submission: only one that is ``submitting`` is gone on with."""

    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"


class _Written(Struct, frozen=True):
    digest: str
    site: str
    created_at: str
    needs: dict[str, list[tuple[str, str]]]
    phase: Phase


class Stored(NamedTuple):
    """A pipeline as it was submitted; ``needs``: those of each operation, in their order, with conditions."""

    directory: RunDirectory
    digest: str
    site: str
    created_at: str
    needs: Mapping[str, Sequence[tuple[str, str]]]
    phase: Phase = Phase.SUBMITTING

    @property
    def name(self) -> str:
        """Its name, which is that of its directory."""
        return self.directory.name

    def save(self, text: str | None = None, changes: Sequence[str] = ()) -> Stored:
        """Write it, with the text of its file and the options if that is given; return it.

        Raises:
            OSError: if it cannot be written.
        """
        if text is not None:
            self.directory.write(_TEXT, text)
            self.directory.write(rundir.OPTIONS, f"{json.dumps([*changes])}\n")
        data = {**self._asdict(), "phase": self.phase.value}
        del data["directory"]
        self.directory.write(FILE, f"{json.dumps(data, indent=2)}\n")
        return self

    def runs(self) -> dict[str, Run]:
        """Return the run of each operation, in their order; of several the last one that has a job."""
        found = finding.of_pipeline(self.directory.path.parent, self.name)
        by_name = {run.record.operation.partition("/")[2]: run for run in found}
        return {name: by_name[name] for name in self.needs if name in by_name}


def find(runs_dir: Path, name: str) -> Stored | None:
    """Return the pipeline of this name, or in this directory; None if it is none.

    Raises:
        ConfigError: if it cannot be read.
    """
    path = finding.pipeline_directory(runs_dir, name)
    return read(RunDirectory(path)) if path else None


def read(directory: RunDirectory) -> Stored:
    """Return the pipeline in this directory.

    Raises:
        ConfigError: if it cannot be read, or is invalid.
    """
    try:
        return Stored(directory, *astuple(msgspec.json.decode(directory.read(FILE, _MOST), type=_Written)))
    except OSError as error:
        raise _unreadable(directory, str(error.strerror)) from error
    except (MsgspecError, RecursionError) as error:
        raise _unreadable(directory, f"it is invalid: {error}") from error


def _unreadable(directory: RunDirectory, why: str) -> ConfigError:
    hint = "its runs are still there: `hpcdist list`"
    return ConfigError(Problem(f"{directory.path / FILE} cannot be read: {why}", hint=hint))


def interrupted(runs_dir: Path, digest: str, site: str) -> Stored | None:
    """Return the pipeline of the same file whose submission did not end, if there is one."""
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        if (path / FILE).is_file():
            try:
                stored = read(RunDirectory(path.absolute()))
            except ConfigError:
                continue
            if (stored.digest, stored.site, stored.phase) == (digest, site, Phase.SUBMITTING):
                return stored
    return None
