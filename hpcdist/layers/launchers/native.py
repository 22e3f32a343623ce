"""Launchers of batch systems: srun of Slurm, flux run, and jsrun of LSF machines with CSM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import PlanError, Problem, warning
from hpcdist.layers.launchers import PlainLauncher, cpus_of_tasks, options_of, origin_of_cpus, with_reports
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group, Placement, Row
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables
from hpcdist.site.nodes import cpu_mask

_REPLICAS: Final = ("environment", "replicas")


def _bound_by_site(job: JobSpec, text: str) -> Word:
    """Return the option by which the launcher assigns GPUs, as the site file has it."""
    return Word(text=text, origin=Origin("site", job.identity.site, "gpus.bound_by"))


# --- srun: Slurm starts the tasks itself
#
# Set explicitly, because they are not Slurm's defaults: ``--cpus-per-task`` (srun since 22.05 does not take
# it from the job), ``--kill-on-bad-exit=1`` (by default the other ranks run on until the time limit
# if one fails), ``--wait=0`` (a site's ``WaitTime`` would kill the others that long after the first has
# completed, even during a last checkpoint), and the number of tasks on each node (``-N2 -n4`` alone gives
# 3 + 1).


class Srun(PlainLauncher):
    """Slurm's own launcher."""

    name = "srun"
    program = "srun"
    version_words = ("--version",)
    rank_variables = RankVariables(rank="SLURM_PROCID", size="SLURM_NTASKS", local_rank="SLURM_LOCALID")
    schedulers = frozenset({"slurm"})
    site_options = options_of("mpi binding args rank_variables")
    reserved_options = options_of(
        "-N --nodes -n --ntasks --ntasks-per-node -c --cpus-per-task -w --nodelist -m --distribution "
        "-K --kill-on-bad-exit -l --label --het-group"
    )
    bare_options = "EHOQVXZklsuv"
    lists_cpus = True
    can_go_on = True
    unequal_nodes = True
    provides_mpi = True
    provides_pmi = True
    # Each component has a thread in srun. In Slurm 22.05 two threads may stop PMIx's single abort agent at
    # once: then one hangs in `pmixp_abort_agent_stop`, at the end of a few percent of jobs.
    pmi_over_components = "none"
    labels_output = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``srun`` and its options; a heterogeneous job has them for each component.

        Raises:
            PlanError: where srun assigns GPUs, and tasks share them or have different numbers of them.
        """
        if job.launch.role:
            return (*self.own("srun"), *self._of_role(job, options))
        return with_reports((*self.own("srun"), *self._of_job(job, options)))

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Problem]:  # noqa: ARG002
        """Yield a warning for MPI over the components of a heterogeneous job."""
        if job.launch.components and job.launch.connects_by_mpi:
            yield warning(
                "MPI over several components of a Slurm job works only where node names ascend in the order "
                "of the components, and srun of Slurm 22.05 may wait for ever at its end; give all replicas "
                "what nodes of one kind have"
            )

    def _of_job(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        groups = job.placement.groups
        for index, group in enumerate(groups):
            yield from self.own(*[":"] * (index > 0), *[f"--het-group={index}"] * (len(groups) > 1))
            yield from self._shape(group, job)
            yield from self._order(job, group)
            if not index:
                yield from self._ends(job)
                yield from self.own(*["--label"] * job.labels_output)
            yield from _gpus_of_srun(job, group)
            yield from self._mpi(job, options)
            yield from self._cpus(job, group, options)
            yield from job.arguments

    def _of_role(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield the options of a step that shares the job's nodes with the steps of other roles."""
        [(index, group)] = [(index, group) for index, group in enumerate(job.placement.groups) if group.tasks]
        het = [f"--het-group={index}"] * (len(job.placement.groups) > 1)
        yield from self.own("--overlap", *het, *_counts(group))
        yield Word.raw(_hosts(job, group), self.origin)
        yield from self._ends(job)
        yield from self._mpi(job, options)
        yield from job.arguments

    def _mpi(self, job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
        if not job.launch.mpi:
            return
        origin = Origin("rule", "no PMI over several components, but for MPI")
        if job.launch.mpi == options.mpi:
            origin = Origin("site", job.identity.site, "launchers.srun.mpi")
        elif job.container and job.launch.mpi != self.pmi_over_components:
            origin = Origin("site", job.identity.site, f"{job.container.key}.mpi")
        yield Word(text=f"--mpi={job.launch.mpi}", origin=origin)

    def _cpus(self, job: JobSpec, group: Group, options: LauncherOptions) -> Iterator[Word]:
        if masks := [cpu_mask(cpus) for cpus in cpus_of_tasks(job, group)]:
            yield Word(text=f"--cpu-bind=mask_cpu:{','.join(masks)}", origin=origin_of_cpus(job, group))
        elif group.even:
            yield from self.binding(job, options.binding)

    def _shape(self, group: Group, job: PreparedJob) -> Iterator[Word]:
        yield from self.own(*_counts(group))
        if job.own_nodes and group.even:  # else srun takes any of the job's nodes
            yield Word.raw('--nodelist="$HPCDIST_TASK_NODES"', self.origin)
        if not group.even:
            # A file with one host a task, in rank order (srun(1), --nodelist with --distribution=arbitrary).
            yield Word.raw(_hosts(job, group), self.origin)

    def _order(self, job: PreparedJob, group: Group) -> Iterator[Word]:
        """Yield the option for the order of nodes by name: since Slurm 26.05 tasks follow the topology."""
        by_user = any(word.text.startswith("--distribution") for word in job.arguments)
        if group.even and group.nodes > 1 and group.tasks_per_node > 1 and not by_user:
            yield from self.own(f"--distribution=plane={group.tasks_per_node}")

    def _ends(self, job: JobSpec) -> Iterator[Word]:
        kills = str(int(job.completion.kill_on_failure))
        if job.completion.kill_on_failure and job.completion.restarts:
            kills = "${HPCDIST_KILL:-1}"  # the supervisor ends all but those that save at the limit
        yield Word(text=f"--kill-on-bad-exit={kills}", origin=self.origin, shell="$" in kills)
        yield from self.own("--wait=0")


def _counts(group: Group) -> tuple[str, ...]:
    """Return the options for the numbers of nodes, tasks and CPUs."""
    if not group.even:  # with --nodes Slurm 24.05 and later refuse it
        return f"--ntasks={group.tasks}", "--distribution=arbitrary", "--cpu-bind=none"
    per_node = f"--ntasks-per-node={group.tasks_per_node}", f"--cpus-per-task={group.cpus_per_task}"
    return f"--nodes={group.nodes}", f"--ntasks={group.tasks}", *per_node


def _hosts(job: PreparedJob, group: Group) -> str:
    """Return the option for the host of each rank, which srun reads from a file (tried on 22.05 to 26.05)."""
    own = Placement(groups=(group,), rows=tuple(filter(group.has, job.placement.rows)))
    calls = (f"hosts {node} {nodes} {tasks}" for node, nodes, tasks in own.crowds())
    return f"--nodelist=<({' && '.join(calls)})"


def _gpus_of_srun(job: JobSpec, group: Group) -> Iterator[Word]:
    if job.gpus.visibility != "launcher" or not group.gpus:
        return
    if group.gpus_per_task is None or any(row.tasks_per_gpu > 1 for row in job.placement.rows):
        site = job.identity.site
        message = f"site {site} assigns GPUs by srun --gpus-per-task, which gives all tasks the same number"
        hint = (
            "ask for as many replicas as fill all nodes alike"
            if job.launch.starts_processes
            else "give all replicas the same GPUs, at least one a process"
        )
        raise PlanError(Problem(message, _REPLICAS, hint))
    yield _bound_by_site(job, f"--gpus-per-task={group.gpus_per_task}")


# --- flux run: Flux starts the tasks itself, in the instance that it has made for the job
#
# Set explicitly, because they are not Flux's defaults: ``exit-on-error`` (by default the other ranks run
# on for half a minute if one fails), ``exit-timeout=none`` (by default the others are ended half a minute
# after a rank has completed) and ``cpu-affinity=per-task`` (by default a task may run on the cores of all).
# ``--signal`` is set here, not for flux batch, whose signal ends the brokers of all nodes but the first.
#
# Equal tasks are distributed by ``--nodes`` and ``--ntasks`` as evenly as possible, and the first nodes get
# one more (``rcalc_distribute``; five tasks on three nodes gave 2 + 2 + 1). Unequal tasks are started on
# whole nodes, whose CPUs and GPUs each task's shell assigns. Where nodes hold different numbers of tasks, a
# taskmap sets these numbers; Flux before 0.75 ends with ``invalid taskmap`` there.
#
# Sources: flux-run(1), flux-shell-options(7), src/shell/rcalc.c and src/shell/info.c of flux-core 0.88;
# RFC 34.

_AFFINITY: Final = "--setopt=cpu-affinity=per-task"


class FluxRun(PlainLauncher):
    """Flux's own launcher."""

    name = "flux"
    program = "flux"
    version_words = ("version",)
    rank_variables = RankVariables(
        rank="FLUX_TASK_RANK", size="FLUX_JOB_SIZE", local_rank="FLUX_TASK_LOCAL_ID"
    )
    schedulers = frozenset({"flux"})
    site_options = options_of("mpi binding args rank_variables")
    reserved_options = options_of(
        "-n --ntasks -N --nodes --tasks-per-node -c --cores-per-task --gpus-per-task -g --exclusive -x "
        "--taskmap --label-io"
    )
    unequal_nodes = True
    bare_options = "luvx"
    can_go_on = True
    provides_mpi = True
    provides_pmi = False  # it always provides one; no task can check whether the program's MPI uses it
    labels_output = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield ``flux run`` and its options.

        Raises:
            PlanError: where Flux assigns GPUs, and tasks share them or have different numbers of them.
        """
        by_task = _can_request_by_task(job)
        label = ["--label-io"] * job.labels_output
        ends = ["--setopt=exit-on-error"] * job.completion.kill_on_failure
        shape = _by_task(job) if by_task else _whole_nodes(job)
        yield from self.own("flux", "run", *shape, *label, *ends, "--setopt=exit-timeout=none")
        if job.request.signal is not None:
            origin = job.origins.get("signal", self.origin)
            yield Word(text=f"--signal={job.request.signal.of_tasks}", origin=origin)
        yield from self._affinity(job)
        if options.mpi:
            origin = Origin("site", job.identity.site, "launchers.flux.mpi")
            yield Word(text=f"--setopt=mpi={options.mpi}", origin=origin)
        if by_task or job.placement.is_even:
            yield from self.binding(job, options.binding, (_AFFINITY,))
        yield from job.arguments

    def _affinity(self, job: JobSpec) -> Iterator[Word]:
        """Yield the option that sets who assigns the GPUs of a task: Flux, or each task's shell."""
        if not any(group.gpus for group in job.placement.groups):
            return
        if job.gpus.visibility == "launcher":
            if not _can_request_by_task(job):
                site = job.identity.site
                message = f"site {site} assigns GPUs by flux run, which gives all tasks the same number"
                hint = "give all replicas the same resources, with at least one GPU a process"
                raise PlanError(Problem(message, _REPLICAS, hint))
            yield _bound_by_site(job, "--setopt=gpu-affinity=per-task")
        elif not _requests_gpus(job) or job.gpus.variable != "CUDA_VISIBLE_DEVICES":
            # Flux sets only this variable, and sets it to no GPUs if none were requested.
            yield from self.own("--setopt=gpu-affinity=off")


def _can_request_by_task(job: JobSpec) -> bool:
    """Whether CPUs and GPUs can be requested per task: all tasks have the same, and none shares a GPU."""
    rows, counts = job.placement.rows, [tasks for _, tasks in job.placement.tasks_per_node()]
    alike = len(job.placement.groups) == 1 and len({(row.cpus, row.gpus) for row in rows}) == 1
    spread = counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1
    return alike and spread and all(row.tasks_per_gpu == 1 for row in rows)


def _by_task(job: JobSpec) -> Iterator[str]:
    row = job.placement.rows[0]
    yield from (f"--nodes={job.placement.nodes}", f"--ntasks={job.placement.size}")
    yield f"--cores-per-task={row.cpus}"
    if row.gpus and _requests_gpus(job):
        yield f"--gpus-per-task={row.gpus}"


def _whole_nodes(job: JobSpec) -> Iterator[str]:
    runs = list(job.placement.tasks_per_node())
    yield f"--nodes={job.placement.nodes}"
    if len(runs) > 1:
        # Without GPU options: --gpus-per-node excludes --ntasks, and whole nodes come with their GPUs.
        yield from (f"--ntasks={job.placement.size}", "--exclusive", f"--taskmap=manual:{_taskmap(runs)}")
        return
    yield from (f"--tasks-per-node={runs[0][1]}", "--exclusive")
    if (gpus := max(group.gpus for group in job.placement.groups)) and _requests_gpus(job):
        yield f"--gpus-per-node={gpus}"


def _taskmap(runs: Sequence[tuple[int, int]]) -> str:
    """Return blocks of first node, nodes, tasks on each, and how often (RFC 34)."""
    blocks, first = [], 0
    for nodes, tasks in runs:
        blocks.append(f"[{first},{nodes},{tasks},1]")
        first += nodes
    return f"[{','.join(blocks)}]"


def _requests_gpus(job: JobSpec) -> bool:
    return job.request.gpu_request != "none" or job.gpus.visibility == "launcher"


# --- jsrun of IBM's Job Step Manager, on LSF machines with CSM (Summit, Lassen)
#
# Tasks run in resource sets, each on one host. Where jsrun assigns the GPUs, a set is a task with its GPUs,
# or the tasks that share one: CUDA_VISIBLE_DEVICES then counts from 0 in every set. Otherwise a set is a
# host, and its tasks see all its GPUs. The whole environment is propagated, so that no variable is named
# (``-E``).
#
# Tasks that do not form equal sets are listed in an explicit resource file, with their hardware threads. It
# has the nine settings of IBM's page, as the files of real programs have (codar's savanna). RADICAL-Pilot
# left out one core in such files on Summit, the first of the second socket, which jsrun refused there: ``ERF
# error: 1+ cpus are not available``. Sources: https://docs.olcf.ornl.gov/systems/summit_user_guide.html,
# https://www.ibm.com/support/knowledgecenter/SSWRJV_10.1.0/jsm/jsrun.html and .../jsm/erf_format.html.


class Sets(NamedTuple):
    """Equal resource sets: their number, the tasks, cores and GPUs of each, and how many fit on a host."""

    number: int
    tasks: int
    cores: int
    gpus: int
    per_host: int


class Jsrun(PlainLauncher):
    """The launcher of CSM machines."""

    name = "jsrun"
    program = "jsrun"
    version_words = ("--version",)
    rank_variables = RankVariables(
        rank="JSM_NAMESPACE_RANK", size="JSM_NAMESPACE_SIZE", local_rank="JSM_NAMESPACE_LOCAL_RANK"
    )
    schedulers = frozenset({"lsf"})
    site_options = options_of("binding args rank_variables threads_per_core")
    reserved_options = options_of(
        "-n --nrs -a --tasks_per_rs -c --cpu_per_rs -g --gpu_per_rs -r --rs_per_host -d "
        "--launch_distribution -p --np -U --erf_input -X --exit_on_error"
    )
    mpi_flavours = ("spectrum",)
    unequal_nodes = True
    can_go_on = True
    provides_mpi = True
    orders_nodes = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield ``jsrun`` and its resource sets, or the file of unequal tasks.

        Raises:
            PlanError: for nodes of different types: the sets of one jsrun are equal.
        """
        if len(job.placement.groups) > 1:
            hint = "give all replicas the same resources, or `ps_on: worker_nodes`"
            raise PlanError(Problem("jsrun has no nodes of different types", _REPLICAS, hint))
        yield from self.own("jsrun")
        sets = equal_sets(job)
        yield from self._of_sets(job, options, sets) if sets else _of_file(job, options)
        # By default the other ranks may run on until the time limit if one fails.
        yield from self.own(f"--exit_on_error={int(job.completion.kill_on_failure)}")
        yield from job.arguments

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Problem]:
        """Yield a warning for a plan whose tasks do not form equal sets."""
        if equal_sets(job) is None:
            threads = options.threads_per_core
            yield warning(
                "the tasks are not alike on all nodes, so that jsrun reads their cores from an explicit "
                f"resource file (--erf_input): it counts {threads} hardware thread{'s' * (threads > 1)} a "
                "core (the site's `threads_per_core`), binds each task to its cores, whatever the site's "
                "`binding`, and was never tried on a real jsrun; Summit's refused files that named the first "
                "core of the second socket; the same resources for all replicas, as many on each node, need "
                "no file"
            )

    def _of_sets(self, job: JobSpec, options: LauncherOptions, sets: Sets) -> Iterator[Word]:
        yield from self.own(
            f"--nrs={sets.number}",
            f"--tasks_per_rs={sets.tasks}",
            f"--cpu_per_rs={sets.cores}",
            f"--gpu_per_rs={sets.gpus}",
            f"--rs_per_host={sets.per_host}",
            "--launch_distribution=packed",
            *["--latency_priority=gpu-cpu"] * (sets.gpus > 0),
        )
        yield from self.binding(job, options.binding, (f"--bind=packed:{sets.cores // sets.tasks}",))


def equal_sets(job: JobSpec) -> Sets | None:
    """Return the resource sets, None where the tasks do not form equal ones."""
    rows = job.placement.rows
    if len({(row.cpus, row.gpus, row.tasks_per_gpu) for row in rows}) > 1:
        return None
    runs = list(job.placement.tasks_per_node())
    on_each = [tasks for _, tasks in runs]
    # jsrun fills one host after the other, so that only the last may have fewer.
    if runs[1:] and (len(runs) > 2 or runs[1][0] > 1 or on_each[1] > on_each[0]):  # noqa: PLR2004 - all, the last
        return None
    first = rows[0]
    if first.gpus and job.gpus.visibility != "launcher":
        return _set_of_host(job, on_each, first)
    return _set_of_task(job, on_each, first)


def _set_of_task(job: JobSpec, on_each: list[int], row: Row) -> Sets | None:
    """Return a set for each task, or for the tasks that share a GPU."""
    share = row.tasks_per_gpu
    if any(tasks % share for tasks in on_each):
        return None
    return Sets(job.placement.size // share, share, share * row.cpus, row.gpus, on_each[0] // share)


def _set_of_host(job: JobSpec, on_each: list[int], row: Row) -> Sets | None:
    """Return a set for each host."""
    if len(on_each) > 1:
        return None
    group = job.placement.groups[0]
    return Sets(group.nodes, on_each[0], on_each[0] * row.cpus, group.gpus, 1)


def _of_file(job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
    rows = job.placement.rows
    seen_by_all = job.gpus.visibility != "launcher" and any(row.gpus for row in rows)
    shared = seen_by_all or any(row.tasks_per_gpu > 1 for row in rows)
    words = f"{options.threads_per_core} {'allow' if shared else 'error'}"
    yield Word.raw(f'--erf_input="$(resources {words})"', Origin("rule", "jsrun: unequal tasks"))


SRUN: Final = Srun()
FLUX_RUN: Final = FluxRun()
JSRUN: Final = Jsrun()
