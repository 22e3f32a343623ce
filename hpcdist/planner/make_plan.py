"""Make the plan of an experiment on a site; every optional value is decided in it.

Pure: no clock, no environment, no process. ``where`` turns a path of the experiment into an origin such as
``exp.yml:14``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from hpcdist.base.errors import Path, PlanError, Problem, independent, warning
from hpcdist.base.errors import located as with_places
from hpcdist.base.text_checks import MODULE_RESETS
from hpcdist.base.words import join, quote
from hpcdist.experiment.batch import ArraySpec, IndexRange
from hpcdist.experiment.model import Experiment, Resources
from hpcdist.experiment.shell_words import START
from hpcdist.layers.variables import polyaxon_task_variables, polyaxon_variables
from hpcdist.plan.fabric_variables import of_fabric, text_of
from hpcdist.plan.model import JobEnvironment, JobSpec, Plan, PreparedJob, RoleLaunch, extended
from hpcdist.plan.placeholders import JOB_ID, template
from hpcdist.plan.placement import Placement, Row, of_role, with_own_nodes
from hpcdist.plan.trials import Pack, Sweep
from hpcdist.plan.values import DEFAULT, PROGRAM, TASK_WRAPPER, Origin, Variable, Where, Word
from hpcdist.planner import budget, container_choice, lint, restarts
from hpcdist.planner.advice import advice
from hpcdist.planner.budget import check_packed
from hpcdist.planner.job_spec import job_spec
from hpcdist.planner.launcher_choice import LaunchChoice, launch_request, launcher_of
from hpcdist.planner.partition_choice import select
from hpcdist.planner.pools import UNLIMITED, pools
from hpcdist.planner.request import has_arrays, most_elements, whole_nodes
from hpcdist.planner.steps import check_free_nodes, uses_local_disk
from hpcdist.planner.worst_case import amounts_of, check_limit, most
from hpcdist.schedulers import schedulers
from hpcdist.site.fabric import JobFacts, applying
from hpcdist.site.model import Site

# --- Variables of every task: each name once, with the value of the last source that sets it


def variables(
    experiment: Experiment, site: Site, job: JobSpec, shared: Iterable[Variable], where: Where
) -> Iterator[Variable]:
    """Yield each variable once, from the last source that sets it: site, Polyaxon, framework, experiment."""
    found: dict[str, Variable] = {}
    for variable in (
        Variable(name="PYTHONUNBUFFERED", value="1", origin=DEFAULT),
        *of_fabric(site, job.facts),
        *polyaxon_variables(experiment, job, site),
        *(msgspec.structs.replace(item, origin=located(item.origin, where)) for item in shared),
        *_of_stage(experiment, site),
        *_own_variables(experiment, where),
    ):
        earlier = found.pop(variable.name, None)
        origin = variable.origin.with_note(f"instead of {earlier.origin}") if earlier else variable.origin
        found[variable.name] = msgspec.structs.replace(variable, origin=origin)
    yield from found.values()


def _of_stage(experiment: Experiment, site: Site) -> Iterator[Variable]:
    """Yield the folder on a local disk of each node, where the job has one."""
    if uses_local_disk(experiment):
        folder = template(f"{site.node_local}/hpcdist-", JOB_ID)
        yield Variable.filled("HPCDIST_STAGE", folder, Origin("site", site.name, "node_local"))


def located(origin: Origin, where: Where) -> Origin:
    """Return an origin; for a key of the experiment (``horovod.autotune``), its file and line."""
    return where(tuple(origin.name.split("."))) if origin.kind == "key" else origin


def _own_variables(experiment: Experiment, where: Where) -> Iterator[Variable]:
    if experiment.build:
        for index, (name, value) in enumerate(experiment.build.env_vars):
            yield Variable(name=str(name), value=text_of(value), origin=where(("build", "env_vars", index)))
    for name, value in experiment.environment.env_vars.items():
        yield Variable(name=name, value=text_of(value), origin=where(("environment", "env_vars", name)))


# --- Packing: the trials of a search share nodes, where each is one task that leaves room on its node
#
# The job's tasks are then workers, each with what one trial needs of a node, and each runs one trial after
# another. Where the batch system has arrays, each element is one node with its workers, so that a failed
# node loses only its own trials; else one job has all workers.

_PACK: Path = ("batch", "pack")
_SHARED: Path = ("environment", "resources", "gpu", "trials_per_gpu")
_PORTS = 16
"""How many ports a trial has, as any job of few tasks."""


def packed(
    job: PreparedJob, experiment: Experiment, site: Site, choice: LaunchChoice, where: Where
) -> PreparedJob:
    """Return one trial's job with the packing of its search, or unchanged.

    Raises:
        PlanError: where packing is required, and not possible.
    """
    origin = _reason(job, experiment, site, where)
    if job.sweep is None or origin is None:
        return job
    arrays = has_arrays(site)
    if problem := _problem(job, experiment, choice):
        if not arrays:
            problem = problem._replace(
                hint=f"{_by(site)} has no arrays either: choose another site with --site"
            )
        if experiment.batch.pack or _sharing(experiment) > 1 or not arrays:
            raise PlanError(problem)
        return job
    per_node, most = _room(job, experiment, site)
    if experiment.batch.pack is None and origin.kind == "site" and per_node < 2:  # noqa: PLR2004 - no room
        return job
    pack = _pack(job.sweep, per_node, most, origin)
    array = ArraySpec((IndexRange(1, pack.nodes),)) if arrays else None
    group = _placement(job.placement, _need(job, experiment), 1, pack.per_node).groups[0]
    node = amounts_of([group], site, exclusive=job.request.exclusive)
    check_packed(experiment, node.gpus * pack.nodes, job.request.walltime)
    gpus_of_job = node.gpus * (1 if arrays else pack.nodes)
    gpus = replace(job.gpus, visibility="launcher" if job.gpus.visibility == "launcher" else "task")
    return replace(
        job,
        sweep=replace(job.sweep, pack=pack, jobs=1, cost=_cost(job, gpus_of_job)),
        request=replace(job.request, array=array),
        gpus=gpus,
        completion=restarts.of_packed(job.completion, experiment, origin),
        launch=replace(job.launch, mpi="none" if choice.launcher.provides_pmi else None),
    )


def with_workers(job: PreparedJob, experiment: Experiment) -> PreparedJob:
    """Return a job of one trial with the workers as its tasks, where its search is packed."""
    pack = job.sweep and job.sweep.pack
    if not pack:
        return job
    nodes = 1 if job.request.array else pack.nodes
    placement = _placement(job.placement, _need(job, experiment), nodes, pack.per_node)
    return replace(
        job,
        placement=placement,
        rendezvous=replace(job.rendezvous, ports=min(_PORTS * pack.per_node, 8192)),
        launch=replace(job.launch, labelled=False),
    )


def about_packing(job: PreparedJob, experiment: Experiment, site: Site) -> Iterator[Problem]:
    """Yield a warning where trials share a time limit, and the file does not ask for packing."""
    pack, limit = job.sweep and job.sweep.pack, job.request.walltime
    if job.sweep and pack and limit and experiment.batch.pack is None and pack.rounds(job.sweep.trials) > 1:
        message = (
            f"the trials are packed ({pack.origin}): about {pack.rounds(job.sweep.trials)} run one after "
            f"another within the walltime, {limit}"
        )
        hint = "write `batch: {pack: true}` if that is meant, or "
        hint += "`pack: false` for a job each" if has_arrays(site) else "a `walltime` for all of them"
        yield warning(message, ("hptuning",), hint)


def _sharing(experiment: Experiment) -> int:
    resources = experiment.environment.resources or Resources()
    return resources.gpu.trials_per_gpu or 1


def _by(site: Site) -> str:
    """Return the name of what has no arrays: the batch system, or the site."""
    return f"site {site.name}" if schedulers.get(site.scheduler).has_arrays else site.scheduler


def _reason(job: PreparedJob, experiment: Experiment, site: Site, where: Where) -> Origin | None:
    """Return why the trials are to be packed, None where they are not."""
    if experiment.batch.pack is not None:
        return where(_PACK) if experiment.batch.pack else None
    if _sharing(experiment) > 1:
        return where(_SHARED)
    if not has_arrays(site):
        return Origin("rule", f"{_by(site)} has no arrays")
    key = whole_nodes(site, job.placement) if experiment.batch.exclusive is None else None
    return Origin("site", site.name, key) if key else None


def _problem(job: PreparedJob, experiment: Experiment, choice: LaunchChoice) -> Problem | None:
    """Return why a worker cannot run these trials."""
    path: Path = _PACK if experiment.batch.pack else ("hptuning",)
    each = "write `pack: false`, and each trial is a job of its own"
    if choice.mode == "once":
        by = choice.launch.program if choice.launch else choice.launcher.name
        message = f"the trials cannot be packed: {by} starts the tasks of each, and it would take all nodes"
        return Problem(message, path, each)
    if job.placement.size > 1:
        message = f"the trials cannot be packed: each is {job.placement.size} tasks, and a worker is one"
        hint = each if experiment.framework != "pytorch" else f"{each}; `torchrun` makes one task of a node"
        return Problem(message, path, hint)
    if _sharing(experiment) > 1 and (job.placement.rows[0].gpus != 1 or job.gpus.visibility == "launcher"):
        gpus = job.placement.rows[0].gpus
        message = (
            f"trials share one GPU each, and these have {gpus}"
            if gpus != 1
            else f"trials cannot share GPUs: {choice.launcher.name} gives each task its own on this site"
        )
        return Problem(message, _SHARED, "remove it")
    return None


def _room(job: PreparedJob, experiment: Experiment, site: Site) -> tuple[int, int]:
    """Return how many trials fit on a node, and how many nodes they may have.

    Raises:
        PlanError: where a node lacks CPUs or memory for the trials that share a GPU.
    """
    group, need, shares = job.placement.groups[0], _need(job, experiment), _sharing(experiment)
    kind = (group.site_partition, group.node_type)
    pool = next((pool for pool in pools(site) if (pool.partition, pool.node_type) == kind), pools(site)[0])
    sizes = [
        size * times // wanted
        for size, times, wanted in (
            (pool.cpus, 1, need.cpus), (pool.gpus, shares, need.gpus), (pool.max_gpus, shares, need.gpus),
            (pool.memory, 1, need.memory)
        )
        if size is not None and wanted
    ]  # fmt: skip
    fit = min(sizes, default=UNLIMITED if pool.nodes == 1 else shares) // shares * shares
    if not fit:
        message = f"a node has CPUs and memory for {min(sizes)} of {shares} trials that would share its GPU"
        raise PlanError(Problem(message, _SHARED, "ask for fewer, or write less"))
    if has_arrays(site):
        return fit, most_elements(site) or UNLIMITED
    gpus = need.gpus * fit // shares
    return fit, pool.nodes if pool.max_gpus is None or not gpus else min(pool.nodes, pool.max_gpus // gpus)


def _need(job: PreparedJob, experiment: Experiment) -> Row:
    """Return the one task of a trial; if trials share a GPU, with a part of its CPUs and memory."""
    row, asked = job.placement.rows[0], experiment.environment.resources or Resources()
    shares = _sharing(experiment)
    cpus = row.cpus if asked.cpu.value else max(1, row.cpus // shares)
    memory = row.memory if asked.memory.value or row.memory is None else row.memory // shares
    return replace(row, cpus=cpus, memory=memory, tasks_per_gpu=shares)


def _pack(sweep: Sweep, fit: int, most: int, origin: Origin) -> Pack:
    """Return how many workers there are: as many as may run at once, on as few nodes as hold them.

    One worker, where neither the search nor the node limits them.
    """
    workers = min(sweep.at_once or (sweep.trials if fit < UNLIMITED else 1), sweep.trials)
    nodes = min(-(-workers // fit), most)
    workers = min(workers, nodes * fit)
    return Pack(workers=workers, nodes=nodes, per_node=min(fit, workers), origin=origin)


def _cost(job: PreparedJob, gpus: int) -> int | None:
    """Return the GPU-seconds that a job with so many GPUs takes at most; None without a budget."""
    limit = job.request.walltime
    return gpus * limit.seconds if job.sweep and job.sweep.budget and limit else None


def _placement(trial: Placement, row: Row, nodes: int, per_node: int) -> Placement:
    """Return ``per_node`` workers on each node, each with the resources of this task."""
    workers = replace(row, tasks=nodes * per_node, tasks_per_node=per_node)
    group = replace(
        trial.groups[0],
        nodes=nodes,
        tasks=workers.tasks,
        tasks_per_node=per_node,
        cpus_per_task=row.cpus,
        cpus=row.cpus * per_node,
        gpus=row.gpus * -(-per_node // row.tasks_per_gpu),
        memory=None if trial.groups[0].memory is None else (row.memory or 0) * per_node,
    )
    return Placement(groups=(group,), rows=(workers,))


# --- Setup: the lines that make the job's shell ready before anything starts, and the variables of its tasks
#
# A line that fails ends the script with a sentence that names its origin.


def prepared(
    spec: JobSpec, experiment: Experiment, site: Site, choice: LaunchChoice, where: Where
) -> PreparedJob:
    """Return the job with its setup lines and its variables."""
    shared = tuple(choice.framework.variables(spec, experiment, site))
    own = tuple(choice.framework.task_variables(spec, experiment, site))
    every = tuple(variables(experiment, site, spec, shared, where))
    environment = JobEnvironment(
        modules=(*(name for name, _ in applying(site.modules, spec.facts)), *experiment.batch.modules),
        spack_env=experiment.batch.spack_env,
        setup=(*setup(experiment, site, spec.facts, where), *container_choice.setup(spec, site, every)),
        task_setup=tuple(container_choice.lines(site, "task_setup", site.task_setup, spec.facts)),
        variables=every,
        task_variables=(*polyaxon_task_variables(), *own),
        framework_variables=tuple(dict.fromkeys(variable.name for variable in (*shared, *own))),
    )
    by_container = container_choice.launcher_words(spec, site, environment)
    return extended(
        PreparedJob, spec, environment=environment, arguments=(*spec.launch.arguments, *by_container)
    )


_SPACK: Final = (
    "[[ $(type -t spack) == function ]] || source "
    '"${SPACK_ROOT:-$(spack location --spack-root)}/share/spack/setup-env.sh" ||\n'
    '  fail "there is no Spack on $(uname -n); load its module, or set SPACK_ROOT"'
)
"""A program cannot change the shell that calls it: Spack activates environments by a function."""


def setup(experiment: Experiment, site: Site, facts: JobFacts, where: Where) -> Iterator[Word]:
    """Yield the site's files, modules and own lines, then the experiment's modules and Spack environment.

    A Spack environment comes last, so that its programs are found before the modules'.
    """
    yield from _of_the_site(site, facts)
    for index, module in enumerate(experiment.batch.modules):
        yield _loaded(module, where(("batch", "modules", index)))
    if place := experiment.batch.spack_env:
        origin = where(("batch", "spack_env"))
        words = ("--dir", place) if place.startswith(("/", ".")) else (place,)
        yield Word.raw(_SPACK, origin)
        yield _or_fail(f"spack env activate {join(words)}", origin)


def _of_the_site(site: Site, facts: JobFacts) -> Iterator[Word]:
    # The files come first: /etc/profile.d/modules.sh is what makes `module` known (ABCI, Azure).
    for file in site.source:
        line = f'if [[ -r {file} ]]; then source {file}; else fail "there is no {file} on $(uname -n)"; fi'
        yield Word.raw(line, Origin("site", site.name, "source"))
    for module, notes in applying(site.modules, facts):
        yield _loaded(module, Origin("site", site.name, "modules", notes=notes))
    yield from container_choice.lines(site, "setup", site.setup, facts)


def _loaded(module: str, origin: Origin) -> Word:
    if module in MODULE_RESETS or module.startswith("-"):
        what = module if module in MODULE_RESETS else f"unload {quote(module[1:])}"
        return _or_fail(f"module {what}", origin)
    return _or_fail(f"module load {quote(module)}", origin)


def _or_fail(line: str, origin: Origin) -> Word:
    return Word.raw(container_choice.or_fail(line, origin), origin)


# --- Make the plan of an experiment on a site; every optional value is decided in it

_LAUNCHES_ROLES: Final = frozenset({"srun", "mpirun", "hydra"})
_NO_ARRAYS: Final = "write `pack: true`, or choose another site"


def make_plan(experiment: Experiment, site: Site, where: Where) -> Plan:
    """Return the plan.

    Raises:
        PlanError: when the site cannot take the experiment; all reasons at once where they are independent.
    """
    asked = launch_request(experiment)
    walltime = experiment.batch.walltime or site.walltime
    alike = not any(partition.container for partition in site.partitions.values())
    launcher, placement, container, _ = independent(
        lambda: launcher_of(experiment, site, asked),
        lambda: select(experiment, site, walltime, where, asked),
        lambda: container_choice.container_of(experiment, site, asked.launch) if alike else None,
        lambda: budget.account_of(experiment, site),
    )
    if not alike:
        site, key = container_choice.in_its_partition(site, placement)
        container = container_choice.container_of(experiment, site, asked.launch, key)
    choice = LaunchChoice(*asked, launcher)
    spec = job_spec(experiment, site, choice, (placement, container), where)
    trial = packed(prepared(spec, experiment, site, choice, where), experiment, site, choice, where)
    job = with_workers(trial, experiment)
    words = tuple(_launch_line((job, trial), experiment, site, choice, where))
    check_free_nodes(job, words, experiment)
    whole = msgspec.structs.replace(job, placement=with_own_nodes(job.placement, job.own_nodes))
    reserved = amounts_of(whole.placement.groups, site, exclusive=job.request.exclusive).gpus
    job = msgspec.structs.replace(job, gpus=msgspec.structs.replace(job.gpus, reserved=reserved))
    notes = (
        *advice(experiment, site, trial, choice),
        *budget.advice(experiment, site, job.facts),
        *about_packing(trial, experiment, site),
        *restarts.advice(trial, experiment, site),
        *choice.framework.advice(trial, experiment, site),
    )
    with with_places(_of_search if job.sweep else lambda problem: problem):
        directives = schedulers.get(site.scheduler).directives(whole, site)
    notes += _notes(lint.of_job(job, words, directives, site), experiment)
    cost = most(job, experiment, site)
    budget.check_whole(experiment, cost)
    if schedulers.get(site.scheduler).is_batch_system:
        check_limit(experiment.batch.max_gpu_hours, cost)
    launches = tuple(_role_launches(job, site, choice))
    return extended(Plan, job, words=words, role_launches=launches, directives=directives, notes=notes)


def _role_launches(job: PreparedJob, site: Site, choice: LaunchChoice) -> Iterator[RoleLaunch]:
    """Yield a launch for each role of a job with servers, where each has nodes of one kind."""
    if not job.has_servers or job.sweep or choice.launcher.name not in _LAUNCHES_ROLES:
        return
    parts = {row.role: of_role(job.placement, row.role) for row in job.placement.rows}
    if any(sum(group.tasks > 0 for group in placement.groups) > 1 for placement in parts.values()):
        return
    for role, placement in parts.items():
        launch = msgspec.structs.replace(job.launch, role=role)
        own = msgspec.structs.replace(job, placement=placement, launch=launch)
        words = choice.launcher.words(own, site.options(choice.launcher.name))
        yield RoleLaunch(role=role, words=tuple(words))


def _launch_line(
    jobs: tuple[PreparedJob, PreparedJob],
    experiment: Experiment,
    site: Site,
    choice: LaunchChoice,
    where: Where,
) -> Iterator[Word]:
    """Yield the words that start the tasks of the first job, then the words that each task runs (the second).

    The second job is a trial where the tasks are the workers of a packed search.
    """
    job, trial = jobs
    if not choice.by_user:
        yield from choice.launcher.words(job, site.options(choice.launcher.name))
        if job.launch.mode == "tasks":
            yield TASK_WRAPPER
        if experiment.run.starts_entrypoint:
            # Bash on the node expands its arguments; that bash's own are the words that start it.
            yield Word.raw(PROGRAM, where(("run", "entrypoint")))
        yield from container_choice.words(trial, site)
        if choice.topology.task == "node" and START in job.identity.command:
            # What starts the processes comes behind the command's first lines: the arguments of its shell.
            yield Word.raw(PROGRAM, where(("run", "cmd")))
        for word in _framework_words(trial, experiment, site, choice):
            yield msgspec.structs.replace(word, origin=located(word.origin, where))
    if not experiment.run.starts_entrypoint:
        yield Word.raw(PROGRAM, where(("run", "cmd")))


def _framework_words(
    job: PreparedJob, experiment: Experiment, site: Site, choice: LaunchChoice
) -> tuple[Word, ...]:
    """Return the framework's words before the command.

    Raises:
        PlanError: where they start a program that only the image names.
    """
    words = tuple(choice.framework.words(job, experiment, site))
    if words and experiment.run.starts_entrypoint:
        message = f"`{choice.topology.required_by}` starts a program, and the image's entrypoint is not known"
        hint = f"write the program as `run.cmd`, or remove `{choice.topology.required_by}`"
        raise PlanError(Problem(message, ("run", "entrypoint"), hint))
    return words


def _of_search(problem: Problem) -> Problem:
    """Return the problem of an array as a problem of its search."""
    if problem.path != ("batch", "array"):
        return problem
    message = f"the trials of a search are a job array, and {problem.message}"
    return problem._replace(message=message, path=("hptuning",), hint=_NO_ARRAYS)


def _notes(found: Sequence[lint.LintFinding], experiment: Experiment) -> tuple[Problem, ...]:
    """Return the lint findings on the plan's variables.

    Raises:
        PlanError: where a finding is an error.
    """
    problems = tuple(_located(item, experiment) for item in found)
    if never := [problem for problem in problems if problem.severity == "error"]:
        raise PlanError(*never)
    return problems


def _located(found: lint.LintFinding, experiment: Experiment) -> Problem:
    if found.name in experiment.environment.env_vars:
        path = ("environment", "env_vars", found.name)
        return Problem(found.text, path, found.hint, found.severity)
    if found.origin == Origin("key", "run.cmd"):
        return Problem(found.text, ("run", "cmd"), found.hint, found.severity, word=found.name)
    return Problem(f"{found.origin}: {found.text}", (), found.hint, found.severity)
