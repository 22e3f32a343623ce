"""What starts: the launch line, and in each task the words by which its shell becomes the program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final

from hpcdist.experiment.launch.setup_lines import START
from hpcdist.plan.model import Plan
from hpcdist.plan.values import PROGRAM, TASK_WRAPPER, Word
from hpcdist.script.exports import WIDTH
from hpcdist.script.lines import on_few_lines, one_line
from hpcdist.script.program import becoming, indented, is_single
from hpcdist.script.renderer import end_of
from hpcdist.words import Raw, quote

_ENDS_BY_ITSELF: Final = frozenset({"srun", "flux", "processes"})
"""Launchers that do not take the place of the script's shell.

``srun`` ends its tasks at once when it gets TERM; Slurm signals them itself. The others are functions.
"""

ENTRYPOINT: Final = '"$@"'
"""What a command has in place of the words that start the entrypoint of an image."""

_SIGNALS: Final = "trap 'exit $(($? ? $? : 143))' TERM INT HUP\ntrap : USR1 USR2\n"
"""In front of commands whose shell stays: on a signal it awaits its program, and starts no other."""


class Starting:
    """What a plan's script starts.

    A task's shell stays beside the program, and passes signals on, only where it must (``forwards``).
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_tasks = plan.launch.mode == "tasks"
        self.launcher = plan.launch.launcher

    @property
    def _prefix(self) -> tuple[Word, ...]:
        """The words between the task wrapper and the program, without those that read a command's file."""
        return tuple(word for word in self.plan.task_words if word.text != PROGRAM)

    @cached_property
    def _parts(self) -> tuple[str, list[str], str]:
        """What each task runs: lines, words in front of a command, and that command."""
        command = self.plan.identity.command.strip("\n")
        if self.plan.container and self.plan.container.entrypoint:
            *starts, last = map(_text_of, self.plan.words[self.plan.words.index(TASK_WRAPPER) + 2 :])
            return "", starts, f"{last} {command.removeprefix(ENTRYPOINT).strip()}".strip()
        words = [*self._prefix]
        if START not in command:
            return "", [*map(_text_of, words)], command
        before, _, after = command.partition(START)
        place = [word.text for word in self.plan.task_words].index(PROGRAM)
        around, inner = words[:place], words[place:]
        own = after.removeprefix(" && ").strip("\n")
        if not around:
            return before, [*map(_text_of, inner)], own
        started = " ".join(("exec", *map(_text_of, inner), _as_words(own)))
        return "", [*map(_text_of, around)], f"{before}{started}"

    @property
    def before(self) -> Iterator[Raw]:
        """The lines of the command in front of what starts its processes, which must be there then."""
        before, prefix, _ = self._parts
        yield from map(Raw, filter(None, before.split("\n")))
        if prefix and not self.plan.container:
            failure = f"there is no {prefix[0]}; load its module, or activate the environment that has it"
            yield Raw(f'type {prefix[0]} >/dev/null 2>&1 || fail "{failure}"')

    @cached_property
    def forwards(self) -> str:
        """What keeps a task's shell beside the program: ``processes`` of a torchrun, or ``commands``."""
        before, prefix, command = self._parts
        if self.plan.launch.starts_processes and (self.plan.request.signal or self.plan.completion.restarts):
            return "processes"
        return "" if prefix or becoming(before + command) is not None else "commands"

    @property
    def commands(self) -> Raw | None:
        """The commands that a task gets as its argument; None where they stand in it."""
        _, prefix, command = self._parts
        if not self.in_tasks or (self.forwards != "commands" and not (prefix and not is_single(command))):
            return None
        return Raw(_SIGNALS + command)

    @property
    def commands_quoted(self) -> Raw:
        """The same as one word, for a script that loses its empty lines."""
        return on_few_lines(str(self.commands))

    @property
    def keeps_empty_lines(self) -> bool:
        """Whether the script reaches the batch system with its empty lines."""
        return not self.plan.launch.components

    @property
    def commands_end(self) -> Raw:
        """The end of their here-document."""
        return Raw(end_of(self.commands or ""))

    @property
    def forwarded(self) -> Raw:
        """What the shell that stays starts."""
        if self.forwards == "processes":
            return Raw("\n  ".join(wrapped(["(trap '' USR1 USR2 && exec", *self._whole, ")"])))
        return Raw(f"bash -c {self.argument}")

    @property
    def _whole(self) -> list[str]:
        _, prefix, command = self._parts
        return [*prefix, command if is_single(command) else f"bash -c {self.argument}"]

    @property
    def program(self) -> Iterator[Raw]:
        """The lines by which a task becomes the program."""
        before, prefix, command = self._parts
        if not prefix:
            text = indented(becoming(before + command) or "")
        else:
            text = indented("\n".join([*self.before, *wrapped(["exec", *self._whole], "  ")]))
            if re.search(r"(?<!\w)'[^']*\$", text):
                yield Raw("# shellcheck disable=SC2016 # what is behind expands it")
        yield Raw(text)

    @property
    def origins(self) -> Iterator[Raw]:
        """A line for each origin of the words that start the tasks, with these words."""
        for origin, words in groupby(self.plan.words, key=lambda word: word.origin):
            texts = ["the command" if word.text == PROGRAM else _text_of(word) for word in words]
            if origin != TASK_WRAPPER.origin and any(texts):
                yield Raw(f"{one_line(' '.join(texts))}: {one_line(origin)}")

    @property
    def launch(self) -> Iterator[Raw]:
        """The lines that start the tasks."""
        if not self.in_tasks:
            command = self.plan.identity.command.strip("\n")
            yield Raw(command if command.lstrip().startswith("srun") else becoming(command) or command)
            return
        texts = [] if self.launcher in _ENDS_BY_ITSELF else ["exec"]
        yield from map(Raw, wrapped([*texts, *self._launching(self.plan.launcher_words)]))

    @property
    def launches(self) -> Iterator[Raw]:
        """The lines of several launches: one for each role, or for each process of this machine."""
        for one in self.plan.role_launches:
            yield from map(Raw, wrapped(["begin", one.role, *self._launching(one.words, one.role)]))
        if self.launcher == "processes":
            size, role = self.plan.placement.size, "all"
            if self.plan.has_servers:
                role = '"${roles[rank]}"'
                roles = " ".join(task.role for task in self.plan.placement.tasks)
                yield Raw(f"roles=({roles})")
            yield Raw(f"for ((rank = 0; rank < {size}; rank++)); do")
            place = f"HPCDIST_START_RANK=$rank HPCDIST_START_SIZE={size}"
            lines = wrapped([place, "begin", role, *self._launching(())], "  ")
            yield from (Raw(f"  {line}") for line in lines)
            yield Raw("done")

    @property
    def awaited(self) -> tuple[Raw, int]:
        """The roles whose end is the end of several launches, as a pattern, and their number of launches."""
        if not self.plan.has_servers:
            return Raw("all"), self.plan.placement.size
        launches = self.plan.role_launches or self.plan.placement.tasks
        roles = [one.role for one in launches if one.role in self.plan.completion.required_roles]
        return Raw("|".join(sorted({*roles}))), len(roles)

    def _launching(self, words: Sequence[Word], role: str = "") -> Iterator[str]:
        """Yield a launcher's words, and those that start the tasks."""
        yield from (_text_of(word) for word in words if word.plain != "")
        call = f"task {role}".strip()
        if self.commands is None:
            yield f'bash -c "$(declare -f task); {call}"'
        else:
            yield f'bash -c "$(declare -f task); {call} \\"\\$1\\"" task "$commands"'

    @property
    def argument(self) -> Raw:
        """What a task's commands are there."""
        return Raw('"$2"' if self.plan.role_launches else '"$1"')


def _text_of(word: Word) -> str:
    return word.in_plain if word.shell else quote(word.in_plain)


def _as_words(command: str) -> str:
    """Return a command as words behind a launcher."""
    return command if is_single(command) else f"bash -c {quote(command)}"


def wrapped(texts: Sequence[str], indent: str = "") -> Iterator[str]:
    """Yield a command on lines of at most 120 columns, each of them behind so much space."""
    line = ""
    for text in texts:
        if line and len(indent) + len(line) + len(text) + 3 > WIDTH:
            yield f"{line} \\"
            line = f"  {text}"
        else:
            line = f"{line} {text}" if line else text
    yield line
