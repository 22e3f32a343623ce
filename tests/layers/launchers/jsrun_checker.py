"""jsrun as its documentation has it: it refuses wrong lines, and tells where right ones put their tasks.

There is no open implementation of IBM's Job Step Manager. Sources: the Summit user guide
(https://docs.olcf.ornl.gov/systems/summit_user_guide.html), IBM's pages of jsrun and of its resource files
(https://www.ibm.com/support/knowledgecenter/en/SSWRJV_10.1.0/jsm/jsrun.html, .../jsm/erf_format.html), and
lines that real programs gave to it; where an error's text is known, it is that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.layers.launchers.jsrun_erf import Machine, Placed, RefusedError, Set, erf


@dataclass(frozen=True)
class Step:
    """What a line means: its tasks, its program, and the variables that it adds."""

    tasks: tuple[Placed, ...]
    program: tuple[str, ...]
    variables: Mapping[str, str | None]


_SHORT: Final = {
    "n": "nrs", "a": "tasks_per_rs", "p": "np", "c": "cpu_per_rs", "g": "gpu_per_rs", "r": "rs_per_host",
    "K": "rs_per_socket", "m": "memory_per_rs", "d": "launch_distribution", "b": "bind",
    "l": "latency_priority", "E": "env", "D": "env_no_propagate", "F": "env_eval", "M": "smpiargs",
    "o": "stdio_stdout", "k": "stdio_stderr", "e": "stdio_mode", "t": "stdio_input", "I": "stdin_rank",
    "h": "chdir", "i": "immediate", "X": "exit_on_error", "f": "appfile", "U": "use_resources",
    "S": "save_resources", "A": "allocate_only", "J": "use_reservation", "H": "launch_node_task",
    "L": "use_spindle", "P": "pre_post_exec", "x": "exclude_hosts", "Z": "progress",
}  # fmt: skip
_LONG: Final = frozenset({*_SHORT.values(), "erf_input", "erf_output", "erf_output_pidx", "print_placement"})
_BARE: Final = frozenset({"immediate"})
_REPEATED: Final = frozenset({"env", "env_no_propagate", "env_eval"})
_UNMODELLED: Final = frozenset(
    {"appfile", "use_resources", "allocate_only", "use_reservation", "exclude_hosts", "rs_per_socket"}
)
_SHAPE: Final = ("nrs", "tasks_per_rs", "np", "cpu_per_rs", "gpu_per_rs", "rs_per_host")
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_FORMS: Final = {
    "nrs": r"[1-9]\d*|ALL_HOSTS",
    "tasks_per_rs": r"[1-9]\d*",
    "np": r"[1-9]\d*",
    "cpu_per_rs": r"[1-9]\d*|ALL_CPUS",
    "gpu_per_rs": r"\d+|ALL_GPUS",
    "rs_per_host": r"[1-9]\d*",
    "memory_per_rs": r"[1-9]\d*",
    "launch_distribution": r"packed|cyclic|plane:[1-9]\d*",
    "bind": r"none|rs|(?:proportional-)?packed:(?:smt:)?[1-9]\d*",
    "latency_priority": r"(?:(?:gpu-cpu|cpu-mem|cpu-cpu|gpu-gpu)(?:,(?!$)|$))+",
    "env": rf"{_NAME}(?:=(?s:.*))?",
    "env_no_propagate": _NAME,
    "env_eval": rf"{_NAME}=(?s:.*)",
    "smpiargs": r"off|none|-\S+(?: \S+)*",
    "stdio_mode": r"individual|collected|prepended",
    "exit_on_error": r"[01]",
    "chdir": r".+",
}


def read(argv: Sequence[str]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the options by their long names, and the program with its arguments."""
    options: dict[str, list[str]] = {}
    words = list(argv[1:])
    while words and words[0].startswith("-"):
        name, value = _option(words)
        if name in options and name not in _REPEATED:
            raise RefusedError(f"--{name} is given twice")
        form = _FORMS.get(name)
        if form and not re.fullmatch(form, value):
            raise RefusedError(f"--{name} cannot be {value!r}")
        options.setdefault(name, []).append(value)
    if not words:
        raise RefusedError("there is no program")
    return options, tuple(words)


def _option(words: list[str]) -> tuple[str, str]:
    """Take one option and its value from the words."""
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if name not in _LONG:
            raise RefusedError(f"unknown option --{name}")
        attached = value if equals else None
    else:
        name, attached = _SHORT.get(word[1:2], ""), word[2:] or None
        if not name:
            raise RefusedError(f"unknown option {word}")
    if name in _BARE:
        if attached is not None:
            raise RefusedError(f"--{name} takes no value")
        return name, ""
    if attached is None and name == "smpiargs":
        raise RefusedError("--smpiargs and its value are one word")
    if attached is None and (not words or words[0].startswith("-")):
        raise RefusedError(f"--{name} has no value")
    return name, attached if attached is not None else words.pop(0)


