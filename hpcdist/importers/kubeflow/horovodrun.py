"""The options of horovodrun in an MPIJob, as the settings of Horovod."""

from __future__ import annotations

from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.launch_lines import Line
from hpcdist.importers.reading import Reading
from hpcdist.layers.frameworks.horovod_section import KNOBS

_SWITCHES: Final = {
    "log_without_timestamp": ("log_with_timestamp", False),
    "log_hide_timestamp": ("log_with_timestamp", False),
    "no_log_hide_timestamp": ("log_with_timestamp", True),
}
"""Switches of horovodrun that are not named as the setting that they turn on, or off with ``no``."""


def put_options(read: Reading, line: Line, where: Path, tasks: int) -> None:
    """Put what the options of horovodrun set for Horovod, in a job of so many tasks."""
    kinds = {knob.key: knob.kind for knob in KNOBS}
    for name, value in line.knobs.items():
        key = name.replace("-", "_").replace("_num_proc", "_np")
        if key in ("gloo", "mpi"):
            read.put("horovod.controller", key, *where)
        elif value is None:
            plain = (key.removeprefix("no_"), not key.startswith("no_"))
            setting, is_on = _SWITCHES.get(key, plain)
            read.put(f"horovod.{setting}", is_on, *where)
        elif key in ("min_np", "max_np", "reset_limit"):
            number = _number(value, int)
            if key == "max_np" and isinstance(number, int) and number > tasks:
                why = f"{name} {number} has no effect: the job has {tasks} processes, and gets no more"
                read.warn(*where, why=why)
                number = tasks
            read.put(f"horovod.elastic.{key}", number, *where)
        else:
            number_of = {"integer": int, "number": float}.get(kinds[key], str)
            read.put(f"horovod.{key}", _number(value, number_of), *where)


def _number(value: str, number_of: type[int | float | str]) -> int | float | str:
    """Return the number, or the text for the model to refuse."""
    try:
        return number_of(value)
    except ValueError:
        return value
