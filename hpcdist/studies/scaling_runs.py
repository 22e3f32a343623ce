"""A scaling study is its runs: each stores which study and size it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from hpcdist.base import locks, ownership
from hpcdist.base.errors import ConfigError, HpcdistError, PlanError, Problem
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import finding, job_states, requests, rundir, this_machine
from hpcdist.runs.rundir import Phase, Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput, SubmitRequest
from hpcdist.schedulers import schedulers
from hpcdist.studies.scaling_plan import size_suffix

FILE: Final = "scaling.json"
_SUBMITTED: Final = "scaling.submitted"
"""A file of each run once all were submitted: a run that is missing then was removed."""

MOST: Final = 1000
"""The most sizes, and repetitions of each."""

_MOST_BYTES: Final = 1 << 20

Mode = Literal["weak", "strong"]
"""Whether the problem grows with the nodes, or stays the same."""

Ranks = Literal["", "sum", "first"]
"""Whether values of several ranks add up, or the lowest rank's is for the whole job; empty: not chosen."""

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class Study(msgspec.Struct, frozen=True):
    """A request for ``repeat`` runs on each of these numbers of ``nodes``, in ascending order."""

    token: str
    digest: str
    """Equal for studies of the same text with the same options."""
    experiment: str
    nodes: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MOST)]
    repeat: Annotated[int, msgspec.Meta(ge=1, le=MOST)]
    mode: Mode
    metric: str = ""
    """The throughput; empty if it is to be found by its name."""
    ranks: Ranks = ""
    """How the values of ranks are combined."""

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


class StudyRun(NamedTuple):
    """A run of a study."""

    run: Run
    member: Member


def find_study(runs_dir: Path, job: str) -> tuple[Study, list[StudyRun]]:
    """Return the study of a run, and its runs.

    Raises:
        ConfigError: if there is no such run, or it is of no study.
    """
    run = finding.find(runs_dir, job)
    member = member_of(run)
    if member is None:
        hint = "`hpcdist scale EXP --nodes 1,2,4` makes one"
        raise ConfigError(Problem(f"{run.name} is not a run of a scaling study", hint=hint))
    return member.study, runs_of(study_runs(run.directory.path.parent), member.study)


def study_runs(runs_dir: Path) -> list[StudyRun]:
    """Return all runs of studies, oldest first."""
    found = ((run, member_of(run)) for run in finding.list_runs(runs_dir)[0])
    return [StudyRun(run, member) for run, member in found if member]


def member_of(run: Run) -> Member | None:
    """Return which run of a study it is; None if it is of none, or its file is damaged."""
    try:
        return msgspec.json.decode(run.directory.read(FILE, _MOST_BYTES), type=Member)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def runs_of(runs: Iterable[StudyRun], study: Study) -> list[StudyRun]:
    """Return the runs of a study, one of each size and repetition: the last one that was submitted."""
    own = [one for one in runs if one.member.study.token == study.token]
    chosen = {
        (one.member.nodes, one.member.repetition): one
        for one in sorted(own, key=lambda one: one.run.job is not None)
    }
    return [chosen[key] for key in sorted(chosen)]


def unfinished_study(runs: Sequence[StudyRun], digest: str) -> Study | None:
    """Return the last study with this digest, if not all of its runs were submitted."""
    last = next((one.member.study for one in reversed(runs) if one.member.study.digest == digest), None)
    found = runs_of(runs, last) if last else []
    is_whole = any(was_submitted(one.run) for one in found)
    return last if last and not is_whole and missing_members(last, found) else None


def mark_submitted(found: Iterable[StudyRun]) -> None:
    """Mark the runs of a study as all submitted; marks that cannot be written are left out."""
    for one in found:
        with suppress(OSError):
            one.run.directory.write(_SUBMITTED, "")


def was_submitted(run: Run) -> bool:
    """Whether all runs of its study were submitted."""
    return (run.directory.path / _SUBMITTED).is_file()


def missing_members(study: Study, found: Iterable[StudyRun]) -> list[Member]:
    """Return the runs of a study whose submission was not completed, in order."""
    there = {one.member for one in found if all(job.record.phase is Phase.SUBMITTED for job in one.run.jobs)}
    return [member for member in study.members if member not in there]


