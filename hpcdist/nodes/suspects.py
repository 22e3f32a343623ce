"""Suspect nodes that new jobs do without, and the warnings about them: for whatever plans jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import ConfigError, Place, Problem, SchedulerError, located, span_text, warning
from hpcdist.host import ownership
from hpcdist.loading import preferences
from hpcdist.loading.planning import Planned, replanned
from hpcdist.loading.preferences import Preferences
from hpcdist.nodes import known
from hpcdist.nodes.known import Known
from hpcdist.nodes.ledger import Node
from hpcdist.plan.model import Plan
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.directives import names_nodes
from hpcdist.site.model import Site

# --- Suspect nodes that a job could get: which of them it is to do without

_ORIGIN: Final = Place("hpcdist nodes", 0, 0)
_MOST: Final = 8
"""As inside a run (``templates/runtime/supervisor/nodes.py``)."""

_OF_UNKNOWN: Final = 2
_SHARE: Final = 4


class Avoiding(NamedTuple):
    """A plan that does without ``excluded`` nodes; ``left`` are suspect, too, but not excluded: ``why``."""

    made: Planned
    excluded: Sequence[Node] = ()
    left: Sequence[Node] = ()
    why: str = ""


def avoiding(made: Planned, nodes: Sequence[Node]) -> Avoiding:
    """Return the plan that does without the suspect ones of these nodes, if the experiment wants that.

    Excluded are eight at most, and a quarter of the nodes of each kind that the job needs, but one at least
    if enough are left; two at most where the site file does not say how many there are.

    Raises:
        PlanError: as `replanned`.
    """
    own = made.experiment.batch.exclude_nodes
    suspects = [node for node in nodes if node.is_suspect and node.name not in own]
    if not suspects:
        return Avoiding(made)
    if why := _why_not(made):
        return Avoiding(made, left=suspects, why=why)
    bound = most(made.plan, made.machine.site)
    excluded, left = suspects[:bound], suspects[bound:]
    made = _without(made, [node.name for node in excluded]) if excluded else made
    return Avoiding(made, excluded, left, f"no more than {bound} are excluded from this job")


def _why_not(made: Planned) -> str:
    """Return why no node is to be excluded; empty if suspect ones are."""
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


def most(plan: Plan, site: Site) -> int:
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


# --- Suspect nodes that new jobs do without, and the warnings about them

_SHOWN: Final = 3


def read(runs_dir: Path, own: Preferences | None = None) -> Known:
    """Return what is known against nodes, by the user's own ledger and the one that the config names.

    Raises:
        ConfigError: if the config is invalid.
    """
    own = own or preferences.read(os.environ)
    shared = own.config.nodes_ledger
    with located(lambda problem: problem._replace(place=own.place("nodes_ledger"))):
        file = ownership.expanded(shared) if shared else None
    return known.read(runs_dir, file, time.time())


def avoided(made: Planned, runs_dir: Path, *, saves: bool = False, remote: str = "") -> Planned:
    """Return the plan without suspect nodes, where it wants that, with a warning about them.

    ``saves``: what is new is written into the ledgers; of runs that go on on the ``remote`` to which the job
    goes, it is fetched before.

    Raises:
        PlanError: as `avoiding`.
    """
    return avoided_by_all([made], runs_dir, saves=saves, remote=remote)[0]


def avoided_by_all(
    plans: Sequence[Planned], runs_dir: Path, *, saves: bool = False, remote: str = ""
) -> list[Planned]:
    """Return these plans of one machine as `avoided`; what is known is read once.

    Raises:
        PlanError: as `avoiding`.
    """
    if not schedulers.get(plans[0].plan.identity.scheduler).is_batch_system:
        return [*plans]
    old = _fetched(runs_dir, remote) if saves and remote else ()
    found = read(runs_dir, plans[0].preferences)
    problems = (*old, *found.problems, *(found.save() if saves else ()))
    nodes = found.nodes(plans[0].plan.identity.site)
    return [_with_warnings(avoiding(made, nodes), problems, found.now) for made in plans]


def _fetched(runs_dir: Path, remote: str) -> tuple[Problem, ...]:
    """Bring here what runs recorded there whose end is not known yet; return why it is old, as warnings."""
    from hpcdist.remotes import here  # with ssh, which few need
    from hpcdist.runs import finding

    own = (run for run in finding.list_runs(runs_dir)[0] if run.record.remote == remote)
    live = [run for run in own if any(job.job and not job.record.ended for job in run.jobs)]
    try:
        if live:
            here.services().pull(live)
    except (ConfigError, SchedulerError) as error:
        return tuple(problem._replace(severity="warning") for problem in error.problems)
    return ()


def _with_warnings(found: Avoiding, problems: Sequence[Problem], now: float) -> Planned:
    return found.made._replace(problems=(*found.made.problems, *problems, *_warnings(found, now)))


def _warnings(found: Avoiding, now: float) -> Iterator[Problem]:
    if found.excluded:
        hint = "`hpcdist nodes` shows why; after its repair, `hpcdist nodes forget NAME`"
        yield warning(f"excluded as suspect: {_named(found.excluded, now)}", hint=hint)
    if found.left:
        hint = f"{found.why}; `hpcdist nodes` shows more"
        yield warning(f"the job may get suspect nodes: {_named(found.left, now)}", hint=hint)


def _named(nodes: Sequence[Node], now: float) -> str:
    texts = [_text(node, now) for node in nodes[:_SHOWN]]
    more = len(nodes) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _text(node: Node, now: float) -> str:
    """Return ``n17 (1.81: lost 3h ago in train-7, and 1 before)``."""
    last, count = node.evidence[0], len(node.evidence) - 1
    before = f", and {count} before" if count else ""
    when = f"{last.kind} {span_text(now - last.at)} ago in {last.run}{before}"
    return f"{node.name} ({node.suspicion:.2f}: {when})"
