"""Horovod: its knobs as a table, the launchers that can start it, and runs that survive the loss of a node.

Source of the table: horovodrun 0.28.1 parsed each of its arguments, and the variables were read back. Its
further arguments set no variable; those that a site needs are in ``launchers.horovodrun.args``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from hpcdist.base.errors import Path, PlanError, Problem, did_you_mean, warning
from hpcdist.base.fields import Model
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import PlainFramework, section_of, threads
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import OUTPUTS, template
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site

# --- The section of Horovod: its knobs as a table, and the further arguments of horovodrun
#
# Source of the table: the arguments of horovodrun 0.28.1, each parsed by it and the variables read back.


class Knob(NamedTuple):
    """One key of the ``horovod:`` section and the variable it becomes."""

    key: str
    variable: str
    kind: Literal["integer", "number", "flag", "text", "file"]
    """A relative path is below the run's outputs; ``DYNAMIC``: the program itself starts that timeline."""
    scale: int = 1
    """Multiplies the value (MiB to bytes)."""
    maximum: float | None = None
    on: str | None = "1"
    """The text of a flag that is true."""
    off: str | None = "0"
    """The text of a flag that is false."""
    needs: str | None = None
    """A knob without which horovodrun does not pass this one on."""
    choices: tuple[str, ...] = ()
    """All texts that it accepts."""