# --- Submitting the runs of a study, each once

_BUSY: Final = "another `hpcdist scale` of the same experiment is running; waiting for it to finish"

Sizes = Sequence[tuple[ExperimentOptions, Planned]]
"""The plan of each size, with the options that it was made with."""


class StudyRequest(NamedTuple):
    """The options of a study; with ``chain``, each run begins when the one before has ended."""

    nodes: tuple[int, ...]
    mode: Mode = "weak"
    repeat: int = 1
    metric: str = ""
    ranks: Ranks = ""
    chain: bool = False


def submit_study(
    request: StudyRequest, sizes: Sizes, runs_dir: Path, services: Services, output: SubmitOutput
) -> list[StudyRun]:
    """Submit the runs of a study that are missing; return all of its runs.

    An earlier study of the same text whose submission was interrupted is completed instead of a new one.

    Raises:
        PlanError: if jobs of the site cannot wait for others.
        HpcdistError: as `this_machine.submit`; runs submitted before are kept.
    """
    identity = sizes[0][1].plan.identity
    if request.chain and not schedulers.get(identity.scheduler).is_batch_system:
        message = f"on site {identity.site} jobs start at once, so that none can wait for another"
        raise PlanError(Problem(message, hint="leave out --chain"))
    new = _new_study(request, sizes, services)
    ownership.make(runs_dir)
    with locks.exclusive(
        runs_dir, new.digest, services.sleep, lambda: output.note(_BUSY), name="submit-study"
    ):
        every = study_runs(runs_dir)
        kept = unfinished_study(every, new.digest)
        there = runs_of(every, kept) if kept else []
        left = missing_members(kept or new, there)
        if kept:
            done = len(kept.members) - len(left)
            output.note(f"an earlier study has {done} of {len(kept.members)} runs; the others are submitted")
        submitted: list[StudyRun] = []
        try:
            for member in left:
                last = submitted[-1].run if submitted else _last(there)
                after = _last_job(last, services) if request.chain else ""
                one = _request(member, sizes, services, after)
                submitted.append(StudyRun(this_machine.submit(one, runs_dir, services, output), member))
        except HpcdistError:
            if submitted:
                done = len(submitted)
                output.note(f"{done} of {len(left)} runs are submitted; the same command submits the others")
            raise
        members = runs_of([*there, *submitted], kept or new)
        mark_submitted(members)
        return members


def _new_study(request: StudyRequest, sizes: Sizes, services: Services) -> Study:
    nodes, mode, repeat, metric, ranks, _ = request
    names = [made.plan.identity.name for _, made in sizes]
    first = sizes[0][1]
    text = json.dumps(
        [first.document.text, [options.changes for options, _ in sizes], first.plan.identity.site, names,
         nodes, repeat, mode, metric, ranks]
    )  # fmt: skip
    name = names[0].removesuffix(size_suffix(nodes[0]))
    return Study(services.token(), rundir.digest(text), name, nodes, repeat, mode, metric, ranks)


def _last(there: Sequence[StudyRun]) -> Run | None:
    """Return the run of a study that was submitted last, in the order of its runs."""
    found = [one for one in there if one.run.job]
    last = max(found, key=lambda one: (one.member.repetition, one.member.nodes), default=None)
    return last and last.run


def _last_job(last: Run | None, services: Services) -> str:
    """Return the id of the last job of a run; empty if it has ended: batch systems forget it."""
    if last is None or job_states.status([last], services)[0].is_over:
        return ""
    return last.jobs[-1].record.job_id or ""


def _request(member: Member, sizes: Sizes, services: Services, after: str) -> SubmitRequest:
    options, made = sizes[member.study.nodes.index(member.nodes)]
    request = requests.of(made, options, services.runner, mark=member.mark)
    files = partial(_files, request, member)
    return request._replace(files=files, after=after)


def _files(request: SubmitRequest, member: Member, directory: RunDirectory) -> dict[str, str]:
    return {**request.files(directory), FILE: member.text}
