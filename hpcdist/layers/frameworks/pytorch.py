"""PyTorch: ``env://`` for one task a process, or torchrun, one on each node.

WORLD_SIZE counts tasks and RANK is the task's
(https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization). Without ``launch`` a
replica is one process, whatever its GPUs, as under Polyaxon 0.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem, warning
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import MOST_COUNT
from hpcdist.layers.frameworks.plain import Plain, filled, section_of, threads
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import (
    ADDRESS,
    HEAD_ADDRESS,
    JOB_ID,
    LOCAL_RANK,
    LOCAL_SIZE,
    NODE,
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
    "--nnodes": "the nodes are those of the plan",
    "--node-rank": "the nodes are those of the plan",
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


def problems(args: Sequence[str], path: Path) -> Iterator[Problem]:
    """Yield a problem for each option that is hpcdist's own, or is no option."""
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


def split(args: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options, and apart from them what ``--rdzv-conf`` sets (``timeout=900``).

    As an option that would replace the variable that says which node is the rendezvous host.
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
    """Return the value of this ``--rdzv-conf``, and how many words both are."""
    _, equals, value = args[index].partition("=")
    if equals:
        return value, 1
    return (args[index + 1], 2) if index + 1 < len(args) else ("", 1)


# --- PyTorch

_ORIGIN = Origin("framework", "pytorch")
SHARED: Final = {"MASTER_ADDR": template(HEAD_ADDRESS), "MASTER_PORT": template(PORT)}
"""The variables of all tasks for ``env://``."""


class Section(Model, frozen=True):
    """``launch``: ``env`` for a task a GPU, ``torchrun`` for one torchrun a node, which starts them.

    ``max_restarts``: how often torchrun starts all processes again when one has failed. ``args``: further
    options of torchrun, such as ``--tee=3``, ``--role=trainer``, ``--rdzv-conf=timeout=900`` and
    ``--numa-binding=node``; they come after the site's.
    """

    launch: Literal["env", "torchrun"] | None = None
    max_restarts: int = 0
    args: tuple[str, ...] = ()


class PyTorch(Plain):
    """torch.distributed."""

    name = "pytorch"
    section: type[Model] = Section

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section."""
        yield from super().problems(experiment)
        section = section_of(Section, experiment, self.name)
        path = ("pytorch", "max_restarts")
        if not 0 <= section.max_restarts <= MOST_COUNT:
            yield Problem(f"{section.max_restarts} is out of range", path)
        elif section.max_restarts and section.launch != "torchrun":
            hint = "add `launch: torchrun`, or write `environment: {max_restarts: ...}`"
            yield Problem("it is torchrun that restarts processes", path, hint)
        if section.args and section.launch != "torchrun":
            yield Problem("they are options of torchrun", (self.name, "args"), "add `launch: torchrun`")
        yield from problems(section.args, (self.name, "args"))

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a replica, a GPU or a node."""
        launch = section_of(Section, experiment, self.name).launch
        kinds: dict[str | None, Topology] = {
            "env": Topology(task="gpu", gpu_visibility="node", required_by="pytorch.launch"),
            "torchrun": Topology(task="node", required_by="pytorch.launch"),
        }
        return kinds.get(launch, Topology())

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> tuple[Word, ...]:
        """Return torchrun and its options where the section has it."""
        section = section_of(Section, experiment, self.name)
        return tuple(_torchrun(job, section, site)) if section.launch == "torchrun" else ()

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address and port of rank 0, and the interface for gloo."""
        if section_of(Section, experiment, self.name).launch == "torchrun":
            return (*gloo_interface(job, site), *threads(job, _ORIGIN), *patience(job))
        return (*filled(SHARED, _ORIGIN), *gloo_interface(job, site))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's ranks; for torchrun, its address and whether it is the rendezvous host."""
        if section_of(Section, experiment, self.name).launch != "torchrun":
            return tuple(filled(environment(job), _ORIGIN))
        own = {"PET_LOCAL_ADDR": template(ADDRESS)}
        own |= {} if _processes(job) else {"PET_NPROC_PER_NODE": template(PROCESSES)}
        # The traceback of the first process that failed, where the program has it recorded.
        own |= {"TORCHELASTIC_ERROR_FILE": template(RUN_DIR, "/logs/torchrun-", JOB_ID, ".", NODE, ".json")}
        section = section_of(Section, experiment, self.name)
        _, more = split((*site.torchrun.args, *section.args))
        if not section.max_restarts:
            own |= {"PET_NODE_RANK": template(NODE)}
            own |= {"PET_RDZV_CONF": template(",".join(more))} if more else {}
            return tuple(filled(own, _ORIGIN))
        # torchrun compares its own name with the endpoint's, which is another on many machines.
        hosts = {"master": ",".join(("is_host=1", *more)), "worker": ",".join(("is_host=0", *more))}
        return (
            *filled(own, _ORIGIN),
            *(
                Variable.filled("PET_RDZV_CONF", template(value), _ORIGIN, role)
                for role, value in hosts.items()
            ),
        )

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning where the site advises against torchrun, or one process has several GPUs."""
        launch = section_of(Section, experiment, self.name).launch
        reason = site.torchrun.discouraged
        if launch == "torchrun" and reason:
            hint = "`pytorch: {launch: env}` does without"
            yield warning(f"site {site.name} advises against torchrun: {reason}; {hint}")
        whole = (row.gpus for row in job.placement.rows if row.tasks_per_replica == 1)
        most = max(whole, default=0)
        by_user = job.launch.mode == "once" or job.launch.starts_processes
        if launch is None and most > 1 and not by_user:
            yield warning(
                f"each replica is one process for its {most} GPUs; for a process a GPU write "
                "`pytorch: {launch: env}`"
            )


class TorchLibrary(Plain):
    """A library over torch.distributed that reads the variables of ``env://``, a task a GPU."""

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU; the library takes the one whose number is the task's LOCAL_RANK."""
        del experiment
        return Topology(task="gpu", gpu_visibility="node")

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address and port of rank 0, and the interface for gloo."""
        del experiment
        return (*filled(SHARED, Origin("framework", self.name)), *gloo_interface(job, site))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's ranks."""
        del experiment, site
        return tuple(filled(environment(job), Origin("framework", self.name)))


def environment(job: JobSpec) -> dict[str, Template]:
    """Return the variables of a task's ranks, for ``env://``.

    Programs use the GPU whose number is LOCAL_RANK; for a task that sees only its own, that is the first.
    """
    shares = job.gpus.visibility == "node" or not any(group.gpus for group in job.placement.groups)
    return {
        "WORLD_SIZE": template(SIZE),
        "RANK": template(RANK),
        "LOCAL_RANK": template(LOCAL_RANK if shares else "0"),
        "LOCAL_WORLD_SIZE": template(LOCAL_SIZE),
        "NODE_RANK": template(NODE),
    }


def gloo_interface(job: JobSpec, site: Site) -> Iterator[Variable]:
    """Yield the variable that sets gloo's interface, as others may not reach the other nodes."""
    interface, key = site.interface_of(job.facts.node_types)
    if interface:
        yield Variable(name="GLOO_SOCKET_IFNAME", value=interface, origin=Origin("site", site.name, key))


def patience(job: JobSpec) -> Iterator[Variable]:
    """Yield how long torchrun waits for processes that save their state before it kills them, else 30 s."""
    if restarts := job.completion.restarts:
        seconds = str(restarts.notice)
        yield Variable(name="TORCH_ELASTIC_SHUTDOWN_TIMEOUT", value=seconds, origin=_ORIGIN)


def _processes(job: JobSpec) -> int | None:
    """Return how many processes each torchrun starts, None where they differ."""
    counts = {row.processes for row in job.placement.rows}
    return counts.pop() if len(counts) == 1 else None


def _torchrun(job: JobSpec, section: Section, site: Site) -> Iterator[Word]:
    program = Origin("site", site.name, "torchrun.program")
    origin = _ORIGIN if site.torchrun.program == "torchrun" else program
    yield Word(text=site.torchrun.program, origin=origin)
    yield Word(text=f"--nnodes={job.placement.size}", origin=_ORIGIN)
    if processes := _processes(job):
        yield Word(text=f"--nproc-per-node={processes}", origin=_ORIGIN)
    # c10d sorts the nodes by their names as text, so that n10 is before n9; only with it can all start again.
    yield Word(text=f"--rdzv-backend={'c10d' if section.max_restarts else 'static'}", origin=_ORIGIN)
    yield Word.raw('--rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"', _ORIGIN)
    yield Word.raw('--rdzv-id="$HPCDIST_JOB_ID"', _ORIGIN)
    yield Word(text=f"--max-restarts={section.max_restarts}", origin=_ORIGIN)
    own = (site.torchrun.args, Origin("site", site.name, "torchrun.args"))
    for texts, origin in (own, (section.args, Origin("key", "pytorch.args"))):
        yield from (Word(text=text, origin=origin) for text in split(texts)[0])
    yield Word(text="--no-python", origin=_ORIGIN)


PYTORCH = PyTorch()
