"""Frameworks: what each requires of the launch, its variables, and the checks of its part of the file.

torch    PyTorch, torchrun with its address, and DeepSpeed, Lightning and Accelerate on top of it
horovod tensorflow    one framework each
jax_mpi_mxnet_ray    JAX, MPI, MXNet, Ray
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hpcdist.base import fields
from hpcdist.base.errors import Path, Problem, did_you_mean, dotted
from hpcdist.base.fields import M, Model
from hpcdist.base.registry import Registry
from hpcdist.experiment.model import Experiment, Replicas
from hpcdist.experiment.remarks import section_for
from hpcdist.experiment.replicas import Replica, blocks, foreign_commands
from hpcdist.layers.protocols import Framework, Layer, Topology
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import Template
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site

frameworks: Registry[Framework] = Registry(
    "framework",
    {
        "horovod": "hpcdist.layers.frameworks.horovod:HOROVOD",
        "mpi": "hpcdist.layers.frameworks.jax_mpi_mxnet_ray:MPI",
        "pytorch": "hpcdist.layers.frameworks.torch:PYTORCH",
        "tensorflow": "hpcdist.layers.frameworks.tensorflow:TENSORFLOW",
        "mxnet": "hpcdist.layers.frameworks.jax_mpi_mxnet_ray:MXNET",
        "jax": "hpcdist.layers.frameworks.jax_mpi_mxnet_ray:JAX",
        "deepspeed": "hpcdist.layers.frameworks.torch:DEEPSPEED",
        "lightning": "hpcdist.layers.frameworks.torch:LIGHTNING",
        "accelerate": "hpcdist.layers.frameworks.torch:ACCELERATE",
        "ray": "hpcdist.layers.frameworks.jax_mpi_mxnet_ray:RAY",
        "chainermn": "hpcdist.layers.frameworks.jax_mpi_mxnet_ray:CHAINERMN",
    },
)


class NoSection(Model, frozen=True):
    """The section of a framework without keys."""


class PlainFramework(Layer):
    """No framework: the program is started unchanged. Frameworks are derived from it."""

    kind = "framework"
    name = ""
    section: type[Model] = NoSection
    roles = frozenset({"master", "worker"})
    requirements = Topology()
    """What it requires of placement and launch."""
    shared: Mapping[str, Template] = {}
    """The variables that are the same for all tasks."""
    one_process = False
    """Whether a replica is one process, since it has one address."""

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield the problems of the section."""
        _, problems = experiment.section(self.name, self.section)
        yield from (problem_in_section(problem, self.name) for problem in problems)
        if self.one_process and (experiment.environment.processes_per_replica or 1) > 1:
            path: Path = ("environment", "processes_per_replica")
            message = f"a replica is one process under {self.name}"
            yield Problem(message, path, "write more workers instead")

    def topology(self, experiment: Experiment) -> Topology:
        """Return its requirements; by default one task per replica, with any launcher."""
        del experiment
        return self.requirements

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Word]:
        """Return nothing: the command is started unchanged."""
        del job, experiment, site
        return ()

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return its shared variables."""
        del job, experiment, site
        return tuple(filled(self.shared, self.origin))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return nothing."""
        del job, experiment, site
        return ()

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield nothing."""
        del job, experiment, site
        return ()


PLAIN: Final = PlainFramework()


def section_of(model: type[M], experiment: Experiment, name: str) -> M:
    """Return a framework's section, an empty one where the file has none."""
    built, _ = experiment.section(name, model)
    return built if isinstance(built, model) else model()


