"""srun: Slurm starts the tasks itself.

Set explicitly, because they are not Slurm's defaults: ``--cpus-per-task`` (srun since 22.05 does not take it
from the job), ``--kill-on-bad-exit=1`` (by default the other ranks of a failed one run on until the time
limit), ``--wait=0`` (by a site's ``WaitTime`` the others would be killed so long after the first has ended
well, as in the midst of a last checkpoint), and the number of tasks on each node (``-N2 -n4`` alone gives
3 + 1).
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import PlanError, Problem, warning
from hpcdist.layers.launchers.plain import Plain, cpus_of_tasks, origin_of, with_reports
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group, Placement
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables
from hpcdist.site.nodes import cpu_mask

_ORIGIN = Origin("launcher", "srun")


class Srun(Plain):
    """Slurm's own launcher."""

    name = "srun"
    program = "srun"
    version_words: tuple[str, ...] = ("--version",)
    rank_variables: RankVariables | None = RankVariables(
        rank="SLURM_PROCID", size="SLURM_NTASKS", local_rank="SLURM_LOCALID"
    )
    schedulers = frozenset({"slurm"})
    site_options = frozenset({"mpi", "binding", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
        {
            "-N",
            "--nodes",
            "-n",
            "--ntasks",
            "--ntasks-per-node",
            "-c",
            "--cpus-per-task",
            "-w",
            "--nodelist",
            "-m",
            "--distribution",
            "-K",
            "--kill-on-bad-exit",
            "-l",
            "--label",
            "--het-group",
        }
    )
    bare_options = "EHOQVXZklsuv"
    lists_cpus = True
    can_go_on = True
    unequal_nodes = True
    provides_mpi = True
    provides_pmi = True
    # Each component has a thread in srun, and in Slurm 22.05 two of them may stop PMIx's one abort agent at
    # once: one waits for ever in `pmixp_abort_agent_stop`, in some of a hundred jobs, at their end.
    pmi_over_components = "none"
    labels_output = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``srun`` and its options; a heterogeneous job has them for each component.

        Raises:
            PlanError: where srun assigns GPUs, and tasks share them or have different numbers of them.
        """
        groups = job.placement.groups
        texts = [Word(text="srun", origin=_ORIGIN)]
        if job.launch.role:
            return (*texts, *_of_role(job, options))
        for index, group in enumerate(groups):
            if index:
                texts.append(Word(text=":", origin=_ORIGIN))
            if len(groups) > 1:
                texts.append(Word(text=f"--het-group={index}", origin=_ORIGIN))
            texts += _shape(group, job)
            texts += _order(job, group)
            texts += [] if index else _common(job)
            texts += _gpus(job, group)
            texts += _site_words(job, group, options)
        return with_reports(texts)

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Problem]:  # noqa: ARG002
        """Yield a warning for MPI over the components of a heterogeneous job."""
        if job.launch.components and job.launch.connects_by_mpi:
            yield warning(
                "MPI over several components of a Slurm job works only where node names ascend in the order "
                "of the components, and srun of Slurm 22.05 may wait for ever at its end; give all replicas "
                "what nodes of one kind have"
            )


def _of_role(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    """Yield the options of a step that shares the job's nodes with those of the other roles."""
    [(index, group)] = [(index, group) for index, group in enumerate(job.placement.groups) if group.tasks]
    yield Word(text="--overlap", origin=_ORIGIN)
    if len(job.placement.groups) > 1:
        yield Word(text=f"--het-group={index}", origin=_ORIGIN)
    for text in _shape_of(group):
        yield Word(text=text, origin=_ORIGIN)
    yield Word.raw(_hosts(job, group), _ORIGIN)
    yield from _ends(job)
    yield from _mpi(job, options)
    yield from job.arguments


def _site_words(job: PreparedJob, group: Group, options: LauncherOptions) -> Iterator[Word]:
    yield from _mpi(job, options)
    if masks := [cpu_mask(cpus) for cpus in cpus_of_tasks(job, group)]:
        yield Word(text=f"--cpu-bind=mask_cpu:{','.join(masks)}", origin=origin_of(job, group))
    for text in options.binding if group.even and not masks else ():
        yield Word(text=text, origin=Origin("site", job.identity.site, "launchers.srun.binding"))
    yield from job.arguments


def _mpi(job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
    if job.launch.mpi:
        yield Word(text=f"--mpi={job.launch.mpi}", origin=_origin_of_pmi(job, options))


def _origin_of_pmi(job: JobSpec, options: LauncherOptions) -> Origin:
    if job.launch.mpi == options.mpi:
        return Origin("site", job.identity.site, "launchers.srun.mpi")
    if job.container and job.launch.mpi != SRUN.pmi_over_components:
        return Origin("site", job.identity.site, f"{job.container.key}.mpi")
    return Origin("rule", "no PMI over several components, but for MPI")


def _shape_of(group: Group) -> tuple[str, ...]:
    if not group.even:  # with --nodes Slurm 24.05 and later refuse it
        return f"--ntasks={group.tasks}", "--distribution=arbitrary", "--cpu-bind=none"
    per_node = f"--ntasks-per-node={group.tasks_per_node}", f"--cpus-per-task={group.cpus_per_task}"
    return f"--nodes={group.nodes}", f"--ntasks={group.tasks}", *per_node


def _shape(group: Group, job: PreparedJob) -> Iterator[Word]:
    yield from (Word(text=text, origin=_ORIGIN) for text in _shape_of(group))
    if job.own_nodes and group.even:  # else srun takes any of the job's nodes
        yield Word.raw('--nodelist="$HPCDIST_TASK_NODES"', _ORIGIN)
    if not group.even:
        # A file with one host a task, in rank order (srun(1), --nodelist with --distribution=arbitrary).
        yield Word.raw(_hosts(job, group), _ORIGIN)


def _hosts(job: PreparedJob, group: Group) -> str:
    """Return the option for the host of each rank, which srun reads from a file (tried on 22.05 to 26.05)."""
    own = Placement(groups=(group,), rows=tuple(filter(group.has, job.placement.rows)))
    calls = (f"hosts {node} {nodes} {tasks}" for node, nodes, tasks in own.crowds())
    return f"--nodelist=<({' && '.join(calls)})"


def _order(job: PreparedJob, group: Group) -> Iterator[Word]:
    """Yield the option for the order of nodes by name: from Slurm 26.05 on tasks follow their topology."""
    own = any(word.text.startswith("--distribution") for word in job.arguments)
    if group.even and group.nodes > 1 and group.tasks_per_node > 1 and not own:
        yield Word(text=f"--distribution=plane={group.tasks_per_node}", origin=_ORIGIN)


def _ends(job: JobSpec) -> Iterator[Word]:
    kills = str(int(job.completion.kill_on_failure))
    if job.completion.kill_on_failure and job.completion.restarts:
        kills = "${HPCDIST_KILL:-1}"  # the supervisor ends the others, but not those that save at the limit
    yield Word(text=f"--kill-on-bad-exit={kills}", origin=_ORIGIN, shell="$" in kills)
    yield Word(text="--wait=0", origin=_ORIGIN)


def _common(job: JobSpec) -> Iterator[Word]:
    yield from _ends(job)
    if job.labels_output:
        yield Word(text="--label", origin=_ORIGIN)


def _gpus(job: JobSpec, group: Group) -> Iterator[Word]:
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
        raise PlanError(Problem(message, ("environment", "replicas"), hint))
    yield Word(
        text=f"--gpus-per-task={group.gpus_per_task}",
        origin=Origin("site", job.identity.site, "gpus.bound_by"),
    )


SRUN = Srun()
