"""What qsub takes behind its options, and what it takes in silence and reads as something else.

Sources, all of openpbs/openpbs: ``ecl_verify_values.c``, ``ck_job_name.c``, ``parse_at.c``,
``parse_equal.c``, ``set_resource.c`` and ``attr_resc_func.c`` (``decode_select``); ``cmds.h`` for the length
of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.errors import Path, Problem
from hpcdist.plan.values import Directive
from hpcdist.schedulers.directives import DirectiveSyntax

_LONGEST_LINE: Final = 4000
"""qsub reads 4094 characters of a line, and what follows as another line."""

_SHOWN: Final = 60

_WORD: Final = r"[!-\"$-+\--?A-~]+"
"""Visible characters but ``#``, ``@`` and the comma."""
_USER: Final = rf"{_WORD}(?:@{_WORD})?"
_USERS: Final = rf"{_USER}(?:, *{_USER})*"
_DATE: Final = r"(?:(?:(?:\d\d)?\d\d)?\d\d)?(?:\d\d)?\d{4}(?:\.\d\d)?"


class _Form(NamedTuple):
    """A regular expression, and what it is in words."""

    pattern: str
    words: str


_FORMS: Final[Mapping[str, _Form]] = {
    "-M": _Form(_USERS, "addresses such as me@example.org, with commas between them"),
    "-N": _Form(r"[A-Za-z0-9_+.-]{1,230}", "up to 230 letters, digits and -_+."),
    "-R": _Form("[oe]+", "o, e or oe"),
    "-W group_list": _Form(rf"(?!.*=){_USER}", "one group"),
    "-W run_count": _Form(r"\d+", "a number"),
    "-W umask": _Form("[0-7]{1,4}", "an octal number such as 027"),
    "-a": _Form(_DATE, "[[[[CC]YY]MM]DD]hhmm[.SS]"),
    "-c": _Form(r"[nscw]|[cw]=\d+", "n, s, c, w, c=MINUTES or w=MINUTES"),
    "-p": _Form(r"[+-]?0*(?:\d{1,3}|10[01]\d|102[0-3])|-0*1024", "a number from -1024 to 1023"),
    "-q": _Form(rf"{_USER}|@{_WORD}", "QUEUE or QUEUE@SERVER"),
    "-u": _Form(_USERS, "users, with commas between them"),
}  # fmt: skip
"""By flag; of ``-W umask`` what is no octal number is an error of the node only."""

_CHUNK: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9_./@-]+", re.ASCII)


def value_problems(syntax: DirectiveSyntax, lines: Sequence[Directive]) -> Iterator[Problem]:
    """Yield the values that qsub refuses or cuts, each with its field."""
    for line in lines:
        yield from _value_problems(line, line.value or "", syntax.path(line.flag))


def _value_problems(line: Directive, value: str, path: Path) -> Iterator[Problem]:
    form = _FORMS.get(line.flag)
    hint = f"it stands at {line.origin}"
    if form and not re.fullmatch(form.pattern, value, re.ASCII):
        yield Problem(f"{line.flag} of PBS takes {form.words}, not {_shown(value)}", path, hint)
    elif line.flag.startswith("-l ") and re.search(r"\s", value):
        yield Problem(f"{line.flag} of PBS takes no blanks: {_shown(value)}", path, hint)
    elif len(line.flag) + len(value) > _LONGEST_LINE:
        message = f"qsub reads lines of up to {_LONGEST_LINE} characters, {line.flag} has {len(value)}"
        yield Problem(message, path, "ask for fewer kinds of nodes" if line.flag == "-l select" else hint)


def _shown(value: str) -> str:
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"


def chunk_word_problem(words: Sequence[str]) -> str | None:
    """Say what is wrong with the ``name=value`` words of one chunk, None where nothing is.

    A ``+`` or ``:`` in a value begins another chunk or resource, a comma ends the whole request.
    """
    names = [word.partition("=")[0] for word in words]
    wrong = next((word for word in words if not _CHUNK.fullmatch(word)), None)
    if wrong is not None:
        return f"{wrong!r} is no resource of a chunk, and PBS has no other constraints"
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"a chunk names {twice} twice, which PBS refuses" if twice else None
