"""The runs of ``hpcdist scale``: planned, and each submitted once."""

from __future__ import annotations

import functools
import json as json_texts
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.cli.jobs import runs, submit
from hpcdist.cli.messages import note
from hpcdist.cli.session import awaiting_in, pipeline_of
from hpcdist.errors import ConfigError, HpcdistError, PlanError, Problem
from hpcdist.host import locks, ownership
from hpcdist.importers import polyaxon
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.nodes import suspects
from hpcdist.runs import requests, rundir, states
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.scaling import sizes, study
from hpcdist.scaling.study import FILE, Found, Member, Mode, Ranks, Study
from hpcdist.schedulers import schedulers

_BUSY: Final = "another `hpcdist scale` of the same experiment is running; waiting for it to finish"

Sizes = list[tuple[ExperimentOptions, Planned]]


class Asked(NamedTuple):
    """The options of the verb."""

    nodes: tuple[int, ...]
    is_weak: bool
    repeat: int
    metric: str
    ranks: Ranks
    chain: bool
    again: bool

    @property
    def mode(self) -> Mode:
        """The kind of scaling."""
        return "weak" if self.is_weak else "strong"


def check_kind(options: ExperimentOptions) -> None:
    """Check that the file is that of a training.

    Raises:
        ConfigError: if it is a pipeline, or serves a browser.
    """
    document, is_pipeline = pipeline_of(options)
    kind = document.data.get("kind") if document else None
    if document and (is_pipeline or kind in polyaxon.SERVED):
        message = f"a {'pipeline' if is_pipeline else kind} has no throughput that could scale"
        hint = "study an experiment, such as that of one operation" if is_pipeline else "study an experiment"
        raise ConfigError(document.locate(Problem(message, ("kind",), hint)))


def planned(
    options: ExperimentOptions, nodes: Sequence[int], param: str, runs_dir: Path, *, saves: bool
) -> Sizes:
    """Plan all sizes, without suspect nodes and with the jobs of the runs that they wait for, as `submit`.

    Raises:
        HpcdistError: as `sizes.planned`.
    """
    plan = functools.partial(plan_experiment, awaiting=awaiting_in(runs_dir, saves=saves))
    found = sizes.planned(options, nodes, plan, param)
    plans = suspects.avoided_by_all([made for _, made in found], runs_dir, saves=saves)
    return [(own, made) for (own, _), made in zip(found, plans, strict=True)]


def submit_all(planned: Sizes, asked: Asked, runs_dir: Path, result: Callable[[Run], object]) -> list[Found]:
    """Submit the runs of a study that are missing; return all of its runs.

    Raises:
        HpcdistError: as `submit.submit_run`; what was submitted before stays so.
    """
    services = runs.services()
    first = planned[0][1].plan.identity
    if asked.chain and not schedulers.get(first.scheduler).is_batch_system:
        message = f"on site {first.site} jobs start at once, so that none can wait for another"
        raise PlanError(Problem(message, hint="leave out --chain"))
    new = _study(planned, asked, services)
    ownership.make(runs_dir)
    with locks.exclusive(runs_dir, new.digest, services.sleep, lambda: note(_BUSY), name="submit-study"):
        every = [] if asked.again else study.every(runs_dir)
        kept = study.unfinished(every, new.digest)
        there = study.of_study(every, kept) if kept else []
        left = study.missing(kept or new, there)
        if kept:
            done = len(kept.members) - len(left)
            note(f"an earlier study has {done} of {len(kept.members)} runs; it goes on (--again begins anew)")
        last = _last(there)
        with _progress(len(left)) as submitted:
            for member in left:
                request = _request(
                    member, planned, services, _last_job(last, services) if asked.chain else ""
                )
                last = submit.submit_run(request, runs_dir, services, result, again=False)
                submitted.append(Found(last, member))
        members = study.of_study([*there, *submitted], kept or new)
        study.keep_submitted(members)
        return members


def _study(planned: Sizes, asked: Asked, services: Services) -> Study:
    """Return the study that is asked for, as a new one."""
    [first, *_] = planned
    own = [made.plan.identity.name for _, made in planned]
    text = json_texts.dumps(
        [first[1].document.text, [options.changes for options, _ in planned], first[1].plan.identity.site,
         own, asked.nodes, asked.repeat, asked.mode, asked.metric, asked.ranks]
    )  # fmt: skip
    name = own[0].removesuffix(sizes.suffix(asked.nodes[0]))
    token, digest = services.token(), rundir.digest(text)
    return Study(token, digest, name, asked.nodes, asked.repeat, asked.mode, asked.metric, asked.ranks)


@contextmanager
def _progress(wanted: int) -> Iterator[list[Found]]:
    """Yield a list of the runs that were submitted; after an error, print how many there are."""
    submitted: list[Found] = []
    try:
        yield submitted
    except HpcdistError:
        if submitted:
            note(f"{len(submitted)} of {wanted} runs are submitted; the same command submits the others")
        raise


def _last(there: Sequence[Found]) -> Run | None:
    """Return the run of a study that was submitted last, in the order of its runs."""
    found = [one for one in there if one.run.job]
    last = max(found, key=lambda one: (one.member.repetition, one.member.nodes), default=None)
    return last and last.run


def _last_job(last: Run | None, services: Services) -> str:
    """Return the id of the last job of a run; empty if it has ended: batch systems forget such."""
    if last is None or states.status([last], services)[0].is_over:
        return ""
    return last.jobs[-1].record.job_id or ""


def _request(member: Member, planned: Sizes, services: Services, after: str) -> SubmitRequest:
    options, made = planned[member.study.nodes.index(member.nodes)]
    request = requests.of(made, options, services.runner, mark=member.mark)
    files = functools.partial(_files, request, member)
    return request._replace(files=files, after=after)


def _files(request: SubmitRequest, member: Member, directory: RunDirectory) -> dict[str, str]:
    return {**request.files(directory), FILE: member.text}
