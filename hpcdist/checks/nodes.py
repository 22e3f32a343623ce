"""Nodes that failed in the user's runs, and plans with suspect nodes excluded.

The evidence is in the runs themselves: the event logs of the last 14 days, and the faults that nodes showed
when tasks failed. A node is suspect after one loss, or after two failures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, Place, Problem, SchedulerError, span_text, warning
from hpcdist.base.tree import Map, Seq
from hpcdist.loading.planning import Planned, replanned
from hpcdist.plan.model import Plan
from hpcdist.runs import attempt_files, endings, failures
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.directives import names_nodes
from hpcdist.schedulers.job import NODE, split_id
from hpcdist.site.model import Site

# --- Evidence against nodes: what one attempt of a run showed about one node

Kind = Literal["lost", "failed"]
"""``lost``: the batch system or the kernel reports that the node or a device in it is broken (node
down, Xid, ECC, a dead link). ``failed``: the first task to fail ran on it, and the training completed."""

DAYS: Final = 14
"""Older evidence does not count; also in ``templates/runtime/supervisor/nodes.py``, as `_FAILURES`."""

_FAILURES: Final = 2


class Evidence(NamedTuple):
    """One observation against a node."""

    at: float
    """The time, in seconds since 1970 by the clock of the job's first node, at most now."""
    site: str
    """The site of the run."""
    node: str
    """The node's name in the batch system, with the domain if it has one."""
    kind: Kind
    """What was observed."""
    run: str
    """The name of the run."""
    attempt: int
    """The number of the run's attempt, 0 for the first."""
    text: str
    """A sentence of one line."""


class NodeEvidence(NamedTuple):
    """A node of a site, and the evidence against it, the newest first."""

    site: str
    name: str
    evidence: tuple[Evidence, ...]

    @property
    def losses(self) -> int:
        """How often it was lost."""
        return sum(one.kind == "lost" for one in self.evidence)

    @property
    def failures(self) -> int:
        """How often the first task to fail ran on it."""
        return len(self.evidence) - self.losses

    @property
    def is_suspect(self) -> bool:
        """Whether jobs should avoid it."""
        return bool(self.losses) or self.failures >= _FAILURES


def known_nodes(runs_dir: Path, now: float, site: str | None = None) -> list[NodeEvidence]:
    """Return the nodes of a site, or of all sites, with evidence against them, the most evidence first.

    ``now``: in seconds since 1970 by this machine's clock.
    """
    found = [one for directory in recent_runs(runs_dir, now) for one in evidence_of(directory, now)]
    return [node for node in grouped(found) if site in (None, node.site)]


def grouped(found: Iterable[Evidence]) -> list[NodeEvidence]:
    """Return the nodes with their evidence; a node known with and without its domain is one node."""
    own = [*dict.fromkeys(found)]
    full: dict[tuple[str, str], set[str]] = {}
    for one in own:
        if "." in one.node:
            full.setdefault((one.site, one.node.partition(".")[0]), set()).add(one.node)
    by_node: dict[tuple[str, str], list[Evidence]] = {}
    for one in own:
        names = full.get((one.site, one.node), ())
        name = next(iter(names)) if len(names) == 1 else one.node
        by_node.setdefault((one.site, name), []).append(one._replace(node=name))
    nodes = [NodeEvidence(*key, (*sorted(each, key=lambda one: -one.at),)) for key, each in by_node.items()]
    return sorted(nodes, key=lambda node: (-_FAILURES * node.losses - node.failures, -node.evidence[0].at))


def recent_runs(runs_dir: Path, now: float) -> Iterator[RunDirectory]:
    """Yield the runs whose event log has grown in the last days."""
    with suppress(OSError), os.scandir(runs_dir) as folders:
        for folder in folders:
            if folder.name.startswith(".") or not folder.name.isprintable():  # also one in another code
                continue
            with suppress(OSError):
                if Path(folder.path, "events").lstat().st_mtime >= now - DAYS * 86400:
                    yield RunDirectory(runs_dir / folder.name)


# --- The evidence of one run

_KINDS: Final[dict[str, Kind]] = {"lost": "lost", "blamed": "failed"}
_TEXTS: Final[dict[Kind, str]] = {
    "lost": "the batch system reported it as down, and job {} lost it",
    "failed": "the first task of job {} to fail ran on it, and the training completed later",
}
_FAULTY: Final = frozenset({"lost", "blamed", "requeued", "restarted"})
_COMPLETED: Final = ("over", "completed")
_MOST_ATTEMPTS: Final = 20
_SIGNS: Final = 3


