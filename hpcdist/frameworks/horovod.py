"""Horovod: its knobs as a table, and the variables that a direct launch must set.

Source of the table: the arguments of horovodrun 0.28.1, each parsed by it and the variables read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from hpcdist.errors import Problem, did_you_mean
from hpcdist.experiment import Experiment
from hpcdist.frameworks.mpi import Mpi
from hpcdist.plan import Plan, Variable


class Knob(NamedTuple):
    """One key of the ``horovod:`` section and the variable it becomes.

    ``scale`` multiplies the value (MiB to bytes); a flag becomes ``on`` or ``off``; ``needs`` is a knob
    without which horovodrun does not pass this one on; ``choices`` are all texts that it takes.
    """

    key: str
    variable: str
    kind: Literal["integer", "number", "flag", "text"]
    scale: int = 1
    maximum: float | None = None
    on: str = "1"
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
    Knob("autotune_log_file", "HOROVOD_AUTOTUNE_LOG", "text", needs="autotune"),
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
    Knob("timeline_filename", "HOROVOD_TIMELINE", "text"),
    Knob("timeline_mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "flag", needs="timeline_filename"),
    Knob("stall_check", "HOROVOD_STALL_CHECK_DISABLE", "flag", on="0", off="1"),
    Knob("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", "integer"),
    Knob("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "integer"),
    Knob("mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE", "flag"),
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
_BY_KEY: Final = {knob.key: knob for knob in KNOBS}
_WORDS: Final = {"integer": "a whole number", "number": "a number", "flag": "true or false", "text": "text"}


class Horovod(Mpi):
    """Horovod over MPI, or over gloo where horovodrun starts it."""

    name = "horovod"
    launcher: str | None = "horovodrun"

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield unknown knobs, values of the wrong type or range, knobs without their partner."""
        for key, value in experiment.horovod.items():
            knob = _BY_KEY.get(key)
            path = ("horovod", key)
            if knob is None:
                yield Problem(f"unknown key {key!r}", path, did_you_mean(key, _BY_KEY))
            elif not _is_of_kind(knob, value):
                yield Problem(f"expected {_WORDS[knob.kind]}, got {value!r}", path)
            elif knob.choices and value not in knob.choices:
                yield Problem(f"{value!r} is not known here", path, did_you_mean(value.upper(), knob.choices))
            elif knob.kind in {"integer", "number"} and value < 0:
                yield Problem(f"{value} is below 0", path)
            elif knob.maximum is not None and value > knob.maximum:
                yield Problem(f"{value} is above {knob.maximum}", path)
            elif knob.needs and not experiment.horovod.get(knob.needs):
                yield Problem(f"it counts only with {knob.needs!r}", path, f"add `{knob.needs}`")

    def variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return ``HOROVOD_*`` for the knobs that the file sets; an unset knob sets no variable."""
        del plan
        return tuple(_variables(experiment))


def _is_of_kind(knob: Knob, value: object) -> bool:
    if knob.kind == "flag":
        return isinstance(value, bool)
    if knob.kind == "text":
        return isinstance(value, str)
    numbers = int if knob.kind == "integer" else (int, float)
    return isinstance(value, numbers) and not isinstance(value, bool) and math.isfinite(value)


def _variables(experiment: Experiment) -> Iterator[Variable]:
    for key, value in experiment.horovod.items():
        knob = _BY_KEY[key]
        text = _text(knob, value)
        if text is not None:
            yield Variable(name=knob.variable, value=text, origin=f"horovod.{key}")


def _text(knob: Knob, value: object) -> str | None:
    if knob.kind == "flag":
        return knob.on if value else knob.off
    if isinstance(value, int) and knob.kind == "integer":
        return str(value * knob.scale)
    return str(float(value)) if isinstance(value, (int, float)) else str(value)


HOROVOD = Horovod()
