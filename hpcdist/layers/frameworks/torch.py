"""PyTorch, and the libraries on top of it: DeepSpeed, Lightning, Accelerate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from hpcdist.base.errors import Path, Problem, warning
from hpcdist.base.fields import Model
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import MOST_COUNT
from hpcdist.experiment.shell_words import simple_commands
from hpcdist.layers.frameworks import PlainFramework, filled, section_of, threads
from hpcdist.layers.protocols import Topology, words_of
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import (
    ADDRESS,
    GPUS,
    HEAD_ADDRESS,
    JOB_ID,
    LOCAL_RANK,
    LOCAL_SIZE,
    NODE,
    NODES,
    PORT,
    PROCESSES,
    RANK,
    RUN_DIR,
    SIZE,
    Template,
    template,
)
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site

# --- Options of torchrun that a site or an experiment adds
#
# Its parser takes ``-`` and ``_`` in names, and ``--name=value`` or two words
# (https://github.com/pytorch/pytorch, torch/distributed/run.py, ``get_args_parser``).

_MEETING: Final = "hpcdist sets where the nodes of the job meet"
_OWN_PROGRAM: Final = "the program is `run.cmd`"
_SET: Final[Mapping[str, str]] = {
    "--nnodes": "the plan sets the nodes",
    "--node-rank": "the plan sets the nodes",
    "--nproc-per-node": "the plan has a process for each GPU: `environment.processes_per_replica`",
    "--max-restarts": "write `pytorch: {max_restarts: ...}`",
    **dict.fromkeys(
        ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--master-addr", "--master-port", "--local-addr",
         "--standalone"), _MEETING,
    ),
    **dict.fromkeys(("--no-python", "--module", "-m", "--run-path"), _OWN_PROGRAM),
}  # fmt: skip
_CONF: Final = "--rdzv-conf"
_WITH_VALUE: Final = frozenset({
    "-r", "--redirects", "-t", "--tee", "--log-dir", "--role", "--monitor-interval", "--start-method",
    "--local-ranks-filter", "--logs-specs", "--numa-binding", "--signals-to-handle", "--shutdown-timeout",
    "--event-log-handler", "--duplicate-stdout-filters", "--duplicate-stderr-filters",
})  # fmt: skip
"""Options that take the next word, whatever it is, as their value (PyTorch 2.13)."""


def _option_problems(args: Sequence[str], path: Path) -> Iterator[Problem]:
    """Yield a problem for each option that hpcdist sets itself, and for invalid ones."""
    for index, text in enumerate(args):
        name = _name(text)
        if name in _SET:
            yield Problem(f"{text} is set by hpcdist", (*path, index), f"remove it: {_SET[name]}")
        elif not text.startswith("-") and (not index or not args[index - 1].startswith("-")):
            yield Problem(f"{text!r} is not an option", (*path, index), "write options such as --tee=3")
        elif text.startswith("-") and " " in text.partition("=")[0]:
            words = ", ".join(text.split())
            yield Problem(f"torchrun gets {text!r} as one word", (*path, index), f"write {words}")
        elif name == _CONF:
            yield from _conf_problems(_conf(args, index)[0], text, (*path, index))
        elif name in _WITH_VALUE and "=" not in text and not _has_value(args, index):
            yield Problem(f"{text} has no value", (*path, index), f"write {text}=VALUE")
        elif "$" in text or re.search(r"(?:^|=)~", text):
            hint = "write the value itself"
            yield Problem(f"variables and ~ are not expanded in {text!r}", (*path, index), hint)


def _has_value(args: Sequence[str], index: int) -> bool:
    return index + 1 < len(args) and not args[index + 1].startswith("-")


def _conf_problems(value: str, text: str, path: Path) -> Iterator[Problem]:
    if not value:
        yield Problem(f"{text} has no value", path, "write --rdzv-conf=timeout=900")
    elif any(part.partition("=")[0].strip() == "is_host" for part in value.split(",")):
        yield Problem("is_host is set by hpcdist", path, f"remove it: {_MEETING}")


def _split(args: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options, and separately what ``--rdzv-conf`` sets (``timeout=900``).

    As an option it would replace the variable that tells which node is the rendezvous host.
    """
    others: list[str] = []
    conf: list[str] = []
    index = 0
    while index < len(args):
        text, count = args[index], 1
        if _name(text) == _CONF:
            value, count = _conf(args, index)
            conf += [part for part in value.split(",") if part]
        else:
            others.append(text)
        index += count
    return tuple(others), tuple(conf)


