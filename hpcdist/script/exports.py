"""The variables of a plan as lines that export them, as many in a line as there is room for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count, groupby
from typing import Final

from hpcdist.base.words import VARIABLE_NAME, Raw, in_double_quotes, quote
from hpcdist.experiment.shell_words import simple_commands
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Variable
from hpcdist.schedulers import schedulers

# --- Lines: a plan's directives as lines of shell, and texts as parts of lines


def header(plan: Plan, run_dir: str | None, *, annotate: bool) -> list[Raw]:
    """Return the scheduler's directives, each below its origin if ``annotate`` is set."""
    lines = []
    for text, origin in schedulers.get(plan.identity.scheduler).header(plan, run_dir):
        lines += [Raw(f"# {one_line(origin)}")] if annotate else []
        lines.append(Raw(text))
    return lines


def on_few_lines(value: str) -> Raw:
    """Return a value as one word without empty lines: sbatch drops these from a heterogeneous job."""
    word = quote(value)
    return Raw(word.replace("\n", "'$'\\n''")) if "\n\n" in value else word


def end_of(text: str) -> str:
    """Return a here-document delimiter that is no line of this text."""
    lines = text.split("\n")
    return next(end for number in count() if (end := f"COMMAND{number or ''}") not in lines)


def one_line(text: object) -> str:
    """Return a text without its line breaks, for a comment."""
    return " ".join(str(text).split())


# --- The variables of a plan as lines that export them, as many in a line as there is room for

WIDTH: Final = 120
"""How long a line of a script is at most, apart from words that are longer."""

NAME: Final = re.compile(r"HPCDIST_RUN_DIR/(?:logs|runtime)|HPCDIST_[A-Z_]+")
"""A variable of ours, which the script must define where something names it."""

_PLAIN: Final = re.compile(r'["\w./${}~+-]+')
"""A word whose expansion runs nothing."""

_COMMENTS: Final = {
    "site": "# The settings of {0.site}{1}.",
    "framework": "# For {0.framework}.",
    "place": "# The experiment's own variables.",
}


