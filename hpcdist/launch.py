"""Commands that are a launch already: the user's own mpirun, horovodrun, torchrun or srun line.

Such a command stays as it is: it runs once, on the head node, with the hostfile at ``$HPCDIST_HOSTFILE``;
torchrun and its like run once a replica, each on a node of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from hpcdist import launch_options
from hpcdist.bash_words import Simple, filled, known_values, simple_commands, unquoted
from hpcdist.launch_options import Option

MPI: Final = frozenset({
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "prterun", "mpirun.openmpi", "mpirun.mpich",
    "mpiexec.openmpi", "mpiexec.mpich",
})  # fmt: skip
"""The launchers of MPI libraries, which find a job's nodes by themselves where they were built for it."""
ONCE: Final = MPI | frozenset({
    "mpirun_rsh", "mpiexec_mpt", "horovodrun", "deepspeed", "colossalai run", "srun", "jsrun", "lrun",
    "aprun", "ibrun", "ccc_mprun", "flux run", "flux mini run",
})  # fmt: skip
PER_NODE: Final = frozenset({
    "torchrun", "torchrun_jsc", "torch.distributed.launch", "torch.distributed.run", "tune run",
    "accelerate launch", "fabric run", "msrun", "composer", "paddle.distributed.launch",
})  # fmt: skip
_TORCH: Final = frozenset({
    "torchrun", "torchrun_jsc", "torch.distributed.launch", "torch.distributed.run", "tune run",
})  # fmt: skip
_LONGEST: Final = 400
"""How long a line may be that is shown in a message."""
_NOTHING: Final[Mapping[int, str]] = MappingProxyType({})
_SAME: Final = {
    "deepspeed.pt": "deepspeed",
    "accelerate-launch": "accelerate launch",
    "fleetrun": "paddle.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "horovod.runner.launch": "horovodrun",
    "deepspeed.launcher.runner": "deepspeed",
    "lightning.fabric.cli": "fabric run",
    "lightning_fabric.cli": "fabric run",
    "colossalai.cli": "colossalai run",
    "mindspore.parallel.cluster.run": "msrun",
    "composer.cli.launcher": "composer",
    "lightning run": "fabric run",
    "lightning run model": "fabric run",
    "fabric run model": "fabric run",
}
"""Other names of launchers: of programs, of Python's modules, and of those with a command of their own."""
_VALUE_OF_PYTHON: Final = frozenset({"-W", "-X"})


class UserLaunch(NamedTuple):
    """A launch that the user wrote; ``tasks`` is its own count, None where it gives none.

    ``words`` are those of the line as they are written, behind those ``before``; ``head`` of them name the
    launcher. ``options`` count from there, and ``end`` is where its program begins.
    """

    program: str
    runs: Literal["once", "per_node"]
    tasks: int | None
    words: tuple[str, ...] = ()
    head: int = 1
    before: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    end: int = 0

    def says(self, *kinds: str) -> tuple[Option, ...]:
        """Return the options of these kinds."""
        return tuple(option for option in self.options if option.kind in kinds)

    @property
    def is_torch(self) -> bool:
        """Whether its options are those of torchrun."""
        return self.program in _TORCH

    def written(self, option: Option) -> str:
        """Return the name of an option as the user wrote it."""
        return self.words[self.head + option.start].partition("=")[0]

    def line(self, *add: str, without: Iterable[Option] = (), instead: Mapping[int, str] = _NOTHING) -> str:
        """Return the line with other options, its program's arguments shortened.

        ``instead`` are options by the place where those stood that they replace; ``add`` come behind.
        """
        dropped = {at: "" for option in without for at in range(option.start, option.end)} | {**instead}
        words = [dropped.get(at, word) for at, word in enumerate(self.words[self.head :])]
        line = [*self.before, *self.words[: self.head], *words[: self.end], *add, *_short(words[self.end :])]
        text = " ".join(filter(None, line))
        return text if len(text) <= _LONGEST else " ".join(["...", *instead.values(), *add, "..."])


