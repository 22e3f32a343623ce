"""Suspect nodes that new jobs do without, and the warnings about them: for whatever plans jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hpcdist.errors import ConfigError, Problem, SchedulerError, located, span_text, warning
from hpcdist.host import xdg
from hpcdist.loading import preferences
from hpcdist.loading.planning import Planned
from hpcdist.loading.preferences import Preferences
from hpcdist.nodes import known
from hpcdist.nodes.avoiding import Avoiding, avoiding
from hpcdist.nodes.known import Known
from hpcdist.nodes.suspicion import Node
from hpcdist.schedulers import schedulers

_SHOWN: Final = 3


def read(runs_dir: Path, own: Preferences | None = None) -> Known:
    """Return what is known against nodes, by the user's own ledger and the one that the config names.

    Raises:
        ConfigError: if the config is invalid.
    """
    own = own or preferences.read(os.environ)
    shared = own.config.nodes_ledger
    with located(lambda problem: problem._replace(place=own.place("nodes_ledger"))):
        file = xdg.expanded(shared) if shared else None
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