def _name(text: str) -> str:
    return text.partition("=")[0].replace("_", "-") if text.startswith("-") else ""


def _conf(args: Sequence[str], index: int) -> tuple[str, int]:
    """Return the value of this ``--rdzv-conf``, and the number of words of both."""
    _, equals, value = args[index].partition("=")
    if equals:
        return value, 1
    return (args[index + 1], 2) if index + 1 < len(args) else ("", 1)


# --- PyTorch: ``env://`` with one task per process, or one torchrun on each node
#
# WORLD_SIZE counts tasks and RANK is the task's
# (https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization). Without ``launch`` a
# replica is one process, whatever its GPUs, as under Polyaxon 0.6.

SHARED: Final = {"MASTER_ADDR": template(HEAD_ADDRESS), "MASTER_PORT": template(PORT)}
"""The variables of all tasks for ``env://``."""


class TorchSection(Model, frozen=True):
    """``launch``: ``env`` for a task a GPU, ``torchrun`` for one torchrun a node, which starts them.

    ``max_restarts``: how often torchrun starts all processes again when one has failed. ``args``: further
    options of torchrun, such as ``--tee=3``, ``--role=trainer``, ``--rdzv-conf=timeout=900`` and
    ``--numa-binding=node``; they come after the site's.
    """

    launch: Literal["env", "torchrun"] | None = None
    max_restarts: int = 0
    args: tuple[str, ...] = ()


