"""A workflow of Gradient as its jobs, each of which waits for those in its ``needs``."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import ConfigError, Place, Problem
from hpcdist.importers import Step
from hpcdist.importers.gradient import ci
from hpcdist.importers.reading import Reading, one_of


def steps_of(data: Map) -> list[Step]:
    """Return the jobs of a workflow; none of one job alone, or of another form.

    Raises:
        ConfigError: with the jobs that run no program.
    """
    if ci.form_of(data) != "jobs" or len(data["jobs"]) == 1:
        return []
    read, names = Reading(data), ci.jobs_of(data)
    problems = [
        Problem(
            f"the job {path[-1]} runs no program of yours",
            (*path, "uses"),
            ci.RUNNING,
            place=read.place(*path),
        )
        for path in names
        if not ci.runs(read, path)
    ]
    if problems:
        raise ConfigError(*problems)
    return [_step(name, part) for name, part in one_of(names, data).items()]


def _step(name: str, part: Map) -> Step:
    job = part["jobs"][name].copy()
    needs = tuple(_needs(job))
    job.drop("needs")
    new = part.copy()
    new["jobs"] = part["jobs"].mapped(lambda _, __: job)
    return Step(name, new, needs)


def _needs(job: Map) -> Iterator[tuple[str, Place | None]]:
    needs = job.get("needs")
    if isinstance(needs, Seq):
        yield from ((str(name), needs.place_of(at)) for at, name in enumerate(needs))
    elif needs is not None:
        yield str(needs), job.place_of("needs")