def evidence_of(directory: RunDirectory, now: float) -> list[Evidence]:
    """Return the recent evidence of a run; none if the run cannot be read."""
    log = directory.events()
    if not any(event.what in _FAULTY or (event.what == "ended" and event.value != "0") for event in log):
        return []
    try:
        run = Evidence(0, directory.record().site, "", "lost", directory.name, 0, "")
    except ConfigError:
        return []
    found = (*_of_log(log, run), *_of_faults(directory, log, run))
    return [one._replace(at=min(one.at, now)) for one in found if one.at >= now - DAYS * 86400]


def _of_log(log: Sequence[Event], run: Evidence) -> Iterator[Evidence]:
    """Yield the evidence in the events; a program that never completes is no evidence.

    ``run``: evidence with the facts of the run filled in.
    """
    begun: dict[str, int] = {}
    is_completed = any((event.what, event.value) == _COMPLETED for event in log)
    for event in log:
        element = split_id(event.job_id)[1] or ""
        if event.what in ("started", "restarted", "skipped"):
            begun[element] = begun.get(element, 0) + (-1 if event.what == "skipped" else 1)
        kind = _KINDS.get(event.what)
        if kind and (kind == "lost" or is_completed) and NODE.fullmatch(event.value):
            attempt, text = max(0, begun.get(element, 0) - 1), _TEXTS[kind].format(event.job_id)
            yield run._replace(at=float(event.at), node=event.value, kind=kind, attempt=attempt, text=text)


def _of_faults(directory: RunDirectory, log: Sequence[Event], run: Evidence) -> Iterator[Evidence]:
    """Yield the hardware faults of nodes in the last attempts that are over."""
    last = {event.job_id: event for event in log}
    attempts = [each for each in attempt_files.numbered(directory) if each.name]
    latest = {each.job: each for each in attempts}
    for attempt in attempts[-_MOST_ATTEMPTS:]:
        end = last.get(attempt.job)
        if not end or (latest[attempt.job] is attempt and end.what not in ("ended", "requeued")):
            continue
        for node in failures.read_faults(directory, attempt):
            if node.of_hardware:
                name, text = node.host.partition(".")[0], "; ".join(node.of_hardware[:_SIGNS])
                name = _full_names(directory, attempt).get(name, name)
                yield run._replace(at=node.ends[0].at, node=name, attempt=attempt.number, text=text)


def _full_names(directory: RunDirectory, attempt: Numbered) -> dict[str, str]:
    """Return the batch system's names of an attempt's nodes, by the names without a domain."""
    start = attempt.name.partition(".")[0]
    for name in (f"nodes.{attempt.name}", f"nodes.{start}"):  # the first if it got other nodes
        with suppress(OSError):
            nodes = endings.read_nodes(directory, f"jobs/{attempt.job}/{name}")
            return {node.partition(".")[0]: node for node in nodes}
    return {}


# --- Plans with suspect nodes excluded

_ORIGIN: Final = Place("hpcdist doctor --nodes", 0, 0)
_MOST: Final = 8
"""As inside a run (``templates/runtime/supervisor/nodes.py``)."""

_OF_UNKNOWN: Final = 2
_SHARE: Final = 4


class Exclusion(NamedTuple):
    """A plan with ``excluded`` nodes; ``left``: suspect nodes not excluded, for the reason ``why``."""

    made: Planned
    excluded: Sequence[NodeEvidence] = ()
    left: Sequence[NodeEvidence] = ()
    why: str = ""


def exclude_suspects(made: Planned, nodes: Sequence[NodeEvidence]) -> Exclusion:
    """Return the plan with the suspect ones of these nodes excluded, if the experiment wants that.

    At most eight are excluded, and at most a quarter of the nodes of each kind that the job needs, but one
    if enough are left; at most two if the site file does not set the number of nodes.

    Raises:
        PlanError: as `replanned`.
    """
    own = made.experiment.batch.exclude_nodes
    suspects = [node for node in nodes if node.is_suspect and node.name not in own]
    if not suspects:
        return Exclusion(made)
    if why := _why_not(made):
        return Exclusion(made, left=suspects, why=why)
    bound = most_excluded(made.plan, made.machine.site)
    excluded, left = suspects[:bound], suspects[bound:]
    made = _without(made, [node.name for node in excluded]) if excluded else made
    return Exclusion(made, excluded, left, f"no more than {bound} are excluded from this job")