class PyTorch(PlainFramework):
    """torch.distributed."""

    name = "pytorch"
    section: type[Model] = TorchSection

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section."""
        yield from super().problems(experiment)
        section = section_of(TorchSection, experiment, self.name)
        path = ("pytorch", "max_restarts")
        if not 0 <= section.max_restarts <= MOST_COUNT:
            yield Problem(f"{section.max_restarts} is out of range", path)
        elif section.max_restarts and section.launch != "torchrun":
            hint = "add `launch: torchrun`, or write `environment: {max_restarts: ...}`"
            yield Problem("it is torchrun that restarts processes", path, hint)
        if section.args and section.launch != "torchrun":
            yield Problem("they are options of torchrun", (self.name, "args"), "add `launch: torchrun`")
        yield from _option_problems(section.args, (self.name, "args"))

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a replica, a GPU or a node."""
        launch = section_of(TorchSection, experiment, self.name).launch
        kinds: dict[str | None, Topology] = {
            "env": Topology(task="gpu", gpu_visibility="node", required_by="pytorch.launch"),
            "torchrun": Topology(task="node", required_by="pytorch.launch"),
        }
        return kinds.get(launch, Topology())

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Word]:
        """Return torchrun and its options where the section has it."""
        section = section_of(TorchSection, experiment, self.name)
        return self._torchrun(job, section, site) if section.launch == "torchrun" else ()

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the address and port of rank 0, and the interface for gloo."""
        if section_of(TorchSection, experiment, self.name).launch == "torchrun":
            return (*_gloo_interface(job, site), *threads(job, self.origin), *self._shutdown_timeout(job))
        return (*filled(SHARED, self.origin), *_gloo_interface(job, site))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the task's ranks; for torchrun, its address and whether it is the rendezvous host."""
        if section_of(TorchSection, experiment, self.name).launch != "torchrun":
            return tuple(filled(_environment(job), self.origin))
        own = {"PET_LOCAL_ADDR": template(ADDRESS)}
        own |= {} if _processes(job) else {"PET_NPROC_PER_NODE": template(PROCESSES)}
        # The traceback of the first process that failed, if the program records it.
        own |= {"TORCHELASTIC_ERROR_FILE": template(RUN_DIR, "/logs/torchrun-", JOB_ID, ".", NODE, ".json")}
        section = section_of(TorchSection, experiment, self.name)
        _, more = _split((*site.torchrun.args, *section.args))
        if not section.max_restarts:
            own |= {"PET_NODE_RANK": template(NODE)}
            own |= {"PET_RDZV_CONF": template(",".join(more))} if more else {}
            return tuple(filled(own, self.origin))
        # torchrun compares its own name with the endpoint's, which differs on many machines.
        hosts = {"master": ",".join(("is_host=1", *more)), "worker": ",".join(("is_host=0", *more))}
        return (
            *filled(own, self.origin),
            *(
                Variable.filled("PET_RDZV_CONF", template(value), self.origin, role)
                for role, value in hosts.items()
            ),
        )

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning where the site advises against torchrun, or one process has several GPUs."""
        launch = section_of(TorchSection, experiment, self.name).launch
        reason = site.torchrun.discouraged
        if launch == "torchrun" and reason:
            hint = "`pytorch: {launch: env}` does without"
            yield warning(f"site {site.name} advises against torchrun: {reason}; {hint}")
        whole = (row.gpus for row in job.placement.rows if row.tasks_per_replica == 1)
        most = max(whole, default=0)
        by_user = job.launch.mode == "once" or job.launch.starts_processes
        started = (simple.words[0] for simple in simple_commands(job.identity.command) if simple.words)
        runs_python = any(word.rsplit("/", 1)[-1].startswith("python") for word in started)
        several = re.search(r"_VISIBLE_DEVICES=|(?<!&)&(?![&>])", job.identity.command)  # side by side
        if launch is None and most > 1 and runs_python and not by_user and not several:
            yield warning(
                f"each replica is one process for its {most} GPUs; for a process a GPU write "
                "`pytorch: {launch: env}`"
            )

    def _shutdown_timeout(self, job: JobSpec) -> Iterator[Variable]:
        """Yield how long torchrun waits for processes that save their state; its default is 30 s."""
        if restarts := job.completion.restarts:
            seconds = str(restarts.notice)
            yield Variable(name="TORCH_ELASTIC_SHUTDOWN_TIMEOUT", value=seconds, origin=self.origin)

    def _torchrun(self, job: JobSpec, section: TorchSection, site: Site) -> Iterator[Word]:
        program = Origin("site", site.name, "torchrun.program")
        origin = self.origin if site.torchrun.program == "torchrun" else program
        yield Word(text=site.torchrun.program, origin=origin)
        yield from self.own(f"--nnodes={job.placement.size}")
        if processes := _processes(job):
            yield from self.own(f"--nproc-per-node={processes}")
        # c10d sorts the nodes by name as text, so n10 is before n9; only c10d can restart all.
        yield from self.own(f"--rdzv-backend={'c10d' if section.max_restarts else 'static'}")
        yield Word.raw('--rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"', self.origin)
        yield Word.raw('--rdzv-id="$HPCDIST_JOB_ID"', self.origin)
        yield from self.own(f"--max-restarts={section.max_restarts}")
        yield from words_of(Origin("site", site.name, "torchrun.args"), *_split(site.torchrun.args)[0])
        yield from words_of(Origin("key", "pytorch.args"), *_split(section.args)[0])
        yield from self.own("--no-python")


class TorchLibrary(PlainFramework):
    """A library over torch.distributed that reads the variables of ``env://``, a task a GPU."""

    requirements = Topology(task="gpu", gpu_visibility="node")  # it uses GPU number LOCAL_RANK

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the address and port of rank 0, and the interface for gloo."""
        del experiment
        return (*filled(SHARED, self.origin), *_gloo_interface(job, site))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the task's ranks."""
        del experiment, site
        return tuple(filled(_environment(job), self.origin))