KNOBS: Final = (
    Knob("fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", "integer", scale=1024 * 1024),
    Knob("cycle_time_ms", "HOROVOD_CYCLE_TIME", "number"),
    Knob("cache_capacity", "HOROVOD_CACHE_CAPACITY", "integer"),
    Knob("hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "flag"),
    Knob("hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "flag"),
    Knob("torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", "flag"),
    Knob("autotune", "HOROVOD_AUTOTUNE", "flag", off=None),
    Knob("autotune_log_file", "HOROVOD_AUTOTUNE_LOG", "file", needs="autotune"),
    Knob("autotune_warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "integer", needs="autotune"),
    Knob("autotune_steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "integer", needs="autotune"),
    Knob(
        "autotune_bayes_opt_max_samples",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        "integer",
        needs="autotune",
    ),
    Knob(
        "autotune_gaussian_process_noise",
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        "number",
        maximum=1,
        needs="autotune",
    ),
    Knob("timeline_filename", "HOROVOD_TIMELINE", "file"),
    Knob("timeline_mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "flag", needs="timeline_filename"),
    Knob("stall_check", "HOROVOD_STALL_CHECK_DISABLE", "flag", on="0", off="1"),
    Knob("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", "integer"),
    Knob("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "integer"),
    Knob("mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE", "flag"),
    Knob("tcp", "NCCL_IB_DISABLE", "flag", off=None),
    Knob("num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS", "integer"),
    Knob("thread_affinity", "HOROVOD_THREAD_AFFINITY", "integer"),
    Knob("gloo_timeout_seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", "integer"),
    Knob(
        "log_level",
        "HOROVOD_LOG_LEVEL",
        "text",
        choices=("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"),
    ),
    Knob("log_with_timestamp", "HOROVOD_LOG_HIDE_TIME", "flag", on="0", off="1"),
)
LIMITS: Final = (Knob("start_timeout", "HOROVOD_START_TIMEOUT", "integer"),)
"""Knobs of horovodrun alone: the seconds in which all processes have to start."""
START_TIMEOUT: Final = "300"
"""Its value by default: Horovod's own, 30, is too short for nodes with other work, and for many nodes."""
_OPPOSITES: Final[dict[str, tuple[str, ...]]] = {
    "log_with_timestamp": ("log_without_timestamp", "log_hide_timestamp"),
    "tcp": (),
}
OPPOSITES: Final = tuple(
    Knob(key, knob.variable, "flag", on=knob.off, off=knob.on)
    for knob in KNOBS
    if knob.kind == "flag"
    for key in _OPPOSITES.get(knob.key, (f"no_{knob.key}",))
)
"""The arguments of horovodrun that turn a knob off."""
WITHOUT_EFFECT: Final[dict[str, tuple[Any, str, str]]] = {
    "output_filename": (str, "has no effect: the run's log has the output of all tasks", ""),
    "config_file": (str, "is not read", "write its keys here"),
    "mpi_args": (
        str | tuple[str, ...],
        "is not used",
        "write `batch: {launcher: {name: mpirun, args: [...]}}`",
    ),
    "binding_args": (str | tuple[str, ...], "is not used", "write `batch: {launcher: {args: [...]}}`"),
    **dict.fromkeys(
        ("network_interface", "network_interfaces"),
        (str | tuple[str, ...], "has no effect: the site file names the network", ""),
    ),
    **dict.fromkeys(
        ("ssh_port", "ssh_identity_file"),
        (str | int, "has no effect: ssh uses your own settings", "write it in ~/.ssh/config"),
    ),
    **dict.fromkeys(
        ("disable_cache", "verbose"),
        (bool, "has no effect: horovodrun runs with what a batch job needs", ""),
    ),
    "blacklist_cooldown_range": (tuple[int, ...], "has no effect: a job gets no lost node back", ""),
}
"""Further arguments of horovodrun: their types, what is to be known of them, and what to write instead."""
_TYPES: Final[dict[str, type]] = {"integer": int, "number": float, "flag": bool, "text": str, "file": str}


class Elastic(Model, frozen=True):
    """A run that continues when it loses nodes.

    ``min_np``: the fewest processes with which it continues. ``max_np``: the most, by default all that are
    allocated. ``reset_limit``: after so many changes the job ends. ``slots_per_host``: the number of
    processes on each node that the plan gives.
    """

    min_np: int = 1
    max_np: int | None = None
    reset_limit: int | None = None
    slots_per_host: int | None = None


def _bounds(knob: Knob) -> str:
    choices = f" to one of {', '.join(knob.choices)}" if knob.choices else ""
    states = [(name, text) for name, text in (("true", knob.on), ("false", knob.off)) if text]
    flag = " to " + ", ".join(f"{text} if {name}" for name, text in states) if knob.kind == "flag" else ""
    most = f", {knob.maximum} at most" if knob.maximum is not None else ""
    file = ", a file among the run's outputs, or a full path" if knob.kind == "file" else ""
    return choices + flag + file + most + (f"; it needs ``{knob.needs}``" if knob.needs else "")


HorovodSection: Final[Any] = msgspec.defstruct(
    "HorovodSection",
    [
        *((knob.key, _TYPES[knob.kind] | None, None) for knob in (*KNOBS, *LIMITS, *OPPOSITES)),
        ("elastic_timeout", int | None, None),
        *((key, kind | None, None) for key, (kind, _, _) in WITHOUT_EFFECT.items()),
        ("controller", Literal["gloo", "mpi"] | None, None),
        ("elastic", Elastic | None, None),
    ],
    bases=(Model,),
    frozen=True,
    module=__name__,
    namespace={
        "elsewhere": {
            **dict.fromkeys(("min_np", "max_np", "slots_per_host", "reset_limit"), "write it in `elastic`"),
            **dict.fromkeys(("np", "num_proc"), "write `environment.replicas`, which has a process for each"),
            **{name: f"write `{name[:3]}_np` in `elastic`" for name in ("min_num_proc", "max_num_proc")},
            **{name: f"write `controller: {name}`" for name in ("gloo", "mpi")},
            **dict.fromkeys(("hosts", "hostfile", "host_discovery_script"), "the job's own hosts are used"),
            "jsrun": "the site file names the launcher",
        },
        "__doc__": "The section of Horovod; its knobs have the names of horovodrun's arguments.\n\n"
        + "\n".join(
            f"``{knob.key}``: sets ``{knob.variable}``{_bounds(knob)}." for knob in (*KNOBS, *OPPOSITES)
        )
        + f"\n``start_timeout``: sets ``HOROVOD_START_TIMEOUT`` for horovodrun, {START_TIMEOUT} by default."
        + "\n``elastic_timeout``: the seconds for which an elastic run waits after a change, 60 by default."
        + "".join(f"\n``{key}``: {message}." for key, (_, message, _) in WITHOUT_EFFECT.items())
        + "\n``controller``: how processes connect; only horovodrun supports ``gloo``."
        + "\n``elastic``: a run that continues when it loses nodes.",
    },
)
"""A field for each knob; ``controller``, ``elastic``."""


# --- Horovod

_MOST: Final = 2**31 - 1
"""What every integer of Horovod can hold."""


class Horovod(PlainFramework):
    """Horovod over MPI, or over gloo where horovodrun starts it."""

    name = "horovod"
    section: type[Model] = HorovodSection

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield unknown knobs, values of the wrong type or range, knobs without their partner."""
        yield from super().problems(experiment)
        section = section_of(HorovodSection, experiment, self.name)
        for knob in (*KNOBS, *LIMITS):
            value = getattr(section, knob.key)
            if value not in (None, ""):
                yield from _knob_problems(knob, value, ("horovod", knob.key), section)
        yield from _of_horovodrun(section)
        if section.elastic:
            yield from _elastic_problems(section)

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU, which is number ``hvd.local_rank()``; only horovodrun supports gloo."""
        section = section_of(HorovodSection, experiment, self.name)
        if section.elastic:
            return Topology(
                task="gpu",
                gpu_visibility="node",
                launchers=("horovodrun-elastic",),
                elastic=True,
                required_by="horovod.elastic",
            )
        if section.controller == "gloo":
            return Topology(
                task="gpu", gpu_visibility="node", launchers=("horovodrun",), required_by="horovod.controller"
            )
        return Topology(
            task="gpu", gpu_visibility="node", needs_mpi=True, allows_non_mpi=section.controller != "mpi"
        )

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> tuple[Word, ...]:
        """Return the bounds of an elastic run; they follow the launcher's words.

        Raises:
            PlanError: where they do not fit what is allocated.
        """
        section = section_of(HorovodSection, experiment, self.name)
        if not section.elastic:
            return ()
        _check_elastic(section.elastic, job)
        return tuple(_elastic_words(job, section, site))

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return ``HOROVOD_*`` for the knobs of the file, and the time that horovodrun has to start."""
        del site
        section, origin = section_of(HorovodSection, experiment, self.name), Origin("framework", "horovod")
        knobs = [_variable(knob, getattr(section, knob.key)) for knob in (*KNOBS, *LIMITS, *OPPOSITES)]
        if job.launch.launcher.startswith("horovodrun") and section.start_timeout is None:
            knobs.append(Variable(name="HOROVOD_START_TIMEOUT", value=START_TIMEOUT, origin=origin))
        return (*filter(None, knobs), *(threads(job, origin) if section.elastic else ()))

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield warnings for horovodrun's time limit without horovodrun, and for elastic ranks.

        ssh starts these, so they see the GPUs of other jobs.
        """
        del site
        launcher = job.launch.launcher  # `once` may be a horovodrun in the command
        is_limited = launcher == "once" or launcher.startswith("horovodrun")
        if section_of(HorovodSection, experiment, self.name).start_timeout is not None and not is_limited:
            message = "start_timeout has no effect: only horovodrun has it, which does not start this job"
            yield warning(message, ("horovod", "start_timeout"))
        if (
            job.completion.elastic
            and any(group.gpus for group in job.placement.groups)
            and not job.request.exclusive
        ):
            yield warning(
                "an elastic run reaches its nodes by ssh and sees all their GPUs, also other jobs' GPUs; "
                "write `batch: {exclusive: true}`"
            )


def _of_horovodrun(section: Any) -> Iterator[Problem]:
    """Yield the problems of arguments of horovodrun that set no variable, or turn a knob off."""
    for key, (_, message, hint) in WITHOUT_EFFECT.items():
        if getattr(section, key) is not None:
            yield warning(f"{key} {message}", ("horovod", key), hint)
    if section.elastic_timeout is not None and section.elastic_timeout < 1:
        yield Problem(f"{section.elastic_timeout} is below 1", ("horovod", "elastic_timeout"))
    if section.elastic_timeout is not None and not section.elastic:
        yield warning("elastic_timeout has no effect without `elastic`", ("horovod", "elastic_timeout"))
    for opposite in OPPOSITES:
        knob = next(knob for knob in KNOBS if knob.variable == opposite.variable)
        if None not in (getattr(section, opposite.key), getattr(section, knob.key)):
            yield Problem(f"it sets what {knob.key!r} sets", ("horovod", opposite.key), "remove one of them")


def _knob_problems(knob: Knob, value: Any, path: Path, section: Any) -> Iterator[Problem]:
    if knob.choices and value not in knob.choices:
        yield Problem(f"{value!r} is not a valid value", path, did_you_mean(value.upper(), knob.choices))
    elif knob.kind in {"integer", "number"} and not value >= 0:
        yield Problem(f"{value} is below 0" if value < 0 else f"{value} is no number", path)
    elif value == float("inf"):
        yield Problem(f"{value} is no number", path)
    elif knob.maximum is not None and value > knob.maximum:
        yield Problem(f"{value} is above {knob.maximum}", path)
    elif knob.kind == "integer" and value > _MOST:
        yield Problem(f"{value} is above {_MOST}", path)
    elif knob.needs and not getattr(section, knob.needs):
        yield Problem(f"it counts only with {knob.needs!r}", path, f"add `{knob.needs}`")


def _elastic_problems(section: Any) -> Iterator[Problem]:
    elastic: Elastic = section.elastic
    if section.controller == "mpi":
        yield Problem("an elastic run meets over gloo", ("horovod", "controller"), "write gloo, or nothing")
    for key in ("min_np", "max_np", "reset_limit", "slots_per_host"):
        number = getattr(elastic, key)
        if number is not None and number < 1:
            yield Problem(f"{number} is below 1", ("horovod", "elastic", key))
    if elastic.max_np is not None and elastic.max_np < elastic.min_np:
        message = f"{elastic.max_np} is below min_np, {elastic.min_np}"
        yield Problem(message, ("horovod", "elastic", "max_np"))


def _check_elastic(elastic: Elastic, job: JobSpec) -> None:
    """Check that the placement has the processes of an elastic run, on nodes of one kind.

    Raises:
        PlanError: if it has not.
    """
    size = job.placement.size
    for key, number in (("min_np", elastic.min_np), ("max_np", elastic.max_np)):
        if number is not None and number > size:
            hint = "ask for more replicas, or write less"
            path = ("horovod", "elastic", key)
            raise PlanError(Problem(f"{number} processes are wanted, {size} are allocated", path, hint))
    if len(job.placement.groups) > 1:
        message = "its nodes are of several kinds, and Slurm ends such a job when it loses one"
        raise PlanError(Problem(message, ("horovod", "elastic"), "give all replicas the same resources"))
    on_each = {tasks for _, tasks in job.placement.tasks_per_node()}
    if elastic.slots_per_host is not None and on_each != {elastic.slots_per_host}:
        message = f"the plan has {', '.join(map(str, sorted(on_each)))} processes a node"
        path = ("horovod", "elastic", "slots_per_host")
        raise PlanError(
            Problem(message, path, "write `replicas: {per_node: N}` that give so many, or remove it")
        )


def _elastic_words(job: JobSpec, section: Any, site: Site) -> Iterator[Word]:
    """Yield the options of horovodrun for an elastic run, and what it starts."""
    elastic: Elastic = section.elastic
    # All slots up to --max-np are used whatever -np says; more would only be waited for.
    options = {"-np": ("min_np", elastic.min_np), "--min-np": ("min_np", elastic.min_np)}
    options |= {"--max-np": ("max_np", elastic.max_np or job.placement.size)}
    options |= {"--reset-limit": ("reset_limit", elastic.reset_limit)} if elastic.reset_limit else {}
    for option, (key, number) in options.items():
        yield from _words(option, number, Origin("key", f"horovod.elastic.{key}"))
    # The wait for further nodes, which an allocation never gets; its default is 600 s.
    given = section.elastic_timeout
    origin = (
        Origin("key", "horovod.elastic_timeout") if given else Origin("rule", "a job gets no further nodes")
    )
    yield from _words("--elastic-timeout", given or 60, origin)
    # With one host, horovodrun cannot determine a common interface.
    if job.placement.nodes == 1:
        yield from _words("--network-interfaces", "lo", Origin("rule", "one node"))
    else:
        yield from _own_interface(job, site)
    rank = '"${HPCDIST_PYTHON:-python3}" -ISB "$HPCDIST_RUN_DIR/runtime/elastic.py" rank'
    yield Word.raw(rank, Origin("task wrapper"))


def _own_interface(job: JobSpec, site: Site) -> Iterator[Word]:
    interface, key = site.interface_of(job.facts.node_types)
    if interface:
        yield from _words("--network-interfaces", interface, Origin("site", site.name, key))


def _words(option: str, value: object, origin: Origin) -> Iterator[Word]:
    yield Word(text=option, origin=origin)
    yield Word(text=str(value), origin=origin)


def _variable(knob: Knob, value: Any) -> Variable | None:
    origin = Origin("key", f"horovod.{knob.key}")
    if knob.kind == "file" and value not in {None, "DYNAMIC"} and not value.startswith("/"):
        return Variable.filled(knob.variable, template(OUTPUTS, f"/{value}"), origin)
    text = None if value is None else _text(knob, value)
    return None if text is None else Variable(name=knob.variable, value=text, origin=origin)


def _text(knob: Knob, value: Any) -> str | None:
    if knob.kind == "flag":
        return knob.on if value else knob.off
    return str(value * knob.scale) if knob.kind == "integer" else str(value)


HOROVOD = Horovod()
