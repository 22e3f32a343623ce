"""The planner: experiment + site become a plan, in which nothing is optional any more.

Pure: no clock, no environment, no process. ``where`` turns a path of the experiment into an origin such as
``exp.yml:14``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from hpcdist import lint
from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.launch.line import SLOTS, UNSEEN, UserLaunch, user_launch
from hpcdist.experiment.model import Experiment, Mail
from hpcdist.layers import polyaxon_variables
from hpcdist.layers.frameworks import framework_of
from hpcdist.layers.protocols import Launcher, Topology
from hpcdist.plan.fabric_variables import surroundings
from hpcdist.plan.model import TASK_WRAPPER, Placement, Plan, Word
from hpcdist.planner import container_choice, job_setup
from hpcdist.planner.advice import advice
from hpcdist.planner.feasibility import Where
from hpcdist.planner.launcher_choice import launcher_args, launcher_of, must_meet_by_mpi, pmi_of
from hpcdist.planner.origins import origins
from hpcdist.planner.placement import beside_gpus
from hpcdist.planner.pools import whole_nodes_in
from hpcdist.planner.selection import select
from hpcdist.planner.variables import located, variables
from hpcdist.planner.visibility import bound_by, gpu_visibility
from hpcdist.schedulers import schedulers
from hpcdist.site.fabric import Surroundings, groups
from hpcdist.site.model import Site


def make_plan(experiment: Experiment, site: Site, where: Where) -> Plan:
    """Decide everything.

    Raises:
        PlanError: when the site cannot take the experiment; all reasons at once where they are independent.
    """
    launch = user_launch(experiment.run.command, _env(experiment))
    if experiment.backend == "mpi" and launch is None:
        launch = UNSEEN
    framework = framework_of(experiment)
    topology = framework.topology(experiment)
    if launch and launch.runs == "per_node":
        topology = msgspec.structs.replace(topology, spread=True, task="replica")
    launcher = launcher_of(experiment, site, topology, launch)
    bare = _bare(experiment, site, where, launch, launcher, topology)
    meets_by_mpi = topology.needs_mpi and launch is None and bare.placement.size > 1
    if meets_by_mpi:
        must_meet_by_mpi(framework.name, site, topology, launcher)
    shared = framework.variables(bare, experiment, site)
    own = framework.task_variables(bare, experiment, site)
    plan = msgspec.structs.replace(
        bare,
        label_in_task=bare.placement.size > 1 and not launcher.labels_output,
        # Cray's PMI has other variables (https://slurm.schedmd.com/mpi_guide.html).
        needs_pmi=meets_by_mpi and launcher.gives_pmi and bare.mpi != "cray_shasta",
        setup=tuple(job_setup.setup(experiment, site, where)),
        task_setup=tuple(Word.raw(line, f"site {site.name}: task_setup") for line in site.task_setup),
        variables=tuple(variables(experiment, site, bare, shared, where)),
        task_variables=(*polyaxon_variables.task_variables(), *own),
        told=tuple(dict.fromkeys(variable.name for variable in (*shared, *own))),
    )
    plan = container_choice.enclosed(plan, site)
    plan = msgspec.structs.replace(
        plan,
        launch=tuple(_launch(plan, site, launcher, experiment, where)),
        warnings=(
            *advice(experiment, site, plan, launch, topology, where),
            *framework.advice(plan, experiment, site),
        ),
    )
    plan = msgspec.structs.replace(plan, directives=schedulers.get(site.scheduler).directives(plan, site))
    return _linted(plan, site, experiment)


def _env(experiment: Experiment) -> dict[str, str]:
    return {name: str(value) for name, value in experiment.environment.env_vars.items()}


def _linted(plan: Plan, site: Site, experiment: Experiment) -> Plan:
    """Return the plan with what is odd about its variables among its warnings; notes are for `check`."""
    found = lint.of_plan(plan, site)
    never = [item for item in found if item.severity == "error"]
    if never:
        raise PlanError(*(_refused(item, experiment) for item in never))
    odd = (str(item) for item in found if item.severity == "warning")
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *odd))


def _refused(found: lint.Finding, experiment: Experiment) -> Problem:
    if found.name in experiment.environment.env_vars:
        return Problem(found.text, ("environment", "env_vars", found.name), found.hint)
    return Problem(f"{found.origin}: {found.text}", hint=found.hint)


def _bare(  # noqa: PLR0913, PLR0917 - all that is known before
    experiment: Experiment,
    site: Site,
    where: Where,
    launch: UserLaunch | None,
    launcher: Launcher,
    topology: Topology,
) -> Plan:
    """Return the plan without what is derived from it: variables, words, directives."""
    batch, environment = experiment.batch, experiment.environment
    walltime = batch.walltime or site.walltime
    placement = select(experiment, site, walltime, where, topology)
    by_user = launch is not None and launch.runs == "once"
    once = by_user or launcher.rank_variables is None
    roles = {row.role for row in placement.rows}
    options = site.options(launcher.name)
    box = container_choice.enclosure_of(experiment, site, launcher, launch)
    around = surroundings(site, placement, container=box is not None)
    whole = _whole_nodes(site, placement)
    exclusive = whole is not None if batch.exclusive is None else batch.exclusive
    args = tuple(launcher_args(experiment, site, None if by_user else launcher, around, where))
    visibility = gpu_visibility(experiment, site, launcher, topology, (*bound_by(options, placement), *args))
    if launcher.lists_cpus and visibility != "launcher" and not once:
        placement = beside_gpus(placement, site, exclusive=exclusive)
    return Plan(
        name=experiment.name,
        description=experiment.description,
        tags=experiment.tags,
        site=site.name,
        scheduler=site.scheduler,
        launcher="once" if by_user else launcher.name,
        framework=experiment.framework,
        command=experiment.run.command,
        launches="once" if once else "tasks",
        starts_processes=topology.spread or topology.task == "node",
        awaited=() if once or roles <= topology.awaited else tuple(sorted(topology.awaited & roles)),
        elastic=topology.elastic,
        ports=_ports(placement),
        placement=placement,
        walltime=walltime,
        account=_account(experiment, site),
        qos=batch.qos or _qos_of_partition(site, placement),
        exclusive=exclusive,
        dependency=(batch.dependency,) if isinstance(batch.dependency, str) else batch.dependency,
        array=None if batch.array is None else str(batch.array),
        signal=batch.signal,
        requeue=batch.requeue,
        max_restarts=environment.max_restarts or 0,
        demanded=tuple(_demanded(site, around)),
        extra_directives=batch.directives,
        launcher_args=args,
        mail_user=batch.mail.user if isinstance(batch.mail, Mail) else batch.mail,
        mail_events=batch.mail.events
        if isinstance(batch.mail, Mail)
        else ("end", "fail")
        if batch.mail
        else (),
        gpu_request=site.gpus.request,
        gpu_name=site.gpus.gres,
        gpu_variable=site.gpus.visible,
        gpu_visibility=visibility,
        gpu_library=around.library if any(group.gpus for group in placement.groups) else None,
        container=box.runtime if box else None,
        image=box.image if box else None,
        binds=box.binds if box else (),
        modules=(*site.modules, *batch.modules),
        spack_env=batch.spack_env,
        environment=site.environment,
        launch_node=site.lsf.launch_node,
        from_stdin=site.scheduler == "lsf" and site.lsf.submit == "stdin",
        remote=site.sge.remote,
        head_suffix=site.head_node.suffix,
        head_resolve=site.head_node.resolve or topology.by_address,
        mpi=pmi_of(experiment, site, topology, placement) if launcher.gives_pmi else None,
        rank_variables=None if once else options.rank_variables or launcher.rank_variables,
        hostfile_line=SLOTS.get(launch.program if launch else "", launcher.hostfile_line),
        origins=dict(origins(experiment, site, placement, whole, where)),
    )


def _demanded(site: Site, around: Surroundings) -> Iterator[Word]:
    """Yield the directives that such a job's variables need."""
    for index, group in groups(site.fabric, around):
        for text in group.directives:
            yield Word(text=text, origin=f"site {site.name}: fabric.together.{index}: {group.why}")


