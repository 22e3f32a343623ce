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


_IMAGE: Final = "name the image by `build: {image: ...}`, and hpcdist starts the container"
_SANDBOXES: Final = _Loss(
    frozenset({"exec", "run", "shell"}),
    by=frozenset({"-e", "--cleanenv", "-C", "--containall"}),
    instead="leave the option out",
)
_LOSSES: Final = {
    "env": _Loss(by=frozenset({"-", "-i", "--ignore-environment"}), instead="leave the option out"),
    "apptainer": _SANDBOXES,
    "singularity": _SANDBOXES,
    "docker": _Loss(frozenset({"run", "exec"}), instead=_IMAGE),
    "podman": _Loss(frozenset({"run", "exec"}), keeps=frozenset({"--env-host"}), instead="add `--env-host`"),
    "ch-run": _Loss(by=frozenset({"--unset-env"}), instead="leave the option out"),
    "bwrap": _Loss(by=frozenset({"--clearenv"}), instead="leave the option out"),
    "nix-shell": _Loss(by=frozenset({"--pure"}), instead="leave the option out"),
    "sudo": _Loss(keeps=frozenset({"-E", "--preserve-env"}), instead="let the program run as yourself"),
    "systemd-run": _Loss(instead="leave it out"),
    "ssh": _Loss(instead="let hpcdist start the program on each node"),
}
"""By the manuals: env(1), apptainer-exec(1), docker-run(1), podman-run(1), ch-run(1), bwrap(1), nix-shell(1),
sudo(8), systemd-run(1), ssh(1). conda, uv and the like, enroot and shifter keep them."""


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