def check(
    argv: Sequence[str],
    machine: Machine | None = None,
    environment: Mapping[str, str] | None = None,
    file: Callable[[str], str] | None = None,
) -> Step:
    """Return what a line means on these hosts.

    Raises:
        RefusedError: where jsrun would not take it, or where it would warn of what nobody wants.
    """
    machine = machine or Machine()
    options, program = read(argv)
    if environment is not None and not environment.get("LSB_JOBID"):
        raise RefusedError("jsrun runs in a job only: there is no LSB_JOBID")
    for name in _UNMODELLED & set(options):
        raise RefusedError(f"--{name} is not for a generated line")
    one = {name: values[-1] for name, values in options.items()}
    variables: dict[str, str | None] = {}
    for text in options.get("env", ()):
        name, equals, value = text.partition("=")
        variables[name] = value if equals else None
    if "erf_input" in one:
        if beside := [name for name in (*_SHAPE, "bind") if name in one]:
            raise RefusedError(f"--erf_input and --{beside[0]} contradict each other")
        assert file is not None
        return Step(erf(file(one["erf_input"]), machine), program, variables)
    sets, tasks = _sets(one, machine)
    return Step(_placed(one, machine, sets, tasks), program, variables)


def _sets(one: Mapping[str, str], machine: Machine) -> tuple[list[Set], int]:
    """Return the resource sets, and how many tasks each has."""
    hosts = len(machine.hosts)
    cores = machine.cores if one.get("cpu_per_rs") == "ALL_CPUS" else int(one.get("cpu_per_rs", "1"))
    gpus = machine.gpus if one.get("gpu_per_rs") == "ALL_GPUS" else int(one.get("gpu_per_rs", "0"))
    if cores > machine.cores:
        raise RefusedError(f"a set of {cores} cores does not fit a host of {machine.cores}")
    if gpus > machine.gpus:
        raise RefusedError(f"a set of {gpus} GPUs does not fit a host of {machine.gpus}")
    most = min(machine.cores // cores, machine.gpus // gpus if gpus else machine.cores)
    per_host = int(one.get("rs_per_host", most))
    if per_host * cores > machine.cores:
        raise RefusedError(f"{per_host} sets of {cores} cores do not fit a host of {machine.cores}")
    if per_host * gpus > machine.gpus:
        raise RefusedError(f"{per_host} sets of {gpus} GPUs do not fit a host of {machine.gpus}")
    number = hosts if one.get("nrs") == "ALL_HOSTS" else int(one.get("nrs", per_host * hosts))
    if number > per_host * hosts:
        raise RefusedError(
            f"Error: nrs ({number}) should not be greater than rs_per_host ({per_host}) * number of servers "
            f"available ({hosts})."
        )
    return [_set(machine, index, per_host, cores, gpus) for index in range(number)], _tasks_of(one, number)


def _tasks_of(one: Mapping[str, str], number: int) -> int:
    tasks, total = one.get("tasks_per_rs"), one.get("np")
    if tasks is None and total is None:
        raise RefusedError("neither --tasks_per_rs nor --np says how many tasks there are")
    if tasks and total and int(tasks) * number != int(total):
        raise RefusedError(f"{number} sets of {tasks} tasks are not {total} tasks")
    if total and int(total) % number:
        raise RefusedError(f"{total} tasks cannot be divided by {number} sets")
    return int(tasks) if tasks else int(total or 0) // number


def _set(machine: Machine, index: int, per_host: int, cores: int, gpus: int) -> Set:
    """Return a set: its GPUs in order, and the lowest free cores, those of its GPU's socket first."""
    host, slot = divmod(index, per_host)
    free = list(range(machine.cores))
    taken: list[int] = []
    own: tuple[int, ...] = ()
    for number in range(slot + 1):
        own = tuple(range(number * gpus, (number + 1) * gpus))
        near = machine.cores_of(machine.socket_of_gpu(own[0])) if own else range(machine.cores)
        taken = sorted(
            [*(core for core in free if core in near), *(core for core in free if core not in near)][:cores]
        )
        free = [core for core in free if core not in taken]
    return Set(host, tuple(taken), own)


def _placed(one: Mapping[str, str], machine: Machine, sets: Sequence[Set], tasks: int) -> tuple[Placed, ...]:
    bind = one.get("bind", "packed:1")
    width = _width(bind, machine)
    if width and width * tasks > len(sets[0].cores):
        raise RefusedError(
            f"Warning: {tasks} tasks bound to {width} cores each are more than a set of {len(sets[0].cores)}"
        )
    order = _order(one.get("launch_distribution", "packed"), len(sets), tasks)
    local: dict[int, int] = {}
    found = []
    for rank, (number, slot) in enumerate(order):
        own = sets[number]
        cores = own.cores[slot * width : (slot + 1) * width] if width else own.cores
        if bind == "none":
            cores = tuple(range(machine.cores))
        found.append(Placed(rank, machine.hosts[own.host], local.setdefault(own.host, 0), cores, own.gpus))
        local[own.host] += 1
    return tuple(found)


def _width(bind: str, machine: Machine) -> int:
    """Return to how many cores each task is bound; 0 for all of its set."""
    if bind in ("none", "rs"):
        return 0
    number = int(bind.rpartition(":")[2])
    return -(-number // machine.threads) if ":smt:" in bind else number


def _order(distribution: str, sets: int, tasks: int) -> list[tuple[int, int]]:
    """Return for each rank its set, and its place in there."""
    plane = tasks if distribution == "packed" else int(distribution.partition(":")[2] or 1)
    places = [(number, slot) for number in range(sets) for slot in range(tasks)]
    return sorted(places, key=lambda place: (place[1] // plane, place[0], place[1]))
