"""What starts: the launch line, and in each task the words by which its shell becomes the program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from hpcdist.base.words import Raw, quote
from hpcdist.experiment.shell_words import START, pieces, unquoted
from hpcdist.plan.model import Plan
from hpcdist.plan.values import PROGRAM, TASK_WRAPPER, Word
from hpcdist.script.exports import WIDTH, end_of, on_few_lines, one_line

# --- The user's command as it stands in a task: its shell becomes the program, wherever that means the same
#
# A shell that stays next to a program keeps the batch system's signals from it.

_BUILTINS: Final = frozenset({
    ".", ":", "[", "((", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen",
    "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exit",
    "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local",
    "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "set", "shopt",
    "source", "suspend", "test", "times", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset",
    "wait",
})  # fmt: skip
"""What bash runs itself, so that nothing can take its place."""

_KEYWORDS: Final = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "function", "coproc", "time", "!", "]]", "in",
})  # fmt: skip
_STAYS: Final = frozenset({"alias", "exec", "return", "trap", "shift"})
"""What works only in a shell that stays, or in one that has a program's words."""

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_BETWEEN: Final = re.compile(r"\n+|;\n*|&&\n*|\|\|?\n*")


class _Simple(NamedTuple):
    """A simple command: where it starts, its words, and the operator in front of it."""

    start: int
    before: str
    words: tuple[str, ...]


def becoming(command: str) -> str | None:
    """Return the command with ``exec`` in front of its last simple command; None where a shell must stay.

    It stays for a pipe, a list that can fail over, a loop, a function, a trap, a here-document, a builtin.
    """
    found = _statements(command)
    if not found or any(not _is_plain(one) for one in found) or "|" in found[-1].before:
        return None
    last = found[-1]
    words = [*last.words]
    while words and _ASSIGNMENT.fullmatch(words[0]):
        del words[0]
    if not words or unquoted(words[0]) in _BUILTINS:
        return None
    before, own = command[: last.start], command[last.start :].strip()
    if own.endswith("\\"):
        return None
    return f"{before}exec {'env ' if words != [*last.words] else ''}{own}"


def is_single(command: str) -> bool:
    """Return whether the command is one simple command, without variables in front of it."""
    found = _statements(command)
    words = found[0].words if found else ()
    return len(found or ()) == 1 and becoming(command) is not None and not _ASSIGNMENT.fullmatch(words[0])


def indented(text: str) -> str:
    """Return lines indented as in a function, but unchanged where a word spans several lines."""
    goes_over = any("\n" in (piece["word"] or "") for piece in pieces(text + "\n"))
    return text if goes_over else "\n".join(f"  {line}".rstrip() for line in text.split("\n")).lstrip(" ")


def _is_plain(one: _Simple) -> bool:
    first = unquoted(one.words[0])
    return one.words[-1] == "]]" if first == "[[" else first not in _KEYWORDS and first not in _STAYS


def _statements(command: str) -> list[_Simple] | None:
    """Return the simple commands of a text that has nothing else; None for one that has."""
    found: list[_Simple] = []
    try:
        found.extend(_read(command))
    except ValueError:
        return None
    return found


def _read(command: str) -> Iterator[_Simple]:
    """Yield the simple commands of a text.

    Raises:
        ValueError: at anything else.
    """
    words: list[str] = []
    start, operator, between, before = 0, "", "", ""
    for piece in pieces(command + "\n"):
        text = piece[0]
        _check_piece(piece)
        if piece["end"] and not (text == "&" and before.endswith((">", "<"))):
            between += text
        elif piece["word"] or text == "&":
            if between:
                _check_between(between, is_first=not words)
                if words:
                    yield _Simple(start, operator, tuple(words))
                operator, words = between, []
            start = start if words else piece.start()
            words.append(text)
            between = ""
        before = text
    if between.strip("\n;"):
        raise ValueError(between)
    if words:
        yield _Simple(start, operator, tuple(words))


def _check_piece(piece: re.Match[str]) -> None:
    if piece["mark"] or (piece[0][0] in "'\"`" and not piece["word"]):
        raise ValueError(piece[0])


def _check_between(operator: str, *, is_first: bool) -> None:
    if operator.strip("\n") if is_first else not _BETWEEN.fullmatch(operator):
        raise ValueError(operator)


# --- What starts

_ENDS_BY_ITSELF: Final = frozenset({"srun", "flux", "processes"})
"""Launchers that do not take the place of the script's shell.

``srun`` ends its tasks at once when it gets TERM; Slurm signals them itself. The others are functions.
"""

_TELL_NO_FAILURE: Final = frozenset({"flux", "mpirun", "horovodrun-mpi", "hydra"})