def _why_not(made: Planned) -> str:
    """Return why no node is to be excluded; empty if suspect nodes are."""
    batch, restart = made.experiment.batch, made.experiment.environment.restart
    scheduler = schedulers.get(made.plan.identity.scheduler)
    if why := scheduler.cannot_exclude(made.machine.site):
        return why
    by_restart = restart is not None and restart.exclude_bad_nodes
    if not (by_restart if batch.exclude_bad_nodes is None else batch.exclude_bad_nodes):
        return "`batch: {exclude_bad_nodes: true}` excludes them"
    texts = (*batch.directives, *made.machine.site.directives.mandatory)
    if found := [flag for text in texts for flag in scheduler.node_flags if text.startswith(flag)]:
        return f"the directive {found[0].rstrip('=')} names the nodes already"
    if any(names_nodes(group.constraint) for group in made.plan.placement.groups):
        return "the constraint names the nodes already"
    return ""


def most_excluded(plan: Plan, site: Site) -> int:
    """Return how many nodes may be excluded from a job."""
    bounds = [_MOST]
    for group in plan.placement.groups:
        partition = site.partitions.get(group.site_partition or "")
        types = partition.nodes if partition else {}
        counts = [types[group.node_type]] if group.node_type in types else [*types.values()]
        known = [count for count in counts if count is not None]
        if not known or len(known) < len(counts):
            bounds.append(_OF_UNKNOWN)
        else:
            spare = sum(known) - group.nodes - plan.own_nodes
            bounds.append(max(0, min(spare, max(1, sum(known) // _SHARE))))
    return min(bounds)


def _without(made: Planned, names: Sequence[str]) -> Planned:
    batch, data = made.experiment.batch, made.document.data.copy()
    section = data.get("batch")
    changed = section.copy() if isinstance(section, Map) else Map(section or {}, place=data.place)
    excluded = (*batch.exclude_nodes, *names)
    changed.put("exclude_nodes", Seq(excluded), _ORIGIN)
    data.put("batch", changed, data.value_places.get("batch"), key_place=data.key_places.get("batch"))
    experiment = replace(made.experiment, batch=replace(batch, exclude_nodes=excluded))
    return replanned(made._replace(document=made.document._replace(data=data)), experiment)


# --- What verbs call, with the warnings

_SHOWN: Final = 3


def without_suspects(made: Planned, runs_dir: Path, remote: str = "") -> Planned:
    """Return the plan with suspect nodes excluded, if it wants that, with a warning about them.

    ``remote``: first fetch the records of unfinished runs on this remote.

    Raises:
        PlanError: as `exclude_suspects`.
    """
    return all_without_suspects([made], runs_dir, remote)[0]


def all_without_suspects(plans: Sequence[Planned], runs_dir: Path, remote: str = "") -> list[Planned]:
    """Return these plans for one machine as `without_suspects`; the runs are read once.

    Raises:
        PlanError: as `exclude_suspects`.
    """
    if not schedulers.get(plans[0].plan.identity.scheduler).is_batch_system:
        return [*plans]
    problems, now = _fetch(runs_dir, remote) if remote else (), time.time()
    nodes = known_nodes(runs_dir, now, plans[0].plan.identity.site)
    found = (exclude_suspects(made, nodes) for made in plans)
    return [
        each.made._replace(problems=(*each.made.problems, *problems, *_warnings(each, now))) for each in found
    ]


def _fetch(runs_dir: Path, remote: str) -> tuple[Problem, ...]:
    """Fetch the remote's records of runs that have not ended here; return failures as warnings."""
    from hpcdist.runs import finding
    from hpcdist.runs.remotes import here  # loads ssh, which few need

    own = (run for run in finding.list_runs(runs_dir)[0] if run.record.remote == remote)
    live = [run for run in own if any(job.job and not job.record.ended for job in run.jobs)]
    try:
        if live:
            here.services().pull(live)
    except (ConfigError, SchedulerError) as error:
        return tuple(problem._replace(severity="warning") for problem in error.problems)
    return ()


def _warnings(found: Exclusion, now: float) -> Iterator[Problem]:
    if found.excluded:
        hint = "`hpcdist doctor --nodes` shows why; `--set batch.exclude_bad_nodes=false` uses them again"
        yield warning(f"excluded as suspect: {_named(found.excluded, now)}", hint=hint)
    if found.left:
        hint = f"{found.why}; `hpcdist doctor --nodes` shows more"
        yield warning(f"the job may get suspect nodes: {_named(found.left, now)}", hint=hint)


def _named(nodes: Sequence[NodeEvidence], now: float) -> str:
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return ", ".join(_text(node, now) for node in nodes[:_SHOWN]) + more


def _text(node: NodeEvidence, now: float) -> str:
    """Return ``n17 (lost 3h ago in train-7, and 1 before)``."""
    last, count = node.evidence[0], len(node.evidence) - 1
    before = f", and {count} before" if count else ""
    return f"{node.name} ({last.kind} {span_text(now - last.at)} ago in {last.run}{before})"