def _environment(job: JobSpec) -> dict[str, Template]:
    """Return the variables of a task's ranks, for ``env://``.

    Programs use the GPU whose number is LOCAL_RANK; for a task that sees only its own GPU, it is the first.
    """
    shares = job.gpus.visibility == "node" or not any(group.gpus for group in job.placement.groups)
    return {
        "WORLD_SIZE": template(SIZE),
        "RANK": template(RANK),
        "LOCAL_RANK": template(LOCAL_RANK if shares else "0"),
        "LOCAL_WORLD_SIZE": template(LOCAL_SIZE),
        "NODE_RANK": template(NODE),
    }


def _gloo_interface(job: JobSpec, site: Site) -> Iterator[Variable]:
    """Yield the variable that sets gloo's interface: others may not reach the other nodes."""
    interface, key = site.interface_of(job.facts.node_types)
    if interface:
        yield Variable(name="GLOO_SOCKET_IFNAME", value=interface, origin=Origin("site", site.name, key))


def _processes(job: JobSpec) -> int | None:
    """Return how many processes each torchrun starts, None where they differ."""
    counts = {row.processes for row in job.placement.rows}
    return counts.pop() if len(counts) == 1 else None


# --- DeepSpeed: ``deepspeed.init_distributed`` reads the variables of PyTorch's ``env://``, a task a GPU
#
# Source: https://www.deepspeed.ai/getting-started/#launching-deepspeed-training. Users who start the program
# ``deepspeed`` themselves find the hosts in ``$HPCDIST_HOSTFILE``, whose form is DeepSpeed's.


class DeepSpeed(TorchLibrary):
    """DeepSpeed over torch.distributed."""

    name = "deepspeed"


# --- Accelerate: ``Accelerator()`` reads the variables of PyTorch's ``env://``, a task a GPU
#
# Without LOCAL_RANK each process trains alone. Without GPUs the use of CPUs must be set as well:
# ``Accelerator()`` reads ACCELERATE_USE_CPU, ``PartialState()`` has only its argument ``cpu``. Source:
# ``accelerate/state.py`` of 1.15.0, tried.


class Accelerate(TorchLibrary):
    """Hugging Face's Accelerate, and its Trainer, over torch.distributed."""

    name = "accelerate"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the address and port of rank 0, and without GPUs that CPUs are used."""
        shared = super().variables(job, experiment, site)
        cpu = Variable(name="ACCELERATE_USE_CPU", value="true", origin=self.origin)
        return shared if _has_gpus(job) else (*shared, cpu)

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning for tasks without GPUs: no variable sets that for ``PartialState()``."""
        del experiment, site
        if job.placement.size > 1 and job.launch.mode == "tasks" and not _has_gpus(job):
            yield warning(
                "these tasks have no GPUs: `Accelerator()` meets the others, but a program that calls "
                "`PartialState()` first trains alone; write `PartialState(cpu=True)` there"
            )


def _has_gpus(job: JobSpec) -> bool:
    return any(group.gpus for group in job.placement.groups)


# --- Lightning and Fabric: the numbers of nodes and devices, and the rank of this process
#
# With their defaults (``devices="auto"``, ``num_nodes=1``) they see the devices of one node. ``Trainer``
# takes its defaults from ``PL_TRAINER_*``, ``Fabric`` its arguments from ``LT_*``; a process finds its ranks
# as under torchrun, which they check before Slurm or LSF: those require the same number of tasks on every
# node. Sources: ``TorchElasticEnvironment``, ``_defaults_from_env_vars`` and ``Fabric``'s
# ``_argument_from_env`` in Lightning 2.6.6, tried.