ENTRYPOINT: Final = '"$@"'
"""Stands in a command for the words that start the entrypoint of an image."""

_SIGNALS: Final = "trap 'exit $(($? ? $? : 143))' TERM INT HUP\ntrap : USR1 USR2\n"
"""In front of commands whose shell stays: on a signal it waits for its program, and starts no other."""

_STAYING: Final = r'''"trap 'exit \$((\$? ? \$? : 143))' TERM INT HUP; trap : USR1 USR2; {}"'''
"""The same in one word, with a place for the commands."""

_TEXT: Final = '"$HPCDIST_PROGRAM"'
"""Commands that only the job knows: a trial's, or a user's with a shell in the job."""


RESOURCES: Final = re.compile(r"\$\((resources [^)]*)\)")
"""Stands in a word of jsrun for a file that the script writes before."""


class Starting:
    """What a plan's script starts.

    A task's shell stays next to the program, and passes signals on, only where it must (``forwards``).
    ``by_text``: its commands are in HPCDIST_PROGRAM. ``is_packed``: each task is a worker, which runs trials.
    ``leaves_files``: each required task leaves a file when it has ended well, as the launch has servers, too.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_tasks = plan.launch.mode == "tasks"
        self.launcher = plan.launch.launcher
        self.command = plan.identity.command.strip("\n")
        self.by_text = bool(plan.sweep or plan.shell)
        self.is_packed = bool(plan.sweep and plan.sweep.pack)
        self.leaves_files = plan.has_servers and not plan.role_launches and self.launcher != "processes"

    @property
    def uses_srun(self) -> bool:
        """Whether srun starts the tasks of the user's command; mpirun starts its own processes by srun."""
        by_mpi = re.search(r"\b(?:mpirun|mpiexec|orterun|prun|horovodrun|deepspeed)\b", self.command)
        return bool(re.search(r"\bsrun\b", self.command)) and not by_mpi

    @property
    def names_nodes(self) -> bool:
        """Whether the user's command, which runs in the shell of the script, has a variable ``nodes``."""
        return not self.in_tasks and bool(re.search(r"(?m)\$\{?nodes\b|(?:^|[\s;])nodes\+?=", self.command))

    @property
    def _prefix(self) -> tuple[Word, ...]:
        """The words between each task's shell and the program, without the command's placeholder."""
        return tuple(word for word in self.plan.task_words if word.text != PROGRAM)

    @cached_property
    def _entrypoint(self) -> list[str]:
        """The words that start the image's entrypoint, with a name for the shell whose arguments they are."""
        if not (self.plan.container and self.plan.container.entrypoint):
            return []
        return ["program", *map(text_of, self.plan.words[self.plan.words.index(TASK_WRAPPER) + 2 :])]

    @cached_property
    def _parts(self) -> tuple[str, list[str], str]:
        """What each task runs: lines, words in front of a command, and that command."""
        command, words = self.command, [*map(text_of, self._prefix)]
        if self.by_text:
            return self._started_by_text if START in command else self._parts_by_text
        if self._entrypoint:
            own = command.removeprefix(ENTRYPOINT)
            *starts, last = self._entrypoint[1:]
            return ("", [], command) if own == command else ("", starts, f"{last} {own.strip()}".strip())
        if START not in command:
            return "", words, command
        before, _, after = command.partition(START)
        own = after.removeprefix(" && ").strip("\n")
        around, inner = self._around_start
        if not around:
            return before, inner, own
        return "", around, f"{before}{' '.join(('exec', *inner, _as_words(own)))}"

    @property
    def _around_start(self) -> tuple[list[str], list[str]]:
        """The words in front of a command that starts its processes, and the words that start them in it."""
        place = [word.text for word in self.plan.task_words].index(PROGRAM)
        words = [*map(text_of, self._prefix)]
        return words[:place], words[place:]

    @property
    def _parts_by_text(self) -> tuple[str, list[str], str]:
        staying = f"HPCDIST_PROGRAM={_STAYING.format('$HPCDIST_PROGRAM')}\n"
        before = "" if is_single(self.command) else staying
        words = [] if self._entrypoint else [*map(text_of, self._prefix)]
        words += ["bash -c", _TEXT, *self._entrypoint]
        return before, words[:-1], words[-1]

    @property
    def _started_by_text(self) -> tuple[str, list[str], str]:
        """The parts where such a command is a text: it calls a function (in a container, of a bash in it)."""
        around, inner = self._around_start
        own = self.command.partition(START)[2].removeprefix(" && ").strip("\n")
        text = ('"{}"' if is_single(own) else _STAYING).format("${HPCDIST_PROGRAM# && }")
        lines = [
            f"HPCDIST_PROGRAM=${{HPCDIST_PROGRAM#*{START}}}",
            *wrapped(["exec", *inner, f"bash -c {text}"]),
        ]
        lines = lines if around else [_missing(inner[0]), *lines]
        called = "# shellcheck disable=SC2329 # the program calls it\n" * (not around)
        function = "\n".join([f"{called}{START}() {{", *(f"  {line}" for line in lines), "}\n"])
        calls = f"eval {_TEXT}"
        return ("", [*around, "bash -c"], quote(f"{function}{calls}")) if around else (function, [], calls)

    @property
    def before(self) -> Iterator[Raw]:
        """The lines of the command before it starts its processes, and a check of the starting program."""
        before, prefix, _ = self._parts
        yield from map(Raw, filter(None, before.split("\n")))
        if prefix and not self.plan.container and prefix[0] != "bash -c":
            yield Raw(_missing(prefix[0]))

    @cached_property
    def stays(self) -> bool:
        """Whether the commands need a shell, which the program cannot take the place of."""
        before, prefix, command = self._parts
        if self.by_text:
            return START not in self.command and prefix[0] == "bash -c" and not is_single(self.command)
        shares_shell = "$$" in before + command and (self.tells_failure or self.leaves_files)
        return not prefix and (shares_shell or becoming(before + command) is None)

    @cached_property
    def forwards(self) -> str:
        """Why a task's shell stays next to the program.

        ``processes`` of a torchrun, ``commands``, or the ``end`` that it records. A worker has no shell.
        """
        if self.is_packed:
            return ""
        if self.ignores_notices:
            return "processes"
        return "end" if self.leaves_files else "commands" if self.stays else ""

    @property
    def tells_failure(self) -> bool:
        """Whether a task's shell stays to report a failure: its launcher does not, or not always.

        Open MPI 4.1.4 was seen to name the task in one of three runs, MPICH 4.0 in none. These launchers
        signal the whole process group of a task, so that the program gets its signals as without a shell.
        """
        own = self.launcher in _TELL_NO_FAILURE and self.plan.completion.kill_on_failure
        return own and not self.is_packed

    @property
    def labels(self) -> bool:
        """Whether a task marks its lines."""
        return self.plan.launch.label_in_task or bool(self.plan.role_launches)

    @property
    def failure(self) -> Iterator[Raw]:
        """The lines that report it."""
        yield Raw("if ((code != 0)) && [[ ! $over ]]; then")
        aside = ">&5" if self.labels else ">&2"
        yield Raw(f'  echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" {aside}')
        if self.launcher == "flux":
            yield Raw("  sleep 1 # flux run drops what was said in the half second before")
        yield Raw("fi")

    @property
    def ignores_notices(self) -> bool:
        """Whether signals for the program's processes would kill the program that starts them."""
        told = self.plan.request.signal or self.plan.completion.restarts
        return bool(self.plan.launch.starts_processes and told)

    @property
    def commands(self) -> Raw | None:
        """The commands that a task gets as its argument; None where the task contains them."""
        _, prefix, command = self._parts
        if self.by_text:
            return Raw(self.command) if self.plan.shell else None
        if not self.in_tasks:
            alone = not self.plan.completion.elastic or is_single(self.command)
            return None if alone else Raw(_SIGNALS + self.command)
        if self.stays and self.forwards != "processes":
            return Raw(_SIGNALS + command)
        return Raw(_SIGNALS + command) if prefix and not is_single(command) else None

    @property
    def commands_quoted(self) -> Raw:
        """`commands` as one word, for a script that loses its empty lines."""
        return on_few_lines(str(self.commands))

    @property
    def keeps_empty_lines(self) -> bool:
        """Whether the script reaches the batch system with its empty lines."""
        return not self.plan.launch.components

    @property
    def commands_end(self) -> Raw:
        """The delimiter of their here-document."""
        return Raw(end_of(self.commands or ""))

    @property
    def forwarded(self) -> Raw:
        """What the shell that stays starts."""
        _, prefix, command = self._parts
        words = ["bash -c", self.argument, *self._entrypoint]
        if self.forwards == "processes":
            words = ["(trap '' USR1 USR2 &&", *self._whole, ")"]
        elif not self.stays:
            words = ["(", *self._whole, ")"] if prefix or self.by_text else [f"({becoming(command)})"]
        return Raw("\n  ".join(wrapped(words)))

    @property
    def _whole(self) -> list[str]:
        """The words by which a shell becomes the program."""
        _, prefix, command = self._parts
        if self.by_text:
            return ["exec", *prefix, command] if prefix else [command]
        return ["exec", *prefix, command if is_single(command) else f"bash -c {self.argument}"]

    @property
    def program(self) -> Iterator[Raw]:
        """The lines by which a task becomes the program."""
        before, prefix, command = self._parts
        if not prefix:
            text = indented(before + command if self.by_text else becoming(before + command) or "")
        else:
            text = indented("\n".join([*self.before, *wrapped(self._whole, "  ")]))
            if re.search(r"(?<!\w)'[^']*\$", " ".join(self._whole)):
                yield Raw("# shellcheck disable=SC2016 # what is behind expands it")
        yield Raw(text)

    @property
    def origins(self) -> Iterator[Raw]:
        """A line for each origin of the words that start the tasks, with these words."""
        for origin, words in groupby(self.plan.words, key=lambda word: word.origin):
            texts = ["the command" if word.text == PROGRAM else text_of(word) for word in words]
            if origin != TASK_WRAPPER.origin and any(texts):
                yield Raw(f"{one_line(' '.join(texts))}: {one_line(origin)}")

    @property
    def launch(self) -> Iterator[Raw]:
        """The lines that start the tasks."""
        if self.in_tasks:
            texts = [] if self.launcher in _ENDS_BY_ITSELF else ["exec"]
            words = [*texts, *self._launching(self.plan.launcher_words)]
            yield from map(Raw, wrapped(words, "  " if self.plan.shell else ""))
        elif self.plan.completion.elastic:
            is_one = is_single(self.command)
            stays = self.by_text and not is_one
            text = _STAYING.format("$HPCDIST_PROGRAM") if stays else self.argument
            own = self.command if is_one and not self.by_text else f"bash -c {text}"
            yield from map(Raw, wrapped(["exec", *map(text_of, self.plan.words[:-1]), own]))
        else:
            command = f"bash -c {_TEXT}" if self.by_text else self.command
            is_srun = self.command.lstrip().startswith("srun")
            yield Raw(command if is_srun else becoming(command) or command)

    @property
    def launches(self) -> Iterator[Raw]:
        """The lines of several launches: one for each role, or for each process of this machine."""
        for one in self.plan.role_launches:
            yield from map(Raw, wrapped(["begin", one.role, *self._launching(one.words, one.role)]))
        if self.leaves_files:
            yield from map(Raw, wrapped(["begin all", *self._launching(self.plan.launcher_words)]))
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
        """The roles that several launches wait for, as a pattern, and the number of their launches."""
        if self.leaves_files:
            return Raw("all|ended"), 1
        if not self.plan.has_servers:
            return Raw("all"), self.plan.placement.size
        launches = self.plan.role_launches or self.plan.placement.tasks
        roles = [one.role for one in launches if one.role in self.plan.completion.required_roles]
        return Raw("|".join(sorted({*roles}))), len(roles)

    def _launching(self, words: Sequence[Word], role: str = "") -> Iterator[str]:
        """Yield a launcher's words, and the words that start the tasks."""
        yield from (RESOURCES.sub("$erf", text_of(word)) for word in words)
        call = f"task {role}".strip()
        argument = '"$(declare -f trial); trial"' if self.is_packed else '"$commands"'
        if not self.is_packed and (self.by_text or self.commands is None):
            yield f'bash -c "$(declare -f task); {call}"'
        else:
            yield f'bash -c "$(declare -f task); {call} \\"\\$1\\"" task {argument}'

    @property
    def argument(self) -> Raw:
        """The word for a task's commands."""
        if self.by_text:
            return Raw(_TEXT)
        return Raw('"$commands"' if not self.in_tasks else '"$2"' if self.plan.role_launches else '"$1"')

    @property
    def shell(self) -> Raw:
        """The lines of what runs on the first node in place of the program; a command may be ``launch``."""
        start = ["exec"] if self.plan.shell[-1].shell else []
        return Raw("\n".join(wrapped([*start, *map(text_of, self.plan.shell)])))


def text_of(word: Word) -> str:
    """Return a word as it stands in a script."""
    return word.text if word.shell else quote(word.text)


def _missing(program: str) -> str:
    failure = f"there is no {program}; load its module, or activate the environment that has it"
    return f'type {program} >/dev/null 2>&1 || fail "{failure}"'


def _as_words(command: str) -> str:
    """Return a command as words behind a launcher."""
    return command if is_single(command) else f"bash -c {quote(command)}"


def wrapped(texts: Sequence[str], indent: str = "") -> Iterator[str]:
    """Yield a command on lines of at most 120 columns, with room for this indent."""
    line = ""
    for text in texts:
        if line and len(indent) + len(line) + len(text) + 3 > WIDTH:
            yield f"{line} \\"
            line = f"  {text}"
        else:
            line = f"{line} {text}" if line else text
    yield line
