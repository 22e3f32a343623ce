"""Stands in for gradient-utils of Paperspace Gradient, whose programs then record in files.

    from gradient_utils.metrics import add_metrics

    add_metrics({"loss": 0.25}, step=1)

Only what Gradient's pages show is here; anything else is an error that names it. Where gradient-utils is
installed, it is used.
"""

import os
import time
from typing import Any, Dict, List, Optional

import hpcdist_tracking
from hpcdist_tracking import log_metrics, step_aside

__all__ = ["MetricsLogger", "add_metrics", "init"]
__path__: List[str] = []


class init:  # noqa: N801 - the name of a function of Gradient, whose value is used by `with`
    """Begin to record; TensorBoard's files in the outputs are read without being asked for."""

    def __init__(self, sync_tensorboard: bool = False) -> None:
        del sync_tensorboard

    def finish(self, *_: Any) -> None:
        """End."""

    def __enter__(self) -> "init":
        """Return itself."""
        return self

    __exit__ = finish


def add_metrics(metrics_map: Dict[str, float], step: Optional[int] = None, timeout: int = 30) -> None:
    """Record numbers at a step."""
    del timeout
    log_metrics(metrics_map, step=step)


class _Metric:
    """A metric of Prometheus, which is recorded when it is pushed."""

    def __init__(self, name: str, kind: str) -> None:
        self.values: Dict[str, float] = {} if kind in ("summary", "info") else {name: 0.0}
        self._name = name

    def set(self, value: float) -> None:
        """Set it."""
        self.values[self._name] = value

    def set_to_current_time(self) -> None:
        """Set it to the seconds since 1970."""
        self.set(time.time())

    def inc(self, amount: float = 1) -> None:
        """Add to it."""
        self.set(self.values[self._name] + amount)

    def dec(self, amount: float = 1) -> None:
        """Subtract from it."""
        self.inc(-amount)

    def observe(self, amount: float) -> None:
        """Add to what Prometheus keeps of a summary or a histogram: a sum, and a count."""
        for name, more in (("_sum", amount), ("_count", 1)):
            self.values[self._name + name] = self.values.get(self._name + name, 0) + more

    def info(self, values: Dict[str, str]) -> None:
        """Record texts, which are params here."""
        hpcdist_tracking.log_params(values)


class MetricsLogger:
    """Metrics that are recorded together."""

    def __init__(self, *_: Any, step: Optional[int] = None, **__: Any) -> None:
        self._step = step
        self._metrics: Dict[str, _Metric] = {}

    def __getitem__(self, name: str) -> _Metric:
        """Return a metric that was added."""
        return self._metrics[name]

    def __setitem__(self, name: str, value: float) -> None:
        """Set a metric, as an example of Gradient does."""
        self._metrics[name].set(value)

    def set_step(self, step: int) -> None:
        """Set the step of what is recorded next."""
        self._step = step

    def add_gauge(self, name: str) -> None:
        """Add a number that goes up and down."""
        self._metrics[name] = _Metric(name, "gauge")

    def add_counter(self, name: str) -> None:
        """Add a number that goes up."""
        self._metrics[name] = _Metric(name, "counter")

    def add_summary(self, name: str) -> None:
        """Add a metric of which a sum and a count are recorded."""
        self._metrics[name] = _Metric(name, "summary")

    add_histogram = add_info = add_summary

    def push_metrics(self, timeout: int = 30) -> None:
        """Record all of them."""
        del timeout
        for metric in self._metrics.values():
            log_metrics(metric.values, step=self._step)


def get_tf_config() -> None:
    """Set ``TF_CONFIG``, which hpcdist has set."""


def job_name() -> Optional[str]:
    """Return the role of this task."""
    return os.environ.get("HPCDIST_ROLE")


def task_index() -> Optional[str]:
    """Return the index of this task among those of its role."""
    return os.environ.get("HPCDIST_INDEX")


def __getattr__(name: str) -> Any:
    """Refuse what is not here by its name."""
    if name.startswith("__"):
        raise AttributeError(name)
    reason = "needs gradient-utils itself: install it in the environment of the job"
    raise ImportError("gradient_utils.{} {}".format(name, reason))


step_aside(__name__, "metrics")