def threads(job: JobSpec, origin: Origin) -> Iterator[Variable]:
    """Yield the variable for the threads of a process that each task's shell does not start itself."""
    each = min(max(1, row.cpus // row.processes) for row in job.placement.rows)
    yield Variable(name="OMP_NUM_THREADS", value=str(each), origin=origin)


def problem_in_section(problem: Problem, *section: str) -> Problem:
    """Return a problem of a section with its path in the file."""
    path: Path = (*section, *problem.path)
    return problem._replace(path=path)


def filled(table: Mapping[str, Template], origin: Origin) -> Iterator[Variable]:
    """Yield variables whose values the script fills in."""
    return (Variable.filled(name, value, origin) for name, value in table.items())


# --- The checks of a framework's parts of a file


def framework_of(experiment: Experiment) -> Framework:
    """Return the experiment's framework, a plain one where it names none.

    Raises:
        ConfigError: for a name that no framework has.
    """
    return frameworks.get(experiment.framework) if experiment.framework else PLAIN


_OTHER_NAMES: Final = {
    **dict.fromkeys(("torch", "ddp", "fsdp", "torchrun", "torch_distributed"), "pytorch"),
    **dict.fromkeys(("tf", "keras", "tensorflow2"), "tensorflow"),
    **dict.fromkeys(("hvd", "horovodrun"), "horovod"),
    **dict.fromkeys(("hf", "huggingface", "transformers", "trl"), "accelerate"),
    **dict.fromkeys(("pl", "pytorch_lightning", "fabric"), "lightning"),
    **dict.fromkeys(("openmpi", "mpirun", "mpi4py", "srun"), "mpi"),
}
"""Other names that users write for a framework."""


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield the problems of the framework's name, roles and section, and of sections without a framework."""
    name = experiment.framework
    if name is not None and name not in frameworks:
        meant = _OTHER_NAMES.get(name.lower())
        hint = f"write `framework: {meant}`" if meant else did_you_mean(name, frameworks.names())
        yield Problem(f"there is no framework {name!r}", ("framework",), hint)
        return
    section = experiment.environment.replicas or Replicas()
    if name is not None:
        yield from _role_problems(frameworks.get(name), section)
        if isinstance(experiment.sections.get(name), Mapping | None):
            yield from frameworks.get(name).problems(experiment)
    elif (section.n_workers or section.n_ps or section.evaluator) and experiment.backend != "mpi":
        hint = f"write `framework:` ({', '.join(frameworks.names())})"
        yield Problem("replicas need a framework", ("environment", "replicas"), hint)
    yield from _section_problems(experiment)


def _role_problems(framework: Framework, section: Replicas) -> Iterator[Problem]:
    roles = [role for role in ("master", "worker", "ps", "evaluator") if role in framework.roles]
    for role, key, what, asked in (
        ("ps", "n_ps", "no parameter servers", section.n_ps),
        ("evaluator", "evaluator", "no evaluator", section.evaluator),
    ):
        if asked and role not in framework.roles:
            hint = f"it has {', '.join(roles[:-1])} and {roles[-1]}"
            yield Problem(f"{framework.name} has {what}", ("environment", "replicas", key), hint)


def unequal_gpus(experiment: Experiment) -> Iterator[Problem]:
    """Yield a warning if tasks that do equal work have different GPUs, at the key of the smaller number.

    The amounts must be valid; if `problems_of` refuses the framework or section, there is no warning.
    """
    name = experiment.framework or ""
    if name not in frameworks or not isinstance(experiment.sections.get(name), Mapping | None):
        return
    topology = frameworks.get(name).topology(experiment)
    replicas = (block.first for block in blocks(experiment, per_gpu=topology.task != "replica"))
    lockstep = [replica for replica in replicas if replica.role in topology.lockstep_roles]
    fewest, most = (pick(lockstep, key=_gpus_of_a_task, default=None) for pick in (min, max))
    if fewest and most and _gpus_of_a_task(fewest) < _gpus_of_a_task(most):
        has = f"{fewest.gpus or 'no'} GPU{'s' * (fewest.gpus > 1)}"
        message = f"{_name_of(fewest)} has {has}, {_name_of(most)} has {most.gpus}, and they do the same work"
        same = f"gpu: {{requests: {most.gpus}}}"
        if fewest.path[-1:] != ("resources",):
            same = f"resources: {{{same}}}" if fewest.path else f"default_worker: {{resources: {{{same}}}}}"
        path = fewest.path or ("environment", "replicas", "n_workers")
        yield Problem(message, path, f"write `{same}`", "warning")


def other_programs(experiment: Experiment) -> Iterator[Problem]:
    """Yield a warning for each replica that has a rank of the training but runs another program."""
    name = experiment.framework or ""
    if name not in frameworks or not isinstance(experiment.sections.get(name), Mapping | None):
        return
    for path in foreign_commands(experiment, frameworks.get(name).topology(experiment).lockstep_roles):
        message = f"this command has a rank of {name}, so the others wait for it to take part"
        hint = "if it takes no part in the training, write it as `run.beside`"
        yield Problem(message, path, hint, "warning")


def _gpus_of_a_task(replica: Replica) -> float:
    return replica.gpus / replica.tasks


def _name_of(replica: Replica) -> str:
    return "the master" if replica.role == "master" else replica.name


_SEARCHES: Final = dict.fromkeys(
    ("sweep", "search", "grid", "grid_search", "hyperparameters", "parameters"),
    "write `hptuning: {matrix: {lr: {values: [0.1, 0.2]}}}` for a search, `params: {lr: 0.1}` for values",
)


def _section_problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield what is wrong with the top-level keys that are not the experiment's own."""
    for name, section in experiment.sections.items():
        if name not in frameworks:
            home = section_for(name, section)
            elsewhere = (
                {name: f"it belongs to `{dotted(home)}`: check the indentation"} if home else _SEARCHES
            )
            known = [*fields.key_names(Experiment), *frameworks.names()]
            yield fields.unknown_key(name, (), known, elsewhere)
        elif section is None:
            continue
        elif name != experiment.framework:
            hint = f"remove the section, or write `framework: {name}`"
            yield Problem(f"the framework is {experiment.framework or 'not given'}", (name,), hint)
        elif not isinstance(section, Mapping):
            yield Problem(f"expected keys and values, got {section!r}", (name,))
