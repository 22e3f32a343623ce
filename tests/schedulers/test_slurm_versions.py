"""What real Slurms of several versions answered, and what hpcdist reads in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcdist.base.command import Command
from hpcdist.base.errors import SchedulerError, SubmissionUnknown
from hpcdist.schedulers.base import Query
from hpcdist.schedulers.job import Job, Status
from hpcdist.schedulers.slurm import SLURM

from .slurm_transcripts import PLACE, answers, by_token, jobs

VERSIONS = sorted(place.name for place in PLACE.iterdir() if place.is_dir())
REFUSED = {"20.11.4": 9, "22.05.8": 9, "24.11.5": 10, "26.05.5": 8}  # that of 26.05 knew no accounts
MOMENTS = ("living", "ended", "down")

LIVING = {
    "array": "running",
    "array_failed": "failed",
    "cancelled": "cancelled",
    "completed": "completed",
    "deadline": "timeout",
    "dependent": "pending",
    "failed": "failed",
    "held": "pending",
    "het": "running",
    "later": "pending",
    "named": "running",
    "never": "pending",
    "preempted": "preempted",
    "preempting": "completed",
    "running": "running",
    "signalled": "failed",
    "special": "pending",
    "suspended": "suspended",
    "timeout": "timeout",
    "waiting": "pending",
    "withdrawn": "cancelled",
}
OVER = {
    token: "cancelled" if state in ("pending", "running", "suspended") else state
    for token, state in LIVING.items()
}
ENDED = OVER | {"array": "failed", "lost": "node_fail"}


def read(version: str, moment: str, query: Query) -> dict[str, Status]:
    """Return what a query reads of that moment, by token; its commands are those that were recorded."""
    known = list(jobs(version).values())
    asked = {command.argv for job in known for command in query.commands([job])}
    found: dict[str, Status] = {}
    for completed in answers(version, moment):
        if completed.command.argv in asked or _is_of_all(completed.command, query, known):
            found |= by_token(query.read(completed, known), known)
    found.pop("refused", None)
    return found


def _is_of_all(recorded: Command, query: Query, known: list[Job]) -> bool:
    """Whether sacct was asked for those that there were at that time, by -X without their steps."""
    words = tuple(word for word in recorded.argv if word != "-X")
    numbers = [job for job in known if job.id in words[min(4, len(words) - 1)].split(",")]
    return bool(numbers) and next(iter(query.commands(numbers))).argv == words


def _lines(version: str) -> Iterator[str]:
    for moment in MOMENTS:
        for query in SLURM.queries():
            for token, status in sorted(read(version, moment, query).items()):
                code = "-" if status.exit_code is None else status.exit_code
                told = f"{status.state.value} | {status.native} | {code} | {status.reason}"
                yield f"{moment} {status.source} {token}: {told}\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_answers_are_read(version: str) -> None:
    assert "".join(_lines(version)) == (PLACE / version / "read").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_states_are_the_same_in_all_versions(version: str) -> None:
    squeue, sacct, scontrol = SLURM.queries()
    database = LIVING, ENDED, ENDED
    if version.startswith("26."):
        database = {}, {}, {}
    for moment, states in zip(MOMENTS, database, strict=True):
        assert {token: status.state.value for token, status in read(version, moment, sacct).items()} == states
    for query, states in (squeue, LIVING), (scontrol, LIVING):
        living = read(version, "living", query)
        assert {token: status.state.value for token, status in living.items()} == states
    ended = {token: status.state.value for token, status in read(version, "ended", squeue).items()}
    assert ended == ENDED
    assert {token: s.state.value for token, s in read(version, "ended", scontrol).items()} == {
        "lost": "node_fail"
    }
    assert read(version, "down", squeue) == read(version, "down", scontrol) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_are_found_by_their_tokens(version: str) -> None:
    known = {token: job.id for token, job in jobs(version).items()}
    known.pop("refused", None)
    asked = [command.argv for command in SLURM.find()]
    squeue, sacct = (a for a in answers(version, "ended") if a.command.argv in asked)
    assert SLURM.read_find(squeue) == known
    # What was cancelled before it began has no comment in the database.
    assert SLURM.read_find(sacct).items() <= known.items()


@pytest.mark.parametrize("version", VERSIONS)
def test_submissions_are_read(version: str) -> None:
    refused = []
    for completed in answers(version, "submit"):
        if completed.ok:
            assert SLURM.read_submit(completed) == completed.stdout.strip()
            continue
        with pytest.raises(SchedulerError) as error:
            SLURM.read_submit(completed)
        refused.append(isinstance(error.value, SubmissionUnknown))
    assert refused == [False] * len(refused)
    assert len(refused) == REFUSED[version]
