"""Launchers of MPIs: mpirun, Hydra, PALS, ibrun; horovodrun; and plain processes without MPI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.base.errors import PlanError, Problem
from hpcdist.layers.launchers import (
    PlainLauncher,
    binding_of,
    cpus_of_tasks,
    options_of,
    origin_of_cpus,
    tasks_on_each_node,
    with_reports,
)
from hpcdist.layers.protocols import words_of
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables
from hpcdist.site.nodes import format_cpu_list

_ALL: Final = frozenset({"slurm", "local", "pbs", "lsf", "flux", "sge"})
_OF_HYDRA: Final = RankVariables(rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID")


def _hostfile(job: JobSpec) -> str:
    """Return the job's hostfile, or the role's if each role has its own launch."""
    return f"$hostfile_{job.launch.role}" if job.launch.role else "$HPCDIST_HOSTFILE"


# --- mpirun of Open MPI, with the job's own hostfile
#
# Binding is left to each task's shell and to OMP_NUM_THREADS: Open MPI would bind each rank to one core
# (mpirun(1)). ``--map-by slot`` over the hostfile is the plan's rank order. Open MPI passes on ``OMPI_*`` by
# itself (mpirun(1)). An MCA parameter that ``-x`` names after another is a contradiction for PRRTE, which
# then starts nothing (``parse_env`` in its src/mca/schizo/ompi/schizo_ompi.c).

_STARTS_DAEMONS: Final = frozenset({"slurm", "local"})
"""Schedulers under which mpirun starts its daemons without ssh, or needs none."""


class Mpirun(PlainLauncher):
    """Open MPI's launcher."""

    name = "mpirun"
    program = "mpirun"
    version_words = ("--version",)
    mpi_flavours = ("openmpi",)
    substitutes = ("horovodrun", "processes")
    rank_variables: RankVariables | None = RankVariables(
        rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE", local_rank="OMPI_COMM_WORLD_LOCAL_RANK"
    )
    schedulers = _ALL
    site_options = options_of("flavour binding mca args rank_variables")
    reserved_options = options_of(
        "-n -np -c -N --n --np -H --host -hostfile --hostfile -machinefile --machinefile -npernode "
        "--npernode --map-by -map-by --rankfile -x"
    )
    unequal_nodes = True
    provides_mpi = True
    remote_shell = "agent"

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield ``mpirun`` with the hostfile and every variable of the plan by name.

        Raises:
            PlanError: where the site's mpirun is not Open MPI's.
        """
        site = job.identity.site
        if options.flavour not in (None, "openmpi"):
            raise PlanError(f"site {site}: the mpirun of {options.flavour} is not known yet; use srun there")
        yield from self.own("mpirun", "-np", str(job.placement.size))
        yield Word.raw(f'--hostfile "{_hostfile(job)}"', self.origin)
        if job.identity.scheduler not in _STARTS_DAEMONS:
            # ssh finds orted on other nodes only if it is on their login PATH; mpirun(1), --prefix.
            prefix = '--prefix "$(dirname "$(dirname "$(type -P mpirun)")")"'
            yield Word.raw(prefix, Origin("rule", "mpirun over ssh"))
        yield from self.own("--map-by", "slot")
        yield from self.binding(job, binding_of(job, options), ("--bind-to", "none"))
        if job.launch.components:
            # Open MPI sees only the first component of a Slurm heterogeneous job: start its daemons by ssh.
            rule = Origin("rule", "mpirun over several components")
            yield from words_of(rule, "--mca", "plm", "rsh", "--mca", "ras", "^slurm")
        for key, value in options.mca.items():
            yield from words_of(Origin("site", site, f"launchers.mpirun.mca.{key}"), "--mca", key, str(value))
        yield from job.arguments
        if job.placement.nodes > 1:  # tasks on this node inherit all variables
            yield Word.raw('"${exports[@]}"', Origin("default", "variables of the plan"))


# --- Hydra: the mpiexec of MPICH, and of Intel MPI, which is derived from it
#
# ``-machinefile`` with ``host:n`` is the plan's rank order in both, and takes unequal nodes. Hydra itself
# finds out how to reach the nodes (ssh, srun, blaunch, ...); a site can set it by ``args: [-launcher, ssh]``.
# Binding: MPICH's ``-bind-to none``; Intel's is a variable, ``I_MPI_PIN``, which the script sets.
# Sources: ``mpiexec.hydra -help`` of MPICH 4.0.2, with which all of this was tried; Intel MPI Developer
# Reference 2021.15, "Global Hydra Options" and "Process Pinning".


class Hydra(PlainLauncher):
    """mpiexec.hydra, with the job's own machine file."""

    name = "hydra"
    program = "mpiexec"
    version_words = ("--version",)
    mpi_flavours = ("mpich", "intel")
    rank_variables = _OF_HYDRA
    schedulers = _ALL
    site_options = options_of("flavour binding args rank_variables")
    reserved_options = options_of(
        "-n -np -f -host -hosts -hostfile -machinefile -ppn -perhost -rr -grr -genvlist -genvall -envlist"
    )
    hostfile_line = "%s:%s"
    unequal_nodes = True
    provides_mpi = True
    labels_output = False  # -prepend-rank writes [0] before each piece of output, not before each line
    remote_shell = "agent"

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield ``mpiexec.hydra`` with the machine file and every variable of the plan by name."""
        yield from self.own("mpiexec.hydra")
        yield Word.raw(f'-machinefile "{_hostfile(job)}" -genvlist "$exports"', self.origin)
        if job.launch.components:
            # srun inside the job starts on its first component only.
            yield from words_of(Origin("rule", "hydra over several components"), "-launcher", "ssh")
        usual = () if options.flavour == "intel" else ("-bind-to", "none")
        yield from self.binding(job, binding_of(job, options), usual)
        yield from job.arguments
        yield from self.own("-n", str(job.placement.size))


# --- PALS: the mpiexec of HPE Cray machines under PBS (Polaris, Aurora, Derecho), and under some Slurms
#
# Sources: HPE's own command line for PALS, ``cray mpiexec`` (github.com/Cray-HPE/craycli,
# cray/modules/pals), the user guides of ALCF and NCAR. ``--env`` takes one word in the former (``K=V``) and
# two in the latter, so the variables of the plan, which the script exports, are passed by ``--envall``,
# which all have. A failed rank ends all of them (``--abort-on-failure``, the default) unless
# ``--no-abort-on-failure`` is given.


class Pals(PlainLauncher):
    """mpiexec of the Parallel Application Launch Service; its host file has one line a node."""

    name = "pals"
    program = "mpiexec"
    version_words = ("--version",)
    mpi_flavours = ("pals",)
    rank_variables = RankVariables(rank="PMI_RANK", size="PMI_SIZE", local_rank="PMI_LOCAL_RANK")
    schedulers = frozenset({"pbs", "slurm"})
    site_options = options_of("binding args rank_variables")
    reserved_options = options_of(
        "-n --np --ppn -N --hostfile --hosts --hostlist --envall --genvall --abort-on-failure "
        "--no-abort-on-failure"
    )
    can_go_on = True
    lists_cpus = True
    hostfile_line = "%s%.0s"  # the host alone; --ppn sets its number of tasks
    provides_mpi = True
    labels_output = False  # --label puts the host's name in front as well

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``mpiexec`` with the number of tasks on each node and their CPU binding.

        Raises:
            PlanError: where nodes hold different numbers of tasks.
        """
        return with_reports(self._words(job, options))

    def _words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        each = tasks_on_each_node(job, "PALS mpiexec puts the same number of tasks on every node (--ppn)")
        yield from self.own("mpiexec", "-n", str(job.placement.size), "--ppn", str(each))
        yield Word.raw('--hostfile "$HPCDIST_HOSTFILE"', self.origin)
        yield from self.own("--envall")
        yield from self._binding(job, options)
        yield from self.own(*["--no-abort-on-failure"] * (not job.completion.kill_on_failure))
        yield from job.arguments

    def _binding(self, job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
        """Yield the CPU binding; by default PALS binds each task to one core."""
        group, even = job.placement.groups[0], job.placement.is_even
        if lists := [format_cpu_list(cpus) for cpus in cpus_of_tasks(job, group)]:
            yield from words_of(origin_of_cpus(job, group), "--cpu-bind", f"list:{':'.join(lists)}")
            return
        if even:
            yield from self.own("--depth", str(group.cpus_per_task))
        usual = ("--cpu-bind", "depth" if even else "none")
        yield from self.binding(job, binding_of(job, options), usual)


# --- ibrun: TACC's launcher (Vista, Lonestar6, Stampede3, Frontera), for whatever MPI is loaded
#
# It takes the layout of the job from Slurm's variables, so it starts equal tasks only, as many on each node
# as the job requested; ``-n`` and ``-o`` select some of them. It passes on the whole environment, and binds
# no CPUs: a site may set ``binding: [task_affinity]``, the program that does.
# Source: github.com/TACC/TACC-Docs, the user guides' section "Launching MPI applications".


class Ibrun(PlainLauncher):
    """TACC's ibrun; a site with Open MPI sets its ``rank_variables``."""

    name = "ibrun"
    program = "ibrun"
    mpi_flavours = ("intel", "mvapich")
    rank_variables = _OF_HYDRA
    schedulers = frozenset({"slurm"})
    site_options = options_of("binding args rank_variables")
    reserved_options = options_of("-n -o")
    provides_mpi = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
        """Yield ``ibrun`` for all tasks of the job.

        Raises:
            PlanError: where Slurm's layout of the job differs from the plan's.
        """
        tasks_on_each_node(job, "ibrun starts the same number of tasks on every node")
        if not job.placement.is_even:
            message = "ibrun starts tasks as Slurm lays them out, equal ones on nodes of one kind"
            hint = "give all replicas the same CPUs, or write `batch: {launcher: srun}`"
            raise PlanError(Problem(message, ("environment", "replicas"), hint))
        yield from self.own("ibrun", "-n", str(job.placement.size), "-o", "0")
        yield from job.arguments
        yield from self.binding(job, options.binding)


# --- horovodrun: for machines without a launcher of their own, by ssh (gloo) or by mpirun (mpi)
#
# The controller is always set: in an LSF job horovodrun 0.28.1 would start jsrun, which fails.


class Horovodrun(PlainLauncher):
    """Horovod's own launcher, with one of its two controllers; gloo needs no MPI."""

    name = "horovodrun"
    program = "horovodrun"
    version_words = ("--version",)
    rank_variables: RankVariables | None = RankVariables(
        rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK"
    )
    schedulers = _ALL
    frameworks = frozenset({"horovod"})
    site_options = options_of("args rank_variables")
    reserved_options = options_of(
        "-np --num-proc -H --hosts -hostfile --hostfile --gloo --mpi --min-np --max-np --min-num-proc "
        "--max-num-proc --host-discovery-script"
    )
    unequal_nodes = True
    labels_output = True
    labels_single = True
    remote_shell = "ssh"
    controller = "--gloo"
    hosts = '--hostfile "$HPCDIST_HOSTFILE"'

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:  # noqa: ARG002 - the protocol's
        """Yield ``horovodrun`` with its controller and the option for its hosts."""
        size = () if job.completion.elastic else ("-np", str(job.placement.size))
        yield from self.own("horovodrun", self.controller, *size)
        yield Word.raw(self.hosts, self.origin)
        yield from job.arguments


class HorovodrunMpi(Horovodrun):
    """horovodrun that starts the machine's mpirun."""

    name = "horovodrun-mpi"
    rank_variables = Mpirun.rank_variables
    provides_mpi = True
    controller = "--mpi"


class HorovodrunElastic(Horovodrun):
    """horovodrun for nodes that may be lost: a script of the job prints those that are left."""

    name = "horovodrun-elastic"
    rank_variables = None  # the number of tasks changes, so the plan gives them no ranks
    hosts = (  # words of sh -c
        "--host-discovery-script "
        "\"'${HPCDIST_PYTHON:-python3}' -ISB '$HPCDIST_RUN_DIR/runtime/elastic.py' nodes\""
    )


# --- Plain processes on one machine: no MPI and no launcher, for frameworks that connect over TCP


class Processes(PlainLauncher):
    """The job script itself starts the tasks and ends them all when one fails."""

    name = "processes"
    program = "bash"
    rank_variables = RankVariables(
        rank="HPCDIST_START_RANK", size="HPCDIST_START_SIZE", local_rank="HPCDIST_START_RANK"
    )
    schedulers = frozenset({"local"})
    can_go_on = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterable[Word]:
        """Return nothing: the script itself starts the tasks.

        Raises:
            PlanError: on more than one node.
        """
        del options
        if job.placement.nodes > 1:
            raise PlanError("launcher processes starts tasks on one node only; use srun or mpirun")
        return ()


MPIRUN: Final = Mpirun()
HYDRA: Final = Hydra()
PALS: Final = Pals()
IBRUN: Final = Ibrun()
HOROVODRUN: Final = Horovodrun()
HOROVODRUN_MPI: Final = HorovodrunMpi()
HOROVODRUN_ELASTIC: Final = HorovodrunElastic()
PROCESSES: Final = Processes()