class Lightning(TorchLibrary):
    """Lightning's ``Trainer``, and Fabric, over torch.distributed."""

    name = "lightning"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return rank 0's address and port, and variables to make Lightning read ranks as under torchrun.

        With the strategy set, ``Trainer(devices=1)`` is an error instead of a separate training.
        """
        shared = super().variables(job, experiment, site)
        if _is_launch(job):
            return shared
        ddp = Variable(name="PL_TRAINER_STRATEGY", value="ddp", origin=self.origin)
        several = (ddp,) if job.placement.size > 1 else ()
        return (*shared, Variable.filled("TORCHELASTIC_RUN_ID", template(JOB_ID), self.origin), *several)

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the task's ranks and the numbers of nodes and devices; a launch sets its processes' own."""
        if _is_launch(job):
            return super().task_variables(job, experiment, site)
        return tuple(filled(_by_node(job) if _is_regular(job) else _by_task(job), self.origin))

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning for a placement that Lightning cannot express."""
        del site
        if not _is_launch(job) and (why := _why_irregular(job, experiment)):
            yield warning(
                f"{why}: each task gets the variables of a separate node, so the program must not set "
                "`devices` or `num_nodes` itself, and each task runs `prepare_data`"
            )


def _is_launch(job: JobSpec) -> bool:
    """Whether the command is a launch: srun, or torchrun or fabric run on each node."""
    return job.launch.mode == "once" or job.launch.starts_processes


def _why_irregular(job: JobSpec, experiment: Experiment) -> str:
    """Return why task n of a node does not have device n, or nodes differ; empty if neither holds."""
    if _is_regular(job):
        return ""
    rows = job.placement.rows
    if all((row.gpus, row.tasks_per_gpu) == (1, 1) for row in rows) and _is_even(job):
        chosen = experiment.batch.gpu_visibility == "task"
        by = "`batch.gpu_visibility: task`" if chosen else job.launch.launcher
        return f"Lightning counts the devices of a whole node, and {by} shows each task only its own"
    counts = "Lightning knows only nodes with equal numbers of devices, each a task's own"
    return f"{counts}, and this plan has others"


def _is_even(job: JobSpec) -> bool:
    return len({tasks for _, tasks in job.placement.tasks_per_node()}) == 1


def _is_regular(job: JobSpec) -> bool:
    """Whether all nodes hold the same number of tasks, and task n of each has device n."""
    rows = job.placement.rows
    if not any(row.gpus for row in rows):
        return _is_even(job)
    return (
        _is_even(job)
        and job.gpus.visibility == "node"
        and all((row.gpus, row.tasks_per_gpu) == (1, 1) for row in rows)
    )


def _by_node(job: JobSpec) -> dict[str, Template]:
    return _environment(job) | {"GROUP_RANK": template(NODE)} | _shape(template(NODES), template(LOCAL_SIZE))


def _by_task(job: JobSpec) -> dict[str, Template]:
    """Return variables by which each task is a separate node."""
    own = {
        "LOCAL_RANK": template("0"),
        "LOCAL_WORLD_SIZE": template("1"),
        "NODE_RANK": template(RANK),
        "GROUP_RANK": template(RANK),
    }
    device = template(GPUS, ",") if all(row.gpus for row in job.placement.rows) else template("1")
    return _environment(job) | own | _shape(template(SIZE), device)


def _shape(nodes: Template, devices: Template) -> dict[str, Template]:
    kinds = {"NUM_NODES": nodes, "DEVICES": devices}
    return {f"{prefix}_{name}": value for name, value in kinds.items() for prefix in ("PL_TRAINER", "LT")}


PYTORCH: Final = PyTorch()
DEEPSPEED: Final = DeepSpeed()
ACCELERATE: Final = Accelerate()
LIGHTNING: Final = Lightning()
