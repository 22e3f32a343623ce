"""The section of Horovod: its knobs as a table, and the further arguments of horovodrun.

Source of the table: the arguments of horovodrun 0.28.1, each parsed by it and the variables read back.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import msgspec

from hpcdist.documents.fields import Model


class Knob(NamedTuple):
    """One key of the ``horovod:`` section and the variable it becomes.

    ``scale`` multiplies the value (MiB to bytes); a flag becomes ``on`` or ``off``; a file without ``/`` at
    its beginning lies among the run's outputs (but ``DYNAMIC`` is none: the program itself starts that
    timeline); ``needs`` is a knob without which horovodrun does not pass this one on; ``choices`` are all
    texts that it takes.
    """

    key: str
    variable: str
    kind: Literal["integer", "number", "flag", "text", "file"]
    scale: int = 1
    maximum: float | None = None
    on: str | None = "1"
    off: str | None = "0"
    needs: str | None = None
    choices: tuple[str, ...] = ()


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
    """A run that goes on when it loses nodes.

    ``min_np``: the fewest processes with which it goes on. ``max_np``: the most, by default all that are
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


Section: Final[Any] = msgspec.defstruct(
    "Section",
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
            **dict.fromkeys(("hosts", "hostfile"), "the job's own hosts are used"),
        },
        "__doc__": "The section of Horovod; its knobs have the names of horovodrun's arguments.\n\n"
        + "\n".join(
            f"``{knob.key}``: sets ``{knob.variable}``{_bounds(knob)}." for knob in (*KNOBS, *OPPOSITES)
        )
        + f"\n``start_timeout``: sets ``HOROVOD_START_TIMEOUT`` for horovodrun, {START_TIMEOUT} by default."
        + "\n``elastic_timeout``: the seconds for which an elastic run waits after a change, 60 by default."
        + "".join(f"\n``{key}``: {message}." for key, (_, message, _) in WITHOUT_EFFECT.items())
        + "\n``controller``: how processes connect; only horovodrun supports ``gloo``."
        + "\n``elastic``: a run that goes on when it loses nodes.",
    },
)
"""A field for each knob; ``controller``, ``elastic``."""
