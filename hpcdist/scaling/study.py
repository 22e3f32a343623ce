"""A study is its runs: each keeps of which study it is, and which size of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from hpcdist.errors import ConfigError, Problem
from hpcdist.runs import finding
from hpcdist.runs.record import Phase
from hpcdist.runs.rundir import Run

FILE: Final = "scaling.json"
_SUBMITTED: Final = "scaling.submitted"
"""A file of each run from when all of them were submitted: what is missing then was removed."""

MOST: Final = 1000
"""The most sizes, and repetitions of each."""

_MOST_BYTES: Final = 1 << 20

Mode = Literal["weak", "strong"]
"""Whether the problem grows with the nodes, or stays the same."""

Ranks = Literal["", "sum", "first"]
"""Whether the values of several ranks add up, or the lowest has that of the whole job; empty: not chosen."""

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Study(msgspec.Struct, frozen=True):
    """What was asked for: ``repeat`` runs on each of these numbers of ``nodes``, in ascending order.

    ``token`` is its own; ``digest`` is equal for studies of the same text with the same options. ``metric``
    is the throughput; empty where it is to be found by its name. ``ranks``: of a metric of several of them.
    """

    token: str
    digest: str
    experiment: str
    nodes: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MOST)]
    repeat: Annotated[int, msgspec.Meta(ge=1, le=MOST)]
    mode: Mode
    metric: str = ""
    ranks: Ranks = ""

    @property
    def members(self) -> list[Member]:
        """Each run that it is to have, all sizes once before any is repeated."""
        return [Member(self, nodes, time) for time in range(1, self.repeat + 1) for nodes in self.nodes]


class Member(msgspec.Struct, frozen=True):
    """One run of a study: its number of nodes, and which repetition it is, from 1 on."""

    study: Study
    nodes: Count
    repetition: Count

    @property
    def text(self) -> str:
        """The content of its file."""
        return json.dumps(msgspec.to_builtins(self), indent=2) + "\n"

    @property
    def mark(self) -> str:
        """What tells its submission from every other one."""
        return f"scaling study {self.study.token}: nodes {self.nodes}, repetition {self.repetition}"


class Found(NamedTuple):
    """A run of a study."""

    run: Run
    member: Member


def find(runs_dir: Path, job: str) -> tuple[Study, list[Found]]:
    """Return the study of a run, and its runs.

    Raises:
        ConfigError: if there is no such run, or it is of no study.
    """
    run = finding.find(runs_dir, job)
    member = of(run)
    if member is None:
        hint = "`hpcdist scale EXP --nodes 1,2,4` makes one"
        raise ConfigError(Problem(f"{run.name} is no run of a scaling study", hint=hint))
    return member.study, of_study(every(run.directory.path.parent), member.study)


def every(runs_dir: Path) -> list[Found]:
    """Return all runs of studies, oldest first."""
    found = ((run, of(run)) for run in finding.list_runs(runs_dir)[0])
    return [Found(run, member) for run, member in found if member]


def of(run: Run) -> Member | None:
    """Return which run of a study it is; None if it is of none, or its file is damaged."""
    try:
        return msgspec.json.decode(run.directory.read(FILE, _MOST_BYTES), type=Member)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def of_study(runs: Iterable[Found], study: Study) -> list[Found]:
    """Return the runs of a study, one of each size and repetition: the last one that was submitted."""
    own = [one for one in runs if one.member.study.token == study.token]
    chosen = {(one.member.nodes, one.member.repetition): one for one in sorted(own, key=_has_job)}
    return [chosen[key] for key in sorted(chosen)]


def _has_job(one: Found) -> bool:
    return one.run.job is not None


def unfinished(runs: Sequence[Found], digest: str) -> Study | None:
    """Return the last study with this digest, if not all of its runs were submitted."""
    last = next((one.member.study for one in reversed(runs) if one.member.study.digest == digest), None)
    found = of_study(runs, last) if last else []
    is_whole = any(was_submitted(one.run) for one in found)
    return last if last and not is_whole and missing(last, found) else None


def keep_submitted(found: Iterable[Found]) -> None:
    """Write into the runs of a study that all of them were submitted; what cannot be written is left out."""
    for one in found:
        with suppress(OSError):
            one.run.directory.write(_SUBMITTED, "")


def was_submitted(run: Run) -> bool:
    """Whether all runs of its study were submitted."""
    return (run.directory.path / _SUBMITTED).is_file()


def missing(study: Study, found: Iterable[Found]) -> list[Member]:
    """Return the runs of a study whose submission was not completed, in order."""
    there = {one.member for one in found if all(job.record.phase is Phase.SUBMITTED for job in one.run.jobs)}
    return [member for member in study.members if member not in there]
