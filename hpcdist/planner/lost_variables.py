"""Warnings about what stands between the launcher and the program, and takes the variables of the task away.

Each task would then take itself for rank 0 of a world of its own, train alone and end well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.experiment.launch.bash_words import SimpleCommand, simple_commands, unquoted
from hpcdist.plan.model import PreparedJob


class _Loss(NamedTuple):
    """A program that starts another one without its variables.

    ``subcommands``: those that do, any if empty. ``by``: the options by which it does, always if empty;
    ``keeps``: those by which it does not. ``instead``: what to write.
    """

    subcommands: frozenset[str] = frozenset()
    by: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    instead: str = ""


def _leaves(*by: str, subcommands: tuple[str, ...] = ()) -> _Loss:
    return _Loss(frozenset(subcommands), by=frozenset(by), instead="leave the option out")


_AS_YOURSELF: Final = "let the program run as yourself"
_ON_NODES: Final = "let hpcdist start the program on each node"
_IMAGE: Final = "name the image by `build: {image: ...}`, and hpcdist starts the container"
_SANDBOXES: Final = _leaves("-e", "--cleanenv", "-C", "--containall", subcommands=("exec", "run", "shell"))
_PODMAN: Final = _Loss(
    frozenset({"run", "exec"}), keeps=frozenset({"--env-host"}), instead="add `--env-host`"
)
_LOSSES: Final = {
    "env": _leaves("-", "-i", "--ignore-environment"),
    "exec": _leaves("-c", "-cl", "-lc"),
    "setpriv": _leaves("--reset-env"),
    "su": _leaves("-", "-l", "--login"),
    "apptainer": _SANDBOXES,
    "singularity": _SANDBOXES,
    "docker": _Loss(frozenset({"run", "exec"}), instead=_IMAGE),
    "podman": _PODMAN,
    "podman-hpc": _PODMAN,
    "udocker": _Loss(frozenset({"run"}), keeps=frozenset({"--hostenv"}), instead="add `--hostenv`"),
    "enroot": _Loss(frozenset({"start"}), keeps=frozenset({"-c", "--conf"}), instead=_IMAGE),
    "ch-run": _leaves("--unset-env"),
    "bwrap": _leaves("--clearenv"),
    "nix-shell": _leaves("--pure"),
    "nix": _leaves("-i", "--ignore-environment", "--ignore-env", subcommands=("develop", "shell")),
    "guix": _leaves("--pure", "-C", "--container", subcommands=("shell", "environment")),
    "pixi": _leaves("--clean-env", subcommands=("run",)),
    "tox": _Loss(instead="leave it out"),
    "sudo": _Loss(keeps=frozenset({"-E", "--preserve-env"}), instead=_AS_YOURSELF),
    "doas": _Loss(instead=_AS_YOURSELF),
    "systemd-run": _Loss(instead="leave it out"),
    "ssh": _Loss(instead=_ON_NODES),
    "pdsh": _Loss(instead=_ON_NODES),
}
"""By the manuals: env(1), bash(1), setpriv(1), su(1), apptainer-exec(1), docker-run(1), podman-run(1),
udocker(1), enroot's start.md, ch-run(1), bwrap(1), nix(1), guix-shell(1), pixi-run, tox's pass_env, sudo(8),
doas(1), systemd-run(1), ssh(1), pdsh(1). conda, uv and the like, sarus and shifter keep them."""


def advice(job: PreparedJob) -> Iterator[str]:
    """Yield a warning for each such part of the command, where several tasks run it."""
    if job.launch.mode != "tasks" or job.placement.size < 2:  # noqa: PLR2004 - one task has no others
        return
    for command in simple_commands(job.identity.command):
        for shown, instead in _losses(command):
            yield (
                f"`{shown}` starts the program without the variables of its task, so that each of the "
                f"{job.placement.size} tasks would train alone; {instead}"
            )


def _losses(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield what to show of each part that loses the variables, and what to write instead."""
    before = [unquoted(word) for word in command.before]
    words = [unquoted(word) for word in command.words]
    for at, word in enumerate(before):
        yield from _loss_of(word, before[at + 1 :])
    if words:
        yield from _loss_of(words[0], words[1:])


def _loss_of(word: str, rest: Sequence[str]) -> Iterator[tuple[str, str]]:
    name = word.rsplit("/", 1)[-1]
    loss = _LOSSES.get(name)
    subcommand = rest[:1] if loss and loss.subcommands else ()
    if loss and (not loss.subcommands or loss.subcommands.intersection(subcommand)):
        options = {*_options(rest[len(subcommand) :])}
        found = sorted(options & loss.by)
        if (found or not loss.by) and not options & loss.keeps:
            yield " ".join((name, *subcommand, *found)), loss.instead


def _options(words: Sequence[str]) -> Iterator[str]:
    """Yield the options in front of what is started; the word behind one may be its value."""
    for last, word in pairwise(("", *words)):
        if word.startswith("-"):
            yield word.partition("=")[0]
        elif not last.startswith("-"):
            return
