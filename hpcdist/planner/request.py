"""The request to the scheduler besides nodes: account, QOS, walltime, array, mail and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.batch import Mail
from hpcdist.experiment.batch_specs import ArraySpec, Dependency, IndexRange, SignalSpec
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Request
from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Word
from hpcdist.planner.pools import whole_nodes_in
from hpcdist.site.fabric import JobFacts, active_groups
from hpcdist.site.model import Site


def request_of(experiment: Experiment, site: Site, placement: Placement, job: JobFacts) -> Request:
    """Return the request; `account_of` checks the account.

    Raises:
        PlanError: where the partitions have different QOS.
    """
    batch = experiment.batch
    waits = (batch.dependency,) if isinstance(batch.dependency, str) else batch.dependency
    return Request(
        walltime=batch.walltime or site.walltime,
        account=batch.account,
        qos=batch.qos or _qos_of_partition(site, placement),
        exclusive=bool(whole_nodes(site, placement)) if batch.exclusive is None else batch.exclusive,
        dependency=tuple(map(Dependency.parse, waits)),
        array=_array(experiment),
        signal=None if batch.signal is None else SignalSpec.parse(batch.signal),
        requeue=batch.requeue,
        mail=Mail(batch.mail) if isinstance(batch.mail, str) else batch.mail,
        submit_environment=site.environment,
        site_directives=tuple(_site_directives(site, job)),
        extra_directives=batch.directives,
        gpu_request=site.gpus.request,
        gpu_name=site.gpus.gres,
        lsf=site.lsf,
        sge=site.sge,
    )


def _array(experiment: Experiment) -> ArraySpec | None:
    """Return the array of the job; that of a search has an element for each trial, from 1 on."""
    search, text = experiment.hptuning, experiment.batch.array
    if search is None:
        return None if text is None else ArraySpec.parse(str(text))
    trials = len(experiment.trials)
    return ArraySpec((IndexRange(1, trials),), search.concurrency and min(search.concurrency, trials))


def _site_directives(site: Site, job: JobFacts) -> Iterator[Word]:
    """Yield the directives that belong to the site's variables for such a job."""
    for index, group in active_groups(site.fabric, job):
        for text in group.directives:
            yield Word(text=text, origin=Origin("site", site.name, f"fabric.together.{index}", group.why))


def account_of(experiment: Experiment, site: Site) -> str | None:
    """Return the account that pays for the job.

    Raises:
        PlanError: where the site wants one, or another.
    """
    account, rule = experiment.batch.account, site.account
    path = ("batch", "account")
    hint = rule.hint or "write `batch: {account: NAME}` or `--set batch.account=NAME`"
    if account is None and rule.required:
        always = f"`sites: {{{site.name}: {{account: NAME}}}}` in ~/.config/hpcdist/config.yml"
        message = f"site {site.name} requires an account"
        raise PlanError(Problem(message, path, f"{hint}; for all experiments {always}"))
    if account is not None and rule.pattern and not re.fullmatch(rule.pattern, account):
        message = f"site {site.name} has no accounts like {account!r} ({rule.pattern})"
        raise PlanError(Problem(message, path, rule.hint or ""))
    return account


def _qos_of_partition(site: Site, placement: Placement) -> str | None:
    """Return the QOS that belongs to the chosen partitions; a job has one."""
    names = list(dict.fromkeys(group.site_partition for group in placement.groups))
    found = {site.partitions[name].qos for name in names if name in site.partitions}
    if len(found) > 1:
        message = f"the partitions {' and '.join(filter(None, names))} have different QOS, and a job has one"
        raise PlanError(Problem(message, ("batch", "qos"), "write the one that both take"))
    return next(iter(found), None)


def whole_nodes(site: Site, placement: Placement) -> str | None:
    """Return the key by which the site gives such a job nodes of its own, None where it does not.

    A job has one answer: where one partition gives whole nodes, it has them in all.
    """
    found = (whole_nodes_in(site, group.site_partition) for group in placement.groups)
    return next((key for whole, key in found if whole), None)