def _ports(placement: Placement) -> int:
    """Return how many ports a job has on each node: one a task, and sixteen at least."""
    most = max(count for _, count in placement.tasks_per_node())
    return min(max(16, 1 << (most - 1).bit_length()), 8192)


def _account(experiment: Experiment, site: Site) -> str | None:
    account, rule = experiment.batch.account, site.account
    path = ("batch", "account")
    hint = rule.hint or "write `batch: {account: NAME}` or `--set batch.account=NAME`"
    if account is None and rule.required:
        always = f"`sites: {{{site.name}: {{account: NAME}}}}` in ~/.config/hpcdist/config.yml"
        message = f"site {site.name} takes no job without an account"
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


def _whole_nodes(site: Site, placement: Placement) -> str | None:
    """Return the key by which the site gives such a job nodes of its own, None where it does not.

    A job has one answer: where one partition gives whole nodes, it has them in all.
    """
    found = (whole_nodes_in(site, group.site_partition) for group in placement.groups)
    return next((key for whole, key in found if whole), None)


def _launch(
    plan: Plan, site: Site, launcher: Launcher, experiment: Experiment, where: Where
) -> Iterator[Word]:
    if plan.launcher != "once":
        yield from launcher.words(plan, site.options(launcher.name))
        if plan.launches == "tasks":
            yield TASK_WRAPPER
        yield from container_choice.words(plan, site)
        for word in framework_of(experiment).words(plan, experiment, site):
            yield msgspec.structs.replace(word, origin=located(word.origin, where))
    yield Word.raw('bash "$HPCDIST_JOB_DIR/command.sh"', where(("run", "cmd")))