class Exports:
    """The exports of a plan; ``annotate``: each alone in its line, with its origin.

    ``modules``: the folder of the run's modules of Python, as bash expands it; empty for none.

    Polyaxon's variables are not among them: the submission sets these.
    """

    def __init__(self, plan: Plan, *, modules: str, annotate: bool) -> None:
        self.plan = plan
        self.modules = modules
        self.annotate = annotate
        # A Python is linked with no library of an MPI, and its modules are not seen.
        self.programs = [*_programs(plan.identity.command)]
        shared = _own(plan.environment.variables)
        self.shared = [item for item in shared if item.links is None or self.programs]
        self.of_tasks = _own(plan.environment.task_variables)
        self.all = (*self.shared, *self.of_tasks)

    @property
    def early(self) -> Iterator[Raw]:
        """The exports of variables that name none of hpcdist's, with a comment above each origin's."""
        own = [item for item in self.shared if not NAME.search(item.value)]
        more = "" if self.annotate else "; `hpcdist render --annotate` shows where each comes from"
        for kind, items in groupby(own, key=lambda item: item.origin.kind):
            if kind in _COMMENTS:
                yield Raw(_COMMENTS[kind].format(self.plan.identity, more))
            yield from self._exports([*items])

    @property
    def late(self) -> Iterator[Raw]:
        """The exports of variables that name some of hpcdist's."""
        return self._exports([item for item in self.shared if NAME.search(item.value)])

    @property
    def names(self) -> Raw:
        """The names of the variables of all tasks, each behind a space."""
        return Raw("".join(f" {item.name}" for item in self.shared))

    @property
    def in_tasks(self) -> Iterator[Raw]:
        """The exports of the variables of each task."""
        for role, items in groupby(self.of_tasks, key=lambda item: item.role):
            lines = [*self._exports([*items], indent=30 if role else 2)]
            if not role:
                yield from lines
            elif len(lines) == 1:
                yield Raw(f"[[ $HPCDIST_ROLE != {quote(role)} ]] || {lines[0]}")
            else:
                yield Raw(f"if [[ $HPCDIST_ROLE == {quote(role)} ]]; then")
                yield from (Raw(f"  {line}") for line in lines)
                yield Raw("fi")

    def _exports(self, items: Sequence[Variable], indent: int = 0) -> Iterator[Raw]:
        """Yield lines that export these variables, as many in a line as there is room for."""
        for test, those in groupby(items, key=self._test):
            own = [*those]
            if not test:
                yield from self._on_lines([(item, self._value(item)) for item in own], indent)
                continue
            if "LD_LIBRARY_PATH" in test:
                yield Raw("# shellcheck disable=SC2086 # these are folders")
            yield Raw(test)
            yield from (Raw(f"  {line}") for line in self._on_lines([(i, self._value(i)) for i in own], 2))
            if others := [(item, quote(item.otherwise)) for item in own if item.otherwise is not None]:
                yield Raw("else")
                yield from (Raw(f"  {line}") for line in self._on_lines(others, 2))
            yield Raw("fi")

    def _on_lines(self, items: Sequence[tuple[Variable, str]], indent: int) -> Iterator[Raw]:
        line = ""
        for item, value in items:
            text = f"{item.name}={value}"
            # A value that bash expands may name another variable, set before.
            alone = self.annotate or "\n" in text or (item.shell and item.template is None)
            if line and (alone or len(line) + len(text) + indent >= WIDTH):
                yield Raw(line)
                line = ""
            if alone:
                yield Raw(f"export {text}" + (f"  # {one_line(item.origin)}" if self.annotate else ""))
            else:
                line = f"{line} {text}" if line else f"export {text}"
        if line:
            yield Raw(line)

    def _value(self, item: Variable) -> str:
        if not VARIABLE_NAME.fullmatch(item.name):
            raise ValueError(f"{item.name!r} is not a valid variable name")
        if item.template is None:
            value = f'"{item.value}"' if item.shell else _quoted(item.value)
            return f'{value}:"{self.modules}"' if self.modules and item.name == "PYTHONPATH" else value
        text = item.template.text("${{HPCDIST_PEERS_{}#,}}")
        return text if re.fullmatch(r"\$?[\w=]+", text) else f'"{text}"'

    def _test(self, item: Variable) -> str:
        """Return the line that tests whether a variable is set when the job runs; empty for always."""
        tests = []
        if item.links is not None:
            tests.append(f"{self._linked} 2>/dev/null | grep -q {quote(item.links)}")
        if item.found is not None and "/" in item.found:
            tests.append(f'compgen -G "{item.found}" >/dev/null')
        elif item.found is not None:
            found = f"find ${{LD_LIBRARY_PATH//:/ }} /dev/null -maxdepth 1 -name {quote(item.found)}"
            tests.append(f"{found} 2>/dev/null | grep -q .")
        return f"if {' && '.join(tests)}; then" if tests else ""

    @property
    def _linked(self) -> str:
        """The command that prints the libraries of the programs."""
        texts: list[str] = []
        for is_cd, group in groupby(self.programs, key=lambda word: word.startswith("cd ")):
            words = [*dict.fromkeys(group)]
            texts += words if is_cd else [f'type -P {" ".join(words)} | xargs -rd "\\n" ldd']
        return f"({'; '.join(texts)})" if len(texts) > 1 else f"{{ {texts[0]}; }}"


def _programs(command: str) -> Iterator[str]:
    """Yield the words of a command that may name a program, and its ``cd FOLDER`` between them."""
    for one in simple_commands(command):
        first, *others = one.words or ("",)
        if first == "cd" and len(others) == 1 and _PLAIN.fullmatch(others[0]):
            yield f"cd {others[0]}"
        elif first and not re.search(r"(?:^|/)python[\d.]*$", first):
            yield first
            yield from (word for word in others if "/" in word and _PLAIN.fullmatch(word))


def _own(variables: Sequence[Variable]) -> list[Variable]:
    return [item for item in variables if item.origin.kind != "polyaxon"]


def _quoted(value: str) -> str:
    """Return a value as one word, as people write it: between double quotes if it has a quote or a ``$``."""
    double = re.search(r"['$]", value) and "\n" not in value
    return f'"{in_double_quotes(value)}"' if double else on_few_lines(value)