SLOTS: Final = {
    **dict.fromkeys(("deepspeed", "horovodrun", "mpirun.openmpi", "mpiexec.openmpi"), "%s slots=%s"),
    **dict.fromkeys(("mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich", "mpirun_rsh"), "%s:%s"),
    "colossalai run": "%s%.0s",
}
"""A host and its number of tasks in the hostfile that a launcher reads, whatever the site's own reads.

Sources: deepspeed/launcher/runner.py, colossalai/cli/launcher/run.py, the user guide of MVAPICH.
"""
UNSEEN: Final = UserLaunch("the command", "once", None)
"""A launch that is only said to be one: ``backend: mpi``."""
_PLAIN: Final = re.compile(r"[^\s;&|<>]+")


def _short(words: Sequence[str]) -> list[str]:
    """Return a program with its first arguments."""
    most = 3
    return [*words[:most], *["..."] * (len(words) > most)]


def user_launch(command: str, env: Mapping[str, str] | None = None) -> UserLaunch | None:
    """Return the first launch of this command, None for an ordinary program."""
    return next(launches(command, env or {}), None)


def launches(command: str, env: Mapping[str, str]) -> Iterator[UserLaunch]:
    """Yield the launches that a command holds; ``env`` are the variables that are set beforehand."""
    return (launch for _, launch in launches_of(command, env) if launch)


def launches_of(command: str, env: Mapping[str, str]) -> list[tuple[Simple, UserLaunch | None]]:
    """Return the simple commands of a text, each with the launch that it is.

    Looked at is the first word of each, after variables, keywords, and ``time`` or its like; a variable whose
    value the command itself sets stands for it.
    """
    commands = list(simple_commands(command))
    known = known_values(commands, env)
    named = (item for simple in commands for item in _with_its_program(simple, known))
    return [(simple, _launch(simple, known)) for simple in named]


def _with_its_program(simple: Simple, known: Mapping[str, str]) -> Iterator[Simple]:
    """Yield a command; where its program is a variable (`$RUN python train.py`), what that holds."""
    first, *more = simple.words or ("",)
    if not (value := filled(unquoted(first), known)) or value == unquoted(first):
        yield simple
    else:
        yield from simple_commands(" ".join([value, *more]))


def _launch(simple: Simple, known: Mapping[str, str]) -> UserLaunch | None:
    texts = [filled(unquoted(word), known) for word in simple.words]
    program, head = _launcher(texts)
    if program not in ONCE and program not in PER_NODE:
        return None
    options, end = launch_options.read(program, texts[head:])
    every = program in PER_NODE or any(option.kind == "every" for option in options)
    count = None if every else _count(options, texts[head:])
    runs: Literal["once", "per_node"] = "per_node" if every else "once"
    return UserLaunch(program, runs, count, simple.words, head, simple.before, options, end)


def _launcher(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that begins there, and how many words name it."""
    if not words:
        return "", 0
    name = words[0].rsplit("/", 1)[-1]
    if name.startswith("python"):
        return _module(words)
    for count in (3, 2, 1):
        called = " ".join([name, *words[1:count]])
        called = _SAME.get(called, called)
        if len(words) >= count and (called in ONCE or called in PER_NODE):
            return called, count
    return "", 0


def _module(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that `python -m` starts."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            name = words[at + 1] if at + 1 < len(words) else ""
            name = _SAME.get(name, name)
            run = name in ("fabric run", "colossalai run") and words[at + 2 : at + 3] == ["run"]
            return (name, at + 2 + run) if name in ONCE or name in PER_NODE else ("", 0)
        if words[at] == "-c":
            return "", 0
        at += 2 if words[at] in _VALUE_OF_PYTHON else 1
    return "", 0


def _count(options: Iterable[Option], words: Sequence[str]) -> int | None:
    """Return the number of processes; that of several programs is not one number."""
    said = [option.value for option in options if option.kind == "np"]
    return int(said[0]) if said and said[0].isdecimal() and ":" not in words else None
