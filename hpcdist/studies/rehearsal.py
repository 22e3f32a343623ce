"""A rehearsal: a small run whose attempts are ended on purpose, and the verdict on what it did then."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from hpcdist.base.errors import ConfigError, PlanError, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Replicas
from hpcdist.experiment.program import Restart
from hpcdist.layers.frameworks import horovod, section_of
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.plan.model import End, Rehearsal, Restarts
from hpcdist.runs import requests, this_machine
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput
from hpcdist.studies.rehearsal_record import (
    RehearsedAttempt,
    Resumption,
    Steps,
    Write,
    Written,
    checkpoints_of,
    half_written_file,
    is_whole,
    overwritten_file,
    read_attempts,
    read_steps,
    resumption,
)

_RESERVE: Final = 120
"""Seconds that the job needs in addition to twice the notice, for its start and its end."""


_MOST_BYTES: Final = 1 << 26


class Small(NamedTuple):
    """The plan of a rehearsal, and the options that make the experiment so small."""

    made: Planned
    options: ExperimentOptions


def plan_rehearsal(options: ExperimentOptions, nodes: int, minutes: int, seed: int) -> Small:
    """Plan an experiment on so many nodes at most, for so many minutes or for twice its notice.

    It has the settings, the script and the launch of the real run, and records how many nodes that has; it is
    never requeued.

    Raises:
        ConfigError: if the experiment is invalid, or is not restarted; or is an array or a search.
        PlanError: if it does not fit the site.
    """
    real = plan_experiment(options)
    restart = _restart(real)
    notice = restart.notice_in(real.plan.request.walltime)
    seconds = max(60 * minutes, 2 * notice + _RESERVE)
    settings = [("batch.walltime", str(Walltime(seconds)))]
    settings += [] if restart.notice else [("environment.restart.notice", str(Walltime(notice)))]
    settings += [("environment.restart.spare_nodes", "0")] if restart.spare_nodes else []
    if real.plan.request.requeue:  # the batch system is not to begin it again by itself
        settings += [("batch.requeue", "false")]
        settings += [("environment.restart.by", "follow")] if restart.by else []
    made, options = _on_nodes(options._replace(settings=(*options.settings, *settings)), real, nodes)
    restarts = made.plan.completion.restarts
    if restarts is None:
        raise AssertionError("it was not restarted, which was checked")
    rehearsal = Rehearsal(
        ends=_ends(restarts, made.plan.placement.nodes),
        seed=seed,
        nodes=real.plan.placement.nodes,
        node_mtbf_hours=made.machine.site.node_mtbf_hours,
    )
    own = msgspec.structs.replace(restarts, by=None, rehearsal=rehearsal)
    completion = msgspec.structs.replace(made.plan.completion, restarts=own)
    return Small(made._replace(plan=msgspec.structs.replace(made.plan, completion=completion)), options)


def submit_rehearsal(small: Small, runs_dir: Path, services: Services, output: SubmitOutput) -> Run:
    """Submit the run of a rehearsal, which is named after the experiment: ``train-rehearsal-1``.

    Raises:
        HpcdistError: as `this_machine.submit`.
    """
    request = requests.of(small.made, small.options, services.runner, mark="a rehearsal")
    request = request._replace(name=f"{request.name}-rehearsal")
    return this_machine.submit(request, runs_dir, services, output)


def judge_run(directory: RunDirectory, mtbf: float | None) -> Judgement:
    """Judge a run as a rehearsal; ``mtbf``: as in `choose_mtbf`.

    Raises:
        ConfigError: as `stored_restarts`.
    """
    plan = stored_restarts(directory)
    of_site = plan.rehearsal.node_mtbf_hours if plan.rehearsal else None
    return judge(read_attempts(directory), read_steps(directory), plan, choose_mtbf(mtbf, of_site))


def stored_restarts(directory: RunDirectory) -> Restarts:
    """Return the restarts of a rehearsal from the plan of its run.

    Raises:
        ConfigError: if the run is not a rehearsal.
    """
    try:
        data = json.loads(directory.read("plan.json", _MOST_BYTES))["completion"]["restarts"]
        found = msgspec.convert(data, Restarts)
    except (OSError, msgspec.ValidationError, ValueError, LookupError, TypeError, RecursionError):
        found = None
    if found is None or found.rehearsal is None:
        hint = "write the name of a run that `hpcdist rehearse` submitted"
        raise ConfigError(Problem(f"{directory.name} is not a rehearsal", hint=hint))
    return found


def _restart(made: Planned) -> Restart:
    experiment = made.experiment
    if experiment.hptuning is not None or experiment.batch.array is not None:
        path = ("hptuning",) if experiment.hptuning is not None else ("batch", "array")
        hint = "write an experiment with one trial of it"
        raise ConfigError(made.document.locate(Problem("only a single training is rehearsed", path, hint)))
    if experiment.environment.restart is None:
        hint = "add `environment: {restart: {}}`, or --set environment.restart.max=10"
        raise ConfigError(Problem(f"{made.document.file} is not restarted after any end", hint=hint))
    return experiment.environment.restart


def _ends(restarts: Restarts, nodes: int) -> tuple[End, ...]:
    """Return the ends to rehearse: each after which the real run begins another attempt."""
    ends: tuple[End, ...] = ()
    if {"timeout", "preempt"} & {*restarts.on}:
        ends += ("notice",)
    if "failure" in restarts.on:
        ends += ("write",)
    if {"failure", "node_failure"} & {*restarts.on}:
        ends += ("node",)
    if "failure" in restarts.on and nodes > 1:
        ends += ("rank",)
    return ends


def _on_nodes(options: ExperimentOptions, real: Planned, nodes: int) -> Small:
    """Plan it with fewer workers and parameter servers, until it fits on these nodes."""
    there = real.plan.placement.nodes
    section = real.experiment.environment.replicas or Replicas()
    if there <= nodes:
        return Small(plan_experiment(options), options)
    others = 0 if real.experiment.backend == "mpi" else 1
    workers = max(1 - others, (section.n_workers + others) * nodes // there - others)
    while True:
        fewer = options._replace(settings=(*options.settings, *_fewer(real, workers, others, nodes)))
        made = plan_experiment(fewer)
        if made.plan.placement.nodes <= nodes:
            return Small(made, fewer)
        if workers <= 1 - others:
            message = f"with the fewest replicas it has {made.plan.placement.nodes} nodes, more than {nodes}"
            hint = f"rehearse it with --nodes {made.plan.placement.nodes}"
            raise PlanError(real.document.locate(Problem(message, ("environment", "replicas"), hint)))
        workers -= 1


def _fewer(real: Planned, workers: int, others: int, nodes: int) -> Iterator[tuple[str, str]]:
    """Yield the settings for so many workers."""
    environment = real.experiment.environment
    section = environment.replicas or Replicas()
    for place, entry in enumerate(section.worker):
        if entry.index is not None and entry.index >= workers:
            message = f"worker {entry.index} has an entry of its own, and is left out on {nodes} nodes"
            path = ("environment", "replicas", "worker", place)
            hint = "rehearse it with more --nodes, or without that entry"
            raise ConfigError(real.document.locate(Problem(message, path, hint)))
    yield "environment.replicas.n_workers", str(workers)
    if section.n_ps > 1 and not section.ps:
        yield "environment.replicas.n_ps", "1"
    if real.experiment.batch.nodes:
        yield "batch.nodes", str(nodes)
    elastic = section_of(horovod.HorovodSection, real.experiment, "horovod").elastic
    for key in ("min_np", "max_np") if real.plan.completion.elastic else ():
        if number := getattr(elastic, key):
            least = number * (workers + others) // (section.n_workers + others)
            yield f"horovod.elastic.{key}", str(max(1, least))


# --- What is wrong with how a training handled its ends: each problem a sentence, with what to do


class Fault(NamedTuple):
    """``wrong``: the training does not resume correctly; ``unknown``: that was not shown."""

    kind: Literal["wrong", "unknown", "warning"]
    text: str


def faults_of(
    attempts: Sequence[RehearsedAttempt], written: Written, resumptions: Sequence[Resumption], plan: Restarts
) -> Iterator[Fault]:
    """Yield all problems. ``resumptions``: of the later attempts."""
    if not attempts:
        yield Fault("unknown", "no attempt has begun; the log of the run has the reason")
        return
    yield from _of_checkpoints(attempts, written, plan)
    for attempt in attempts:
        yield from _of_end(attempt, plan)
    for attempt, before, begin in zip(attempts[1:], attempts[:-1], resumptions, strict=True):
        yield from _of_begin(attempt, before, begin, has_saved=bool(written[attempt.number]))
    yield from _untried(attempts, plan)


def ending_text(attempt: RehearsedAttempt) -> str:
    """Return how an attempt was ended: ``KILL to rank 1 on n2``."""
    if not attempt.endings:
        return "nothing was done to it"
    end = attempt.endings[0]
    if not end.node:
        return "the signal before a time limit"
    ranks = f"rank{'s' * (',' in end.rank)} {end.rank}"
    return f"KILL to {ranks} on {end.node}{' at a checkpoint' * (end.kind == 'write')}"


def last_before_term(notice: int) -> int:
    """Return how long before the limit TERM comes, in seconds: as ``runtime/supervisor/clock.py`` has it."""
    return notice // 2 if notice < 60 else 30  # noqa: PLR2004


def save_after_signal(attempts: Sequence[RehearsedAttempt], written: Written) -> tuple[float, Write] | None:
    """Return when an attempt got the signal, and what it wrote then."""
    for attempt in attempts:
        if attempt.kind == "notice" and attempt.endings:
            at = attempt.endings[0].at
            late = [write for write in written[attempt.number] if write.ended >= at]
            return (at, late[0]) if late else None
    return None


def _of_checkpoints(
    attempts: Sequence[RehearsedAttempt], written: Written, plan: Restarts
) -> Iterator[Fault]:
    if not any(written.values()):
        yield Fault(
            "wrong" if any(attempt.endings for attempt in attempts) else "unknown",
            "there was no checkpoint: nothing was written to $HPCDIST_CHECKPOINTS; "
            "write there, more often, or rehearse with more --minutes",
        )
    if file := overwritten_file(attempts):
        yield Fault(
            "wrong",
            f"{file} is written over in place: a kill in the meantime leaves half of it, and no other "
            "checkpoint; write another file, then rename it (os.replace)",
        )
    elif file := half_written_file(attempts, written):
        yield Fault(
            "warning",
            f"{file} was written under its own name: a kill in the meantime leaves half of it, which the "
            "program has to recognize; write another file, then rename it (os.replace)",
        )
    signal = next((one for one in attempts if one.kind == "notice" and one.endings), None)
    if signal is None:
        return
    yield from _of_signal(signal, save_after_signal(attempts, written), plan)


def _of_signal(
    attempt: RehearsedAttempt, save: tuple[float, Write] | None, plan: Restarts
) -> Iterator[Fault]:
    """Yield what is wrong with how a program handled the signal before a limit: it must react."""
    term = plan.notice - last_before_term(plan.notice)
    ran_on = attempt.ended is not None and attempt.ended - attempt.endings[0].at >= term
    lost = "what it did since its last checkpoint is lost at each limit"
    if save is None and ran_on:
        text = (
            f"{plan.signal} does not reach it, or it ignores that: it neither saved nor ended until TERM came"
        )
        yield Fault("wrong", f"{text}, and {lost}")
    elif save is None:
        yield Fault("warning", f"it saved nothing after {plan.signal}: {lost}")
    elif (seconds := save[1].ended - save[0]) > term:
        took = f"it saved {seconds:.0f} s after {plan.signal}"
        yield Fault("wrong", f"`notice` is too short: {took}, and TERM comes before that")
    elif ran_on:
        text = f"it ran on after {plan.signal} until TERM came: what it saved may be a checkpoint like others"
        yield Fault("unknown", f"{text}; end it when it has saved, with a code that is not 0")


def _of_end(attempt: RehearsedAttempt, plan: Restarts) -> Iterator[Fault]:
    name = f"attempt {attempt.number}"
    if attempt.ended is None:
        yield Fault("unknown", f"{name} has no end: its job was ended, or lives")
    elif attempt.is_enough:
        return
    elif attempt.endings and attempt.code == 0:
        text = f"{name} ended with exit code 0 after {ending_text(attempt)}"
        yield Fault("wrong", f"{text}, and so would count as finished; end with another code")
    elif attempt.endings and attempt.code in plan.stop_on_exit:
        yield Fault(
            "wrong",
            f"{name} ended with exit code {attempt.code}, after which there is no other one (`stop_on_exit`)",
        )
    elif len(attempt.endings) > 1:
        yield Fault(
            "warning",
            f"{name} ran on for a minute after {ending_text(attempt)}, and had to be ended as a whole",
        )
    elif attempt.ended_by_itself and attempt.code == 0 and attempt.number == 0:
        yield Fault("unknown", f"{name} finished before it could be ended; make the training longer")
    elif attempt.ended_by_itself and attempt.code and attempt.number == 0:
        yield Fault(
            "unknown",
            f"{name} failed by itself, with exit code {attempt.code}; the log of the run has the reason",
        )


def _of_begin(
    attempt: RehearsedAttempt, before: RehearsedAttempt, resumption: Resumption, *, has_saved: bool
) -> Iterator[Fault]:
    name = f"attempt {attempt.number}, after {ending_text(before)},"
    if attempt.ended_by_itself and attempt.code:
        yield Fault(
            "wrong",
            f"{name} failed by itself, with exit code {attempt.code}: it cannot resume from what was left",
        )
    elif resumption.has_resumed is False:
        yield Fault("wrong", f"{name} did not resume from the last whole checkpoint: it {_how(resumption)}")
    elif resumption.has_resumed is None and not has_saved:
        yield Fault("unknown", f"{name} wrote no checkpoint in its time; rehearse with more --minutes")
    elif resumption.has_resumed is None:
        text = (
            f"{name} may have resumed or not: it tracked no steps, its checkpoints have no numbers in their "
            "names, and the file system does not show what is read; track a metric with its step"
        )
        yield Fault("unknown", text)


def _how(resumption: Resumption) -> str:
    """Return how an attempt began that did not resume."""
    saved = "" if resumption.saved is None else f", and one had been written after step {resumption.saved:g}"
    return {
        "steps": f"began at step {resumption.began_at or 0:g}{saved}",
        "names": "wrote once more a checkpoint that was there",
        "reading": "read none",
    }[resumption.by]


def _untried(attempts: Sequence[RehearsedAttempt], plan: Restarts) -> Iterator[Fault]:
    """Yield the ends that were not tried, as no rank was found or there was no time."""
    names = {
        "notice": "the signal before a time limit",
        "write": "KILL to a rank while it writes a checkpoint",
        "node": "KILL to all ranks of a node",
        "rank": "KILL to a rank of another node than the first",
    }
    ends = plan.rehearsal.ends if plan.rehearsal else ()
    tried = {end.kind for attempt in attempts for end in attempt.endings if end.node or end.kind == "notice"}
    for end in ends:
        if end not in tried:
            nodes = [node for attempt in attempts if attempt.kind == end for node in attempt.untried]
            why = (
                f"no rank was found on {nodes[0]}, or no way there"
                if nodes
                else "there was no time, or no attempt"
            )
            yield Fault("warning", f"not tried: {names[end]} ({why})")
    if not tried - {"notice"} and {*ends} - {"notice"}:
        yield Fault("unknown", "no rank was ended by KILL")


# --- How often to save: the formula of Young and Daly

FORMULA: Final = "Young (1974), with the terms of higher order of Daly (2006)"
"""J. W. Young, CACM 17(9), doi:10.1145/361147.361115; J. T. Daly, doi:10.1016/j.future.2004.11.016."""

SOURCE_OF_DEFAULT: Final = "The Llama 3 Herd of Models, arXiv:2407.21783"
DEFAULT_NODE_MTBF_HOURS: Final = 54 * 24 * (16_384 / 8) / 419
"""419 unexpected interruptions in 54 days on 16,384 GPUs, 8 in a node: 6335 hours."""


def interval(write_seconds: float, mtbf_seconds: float) -> float:
    """Return the seconds between two checkpoints, without the writing, that lose the least time.

    ``write_seconds``: how long the training waits for a checkpoint; ``mtbf_seconds``: the mean time between
    failures of the job. Equation (37) of Daly.
    """
    if write_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = write_seconds / (2 * mtbf_seconds)
    first = math.sqrt(2 * write_seconds * mtbf_seconds)
    return first * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write_seconds


class Mtbf(NamedTuple):
    """The mean time between failures of a node in hours, and where that is from."""

    node_hours: float
    source: str

    def of_job(self, nodes: int) -> float:
        """Return the seconds between failures of a job on so many nodes: it fails when a node does."""
        return self.node_hours * 3600 / nodes


def choose_mtbf(given: float | None, of_site: float | None) -> Mtbf:
    """Return the time of the option, else of the site, else one that was measured elsewhere."""
    if given is not None:
        return Mtbf(given, "--mtbf")
    if of_site is not None:
        return Mtbf(of_site, "the site file")
    return Mtbf(DEFAULT_NODE_MTBF_HOURS, SOURCE_OF_DEFAULT)


# --- Judging a rehearsal

Verdict = Literal["passes", "refused", "unknown"]

_SAFETY: Final = 2
"""How much longer than in a rehearsal a checkpoint may take: the file system is shared."""


class AttemptRow(NamedTuple):
    """An attempt; ``lost_seconds``: the work since its last whole checkpoint, when it was ended."""

    attempt: RehearsedAttempt
    after: str
    resumption: Resumption | None
    lost_seconds: float | None


class Judgement(NamedTuple):
    """The result of a rehearsal; seconds are None where no checkpoint was written."""

    verdict: Verdict
    findings: tuple[Fault, ...]
    rows: tuple[AttemptRow, ...]
    write_seconds: float | None
    write_bytes: int | None
    save_seconds: float | None
    """From the signal before a time limit to the end of the checkpoint that followed."""
    notice: int | None
    """The recommended notice in seconds."""
    interval: float | None
    """The recommended time between two checkpoints in seconds."""
    mtbf: Mtbf
    nodes: int
    """The number of nodes of the real run."""


def judge(attempts: Sequence[RehearsedAttempt], steps: Steps, plan: Restarts, mtbf: Mtbf) -> Judgement:
    """Judge the attempts."""
    written = checkpoints_of(attempts)
    numbers = range(1, len(attempts))
    resumptions = [resumption(attempts, written, number, steps) for number in numbers]
    found = tuple(faults_of(attempts, written, resumptions, plan))
    kinds = {finding.kind for finding in found}
    writes = [write for each in written.values() for write in each]
    longest = max((write.seconds for write in writes), default=None)
    save = save_after_signal(attempts, written)
    nodes = plan.rehearsal.nodes if plan.rehearsal else 1
    return Judgement(
        verdict="refused" if "wrong" in kinds else "unknown" if "unknown" in kinds else "passes",
        findings=found,
        rows=tuple(
            AttemptRow(attempt, ending_text(attempt), resumption, _lost(attempt, written[attempt.number]))
            for attempt, resumption in zip(attempts, (None, *resumptions), strict=False)
        ),
        write_seconds=longest,
        write_bytes=max((write.bytes for write in writes), default=None),
        save_seconds=save[1].ended - save[0] if save else None,
        notice=_notice(longest, save),
        interval=None if longest is None else interval(longest, mtbf.of_job(nodes)),
        mtbf=mtbf,
        nodes=nodes,
    )


def _lost(attempt: RehearsedAttempt, writes: Sequence[Write]) -> float | None:
    """Return the seconds from the start of its last whole checkpoint, else its own, to its end."""
    if not attempt.endings or attempt.is_enough:
        return None
    end = attempt.endings[0]
    whole = [write.began for write in writes if is_whole(write, attempt)]
    if end.kind == "notice" and attempt.ended is not None:
        return attempt.ended - max(whole, default=attempt.began)
    return end.at - max(whole, default=attempt.began)


def _notice(longest: float | None, save: tuple[float, Write] | None) -> int | None:
    """Return a notice in whole minutes: for twice what saving took, and the end after TERM."""
    took = save[1].ended - save[0] if save else longest
    return None if took is None else 60 * math.ceil((_SAFETY * took + last_before_term(60)) / 60)
