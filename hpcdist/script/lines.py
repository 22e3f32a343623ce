"""Lines: a plan's directives, variables and launch line as lines of shell, with their origins on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from hpcdist.plan.model import Plan
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import PROGRAM, Variable, Word
from hpcdist.schedulers import schedulers
from hpcdist.words import VARIABLE_NAME, Raw, quote


class Lines:
    """A plan's lines; ``annotate``: each with its origin as a comment."""

    def __init__(self, plan: Plan, *, annotate: bool) -> None:
        self.plan = plan
        self.annotate = annotate

    def header(self, run_dir: str | None) -> list[Raw]:
        """Return the scheduler's directives, each below its origin if ``annotate`` is set."""
        lines = []
        for text, origin in schedulers.get(self.plan.identity.scheduler).header(self.plan, run_dir):
            lines += [Raw(f"# {one_line(origin)}")] if self.annotate else []
            lines.append(Raw(text))
        return lines

    def annotated(self, word: Word) -> Raw:
        """Return a line of shell, followed by its origin if ``annotate`` is set."""
        comment = f"  # {one_line(word.origin)}" if self.annotate else ""
        return Raw(f"{word.text}{comment}")

    def exported(self, variable: Variable) -> Raw:
        """Return an export; an expression is for bash to expand, anything else is one quoted word."""
        if not VARIABLE_NAME.fullmatch(variable.name):
            raise ValueError(f"{variable.name!r} is not a valid variable name")
        value = f'"{variable.value}"' if variable.shell else on_few_lines(variable.value)
        comment = f"  # {one_line(variable.origin)}" if self.annotate and "\n" not in variable.value else ""
        only = f"[[ $HPCDIST_ROLE != {quote(variable.role)} ]] || " if variable.role else ""
        checks = [f'found "{variable.found}"'] if variable.found else []
        checks += [f'linked "{variable.links}" {variable.name}'] if variable.links else []
        if checks:
            only = "".join(f"! {check} || " for check in checks)
        if variable.otherwise is not None:
            otherwise = quote(variable.otherwise)
            return Raw(
                f"if {' && '.join(checks)}; then export {variable.name}={value}; "
                f"else export {variable.name}={otherwise}; fi{comment}"
            )
        return Raw(f"{only}export {variable.name}={value}{comment}")

    def steps(self) -> list[Raw]:
        """Return the words of each step, below its origin if ``annotate`` is set."""
        found = []
        for step in self.plan.steps:
            found += [Raw(f"# {one_line(step.origin)}")] if self.annotate else []
            found.append(Raw(f"{step.time} {step.on} {on_few_lines(step.command)}"))
        return found

    def launch_origins(self) -> list[Raw]:
        """Return a line for each origin of the launch line, with the words that have it."""
        return [
            Raw(f"{one_line(' '.join(word.text for word in words))}: {one_line(origin)}")
            for origin, words in groupby(self.plan.words, key=lambda word: word.origin)
        ]

    def launch_line(self) -> Raw:
        """Return the launch line, broken before the task wrapper and before the user's own command.

        A first word that is shell already is a function of the script, which cannot be ``exec``'d; all else
        is: a shell between the script and the program would end by a signal that the program handles.
        """
        words = self.plan.words
        return self._line(words[: self._first_of_trial] if self._is_packed else words)

    def trial_line(self) -> Raw | None:
        """Return what a worker of a packed search starts for each trial; None for other jobs."""
        return self._line(self.plan.words[self._first_of_trial :], execs=True) if self._is_packed else None

    def shell_line(self) -> Raw | None:
        """Return what runs in place of the program; None where the program does."""
        pieces = (Raw(word.text) if word.shell else quote(word.text) for word in self.plan.shell)
        return Raw(" ".join(pieces)) if self.plan.shell else None

    @property
    def _is_packed(self) -> bool:
        return bool(self.plan.sweep and self.plan.sweep.pack)

    @property
    def _first_of_trial(self) -> int:
        """The place of the first word behind the task wrapper."""
        return 1 + next(at for at, word in enumerate(self.plan.words) if word.origin.kind == "task wrapper")

    def _line(self, words: Sequence[Word], *, execs: bool = False) -> Raw:
        inside = Origin("container", self.plan.container.runtime) if self.plan.container else None
        is_function = words[0].shell and words[0].text != PROGRAM
        text = "" if is_function and not execs else "exec"
        wraps = False
        for word in words:
            piece = Raw(word.text) if word.shell else quote(word.text)
            starts = word.origin.kind == "task wrapper" or word.text == PROGRAM
            starts |= word.origin == inside and wraps
            wraps = word.origin.kind == "task wrapper" or word.text == PROGRAM
            text += f" \\\n    {piece}" if text and starts else f" {piece}" if text else piece
        return Raw(text)


def on_few_lines(value: str) -> Raw:
    """Return a value as one word without empty lines: sbatch leaves those out of a heterogeneous job."""
    word = quote(value)
    return Raw(word.replace("\n", "'$'\\n''")) if "\n\n" in value else word


def only_comments(words: Iterable[Word]) -> bool:
    """Whether these lines hold no command: bash has no empty functions."""
    lines = (line.strip() for word in words for line in word.text.splitlines())
    return all(not line or line.startswith("#") for line in lines)


def one_line(text: object) -> str:
    """Return a text without its line breaks, for a comment."""
    return " ".join(str(text).split())
