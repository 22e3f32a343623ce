"""The request to the scheduler besides nodes: QOS, walltime, array, mail and so on."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.base.errors import PlanError, Problem
from hpcdist.experiment.batch import ArraySpec, Dependency, IndexRange, Mail, SignalSpec, with_job_name
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Restarts, SchedulerRequest
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Origin, Word
from hpcdist.planner import budget
from hpcdist.planner.budget import cost_of
from hpcdist.planner.pools import whole_nodes_in
from hpcdist.schedulers import schedulers
from hpcdist.site.fabric import JobFacts, active_groups
from hpcdist.site.model import Site
from hpcdist.site.nodes import Gpus


def request_of(
    experiment: Experiment, site: Site, placement: Placement, job: JobFacts, restarts: Restarts | None
) -> SchedulerRequest:
    """Return the request.

    Raises:
        PlanError: where the partitions have different QOS, the account does not suit the job, or nodes
            cannot be excluded.
    """
    budget.must_suit(experiment, site, job)
    batch, (gpus, _) = experiment.batch, gpus_of(site, placement)
    waits = (batch.dependency,) if isinstance(batch.dependency, str) else batch.dependency
    return SchedulerRequest(
        walltime=batch.walltime or site.walltime,
        account=batch.account,
        qos=batch.qos or _qos_of_partition(site, placement),
        exclusive=_is_exclusive(experiment, site, placement),
        dependency=tuple(map(Dependency.parse, waits)),
        array=_array(experiment, site, placement),
        signal=None if batch.signal is None else SignalSpec.parse(batch.signal),
        requeue=(restarts is not None and restarts.by == "requeue") or batch.requeue,
        mail=Mail(batch.mail) if isinstance(batch.mail, str) else batch.mail,
        output=batch.output and with_job_name(batch.output, experiment.name),
        error=batch.error and with_job_name(batch.error, experiment.name),
        submit_environment=site.environment,
        site_directives=tuple(_site_directives(site, job)),
        extra_directives=batch.directives,
        exclude_nodes=_excluded(experiment, site),
        submit_options=_submit_options(site, batch.account),
        gpu_request=gpus.request,
        gpu_name=gpus.gres,
        lsf=site.lsf,
        sge=site.sge,
    )


def _excluded(experiment: Experiment, site: Site) -> tuple[str, ...]:
    """Return the nodes that the job must not get.

    Raises:
        PlanError: where the batch system cannot do that.
    """
    names = experiment.batch.exclude_nodes
    if names and (why := schedulers.get(site.scheduler).cannot_exclude(site)):
        raise PlanError(Problem(why, ("batch", "exclude_nodes"), "remove it"))
    return tuple(dict.fromkeys(names))


def _is_exclusive(experiment: Experiment, site: Site, placement: Placement) -> bool:
    """Whether the job does not share its nodes."""
    own = experiment.batch.exclusive
    return bool(whole_nodes(site, placement)) if own is None else own


def _submit_options(site: Site, account: str | None) -> tuple[str, ...]:
    """Return the options of the submit command that no script can hold."""
    by_option = site.scheduler == "sge" and site.sge.account == "-g"
    return ("-g", account) if by_option and account else ()


def has_arrays(site: Site) -> bool:
    """Whether a job may be an array at the site."""
    return schedulers.get(site.scheduler).has_arrays and "--array" not in site.directives.forbidden


def most_elements(site: Site) -> int | None:
    """Return how many elements from 1 on an array may have; None where the batch system has no limit."""
    limit = schedulers.get(site.scheduler).array_limit
    return site.max_array_elements or (limit and limit.largest)


def _array(experiment: Experiment, site: Site, placement: Placement) -> ArraySpec | None:
    """Return the array of the job; for a search, with an element for each trial, from 1 on.

    Where the batch system cannot take so many, it has the first trials.
    """
    search, text = experiment.hptuning, experiment.batch.array
    if search is None:
        return None if text is None else ArraySpec.parse(str(text))
    trials = min(len(experiment.trials), most_elements(site) or len(experiment.trials))
    walltime, budget = experiment.batch.walltime or site.walltime, experiment.batch.budget
    cost = cost_of(placement, site, walltime, exclusive=_is_exclusive(experiment, site, placement))
    payable = int(budget * 3600 // cost) if budget and cost else None
    limits = [limit for limit in (search.concurrency, payable) if limit and limit < trials]
    at_once = search.concurrency and min(search.concurrency, trials)
    return ArraySpec((IndexRange(1, trials),), min(limits) if limits else at_once)


def _site_directives(site: Site, job: JobFacts) -> Iterator[Word]:
    """Yield the directives that belong to the site's variables for such a job."""
    for index, group in active_groups(site.fabric, job):
        for text in group.directives:
            yield Word(text=text, origin=Origin("site", site.name, f"fabric.together.{index}", group.why))


def _qos_of_partition(site: Site, placement: Placement) -> str | None:
    """Return the QOS that belongs to the chosen partitions; a job has one."""
    names = list(dict.fromkeys(group.site_partition for group in placement.groups))
    found = {site.partitions[name].qos for name in names if name in site.partitions}
    if len(found) > 1:
        message = f"the partitions {' and '.join(filter(None, names))} have different QOS, and a job has one"
        raise PlanError(Problem(message, ("batch", "qos"), "write the one that both take"))
    return next(iter(found), None)


def gpus_of(site: Site, placement: Placement) -> tuple[Gpus, str]:
    """Return how GPUs are requested in the chosen partitions, and the key of the site file that says so.

    Raises:
        PlanError: where they differ, as a job has one way.
    """
    names = dict.fromkeys(group.site_partition for group in placement.groups)
    found = dict(map(site.gpus_in, names))
    if len(found) > 1:
        message = f"the partitions {' and '.join(filter(None, names))} request GPUs in different ways"
        raise PlanError(Problem(message, ("batch", "partition"), "write the one for all replicas"))
    return next(iter(found.items()))


def whole_nodes(site: Site, placement: Placement) -> str | None:
    """Return the key by which the site gives such a job whole nodes, None where it does not.

    Where one partition gives whole nodes, the job has them in all its partitions.
    """
    found = (whole_nodes_in(site, group.site_partition) for group in placement.groups)
    return next((key for whole, key in found if whole), None)
