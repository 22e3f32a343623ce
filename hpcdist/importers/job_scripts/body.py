"""The body of a job script as statements: what bash runs one after the other.

`hpcdist.experiment.shell_words` reads the words; this module adds where each statement begins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpcdist.experiment.shell_words import assignments, pieces, simple_commands, unquoted

_ENDS: Final = {"if": "fi", "case": "esac", **dict.fromkeys(("for", "while", "until", "select"), "done")}
_BEFORE_COMMANDS: Final = frozenset({"then", "do", "else", "elif", "if", "while", "until", "!", "time"})
_REDIRECTION: Final = re.compile(r"(?:\d*|&)(?:>>?|<)(?:&|\|)?(?P<file>.*)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)
_KEYWORDS: Final = frozenset({"done", "fi", "esac", "for", "select", "case", "in", "function", "]]"})
_PATTERN: Final = re.compile(r"(?:(?<=;;)|(?<=\bin)|^)[ \t]*\n?\s*\(?[^()\n;]+\)(?=\s)", re.MULTILINE)
"""A pattern of a ``case``."""
SETTERS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_EXPORTS: Final = re.compile(r"(?:declare|typeset|readonly)\s+(?:-\w+\s+)*-\w*x")
_NAME: Final = re.compile(r"\$\{?#?!?(\w+)")


class PlacedWord(NamedTuple):
    """A word as it is written, and where it begins and ends in the body."""

    text: str
    start: int
    end: int


class ListCommand(NamedTuple):
    """A simple command of a statement, with the operator in front of it: ``&&``, ``||``, ``|`` or none."""

    operator: str
    words: list[PlacedWord]


class Statement(NamedTuple):
    """A command, a comment, or a compound command such as a loop; ``line`` counts from 0 in the body."""

    text: str
    line: int
    parts: tuple[ListCommand, ...] = ()
    compound: str = ""
    """The word that begins a compound command: ``for``, ``if``, ``(``, ``function`` and others."""
    background: bool = False
    """Whether bash does not wait for its end."""
    at: int = 0
    """Where it begins in the text."""

    @property
    def is_comment(self) -> bool:
        """Whether it is a comment."""
        return not self.parts

    @property
    def is_clear(self) -> bool:
        """Whether no word ends inside of a substitution: quotes inside of quotes may be read wrongly."""
        return all(_is_whole(word.text) for part in self.parts for word in part.words)

    @property
    def programs(self) -> list[str]:
        """The programs that it runs, without their folders; those inside of compound commands, too."""
        whole = _PATTERN.sub(" ", self.text) if "case" in self.text else self.text
        texts = [whole] if self.compound else [" ".join(texts) for texts in self._commands()]
        found = (one.words for text in texts for one in simple_commands(text) if one.words)
        names = (("export" if _EXPORTS.match(" ".join(words)) else words[0]) for words in found)
        return [
            unquoted(word).rsplit("/", 1)[-1] for word in names if word not in _KEYWORDS and word[0] != "-"
        ]

    def _commands(self) -> Iterator[list[str]]:
        """Yield the words of each simple command that is not only an assignment."""
        for part in self.parts:
            words = [word.text for word in part.words]
            if not all(map(_ASSIGNMENT.fullmatch, words)):
                yield words

    @property
    def assigned(self) -> list[tuple[str, str]]:
        """The variables that it sets or exports, each with its value without quotes."""
        if self.is_comment or self.compound:
            return []
        found: list[tuple[str, str]] = []
        for part in self.parts:
            for number, word in enumerate(part.words):
                match = _ASSIGNMENT.fullmatch(word.text)
                is_option = found == [] and word.text.startswith("-")
                if match is None and not (is_option if number else word.text in SETTERS):
                    break
                if match:
                    found.append((match[1], _value(match[2])))
        return found

    @property
    def names(self) -> set[str]:
        """The variables that it uses."""
        return set() if self.is_comment else names_in(self.text)


@dataclass
class _Reader:
    """Makes statements of the pieces of a text."""

    text: str
    found: list[Statement] = field(default_factory=list)
    """The statements that have ended."""
    start: int | None = None
    """Where the statement begins."""
    parts: list[ListCommand] = field(default_factory=list)
    """Its simple commands."""
    stack: list[str] = field(default_factory=list)
    """The words that end the open compound commands, innermost last; with a blank in front, of an array."""
    opened: list[int] = field(default_factory=list)
    """Where the open arrays begin."""
    compound: str = ""
    """As of `Statement`."""
    at_command: bool = True
    """Whether the next word is a program, or a keyword."""
    in_test: bool = False
    """Whether it is between ``[[`` and ``]]``."""

    def read(self) -> list[Statement]:
        found = [*pieces(self.text + "\n")]
        starts = [*(piece.start() for piece in found[1:]), len(self.text)]
        for piece, after in zip(found, starts, strict=True):
            self._piece(piece, after)
        self._end(len(self.text))
        return self.found

    def _piece(self, piece: re.Match[str], after: int) -> None:
        text = piece[0]
        if piece["end"]:
            self._operator(piece["end"], piece.start(), after)
        elif text.startswith("#"):
            if self.start is None:
                self.found.append(Statement(text, self._line(piece.start()), at=piece.start()))
        elif text.strip() and text != "\\\n":
            self._word(piece, is_heredoc=bool(piece["mark"]))

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at)

    def _begin(self, at: int) -> None:
        if self.start is None:
            self.start, self.parts, self.at_command = at, [ListCommand("", [])], True

    def _word(self, piece: re.Match[str], *, is_heredoc: bool) -> None:
        self._begin(piece.start())
        words, text = self.parts[-1].words, piece[0]
        if is_heredoc or (words and words[-1].end == piece.start()):
            begin = words.pop().start if words and words[-1].end == piece.start() else piece.start()
            words.append(PlacedWord(self.text[begin : piece.end()], begin, piece.end()))
            return
        if self.at_command and not self.in_test:
            self._keyword(text)
        self.in_test = text == "[[" or (self.in_test and text != "]]")
        self.at_command = text in _BEFORE_COMMANDS and self.at_command
        words.append(PlacedWord(text, piece.start(), piece.end()))

    def _keyword(self, text: str) -> None:
        if text in _ENDS or text == "function":
            self.compound = self.compound or text
            self.stack += [_ENDS[text]] if text in _ENDS else []
        elif self.stack and text == self.stack[-1]:
            self.stack.pop()

    def _operator(self, end: str, at: int, after: int) -> None:
        before, behind = self.text[at - 1 : at], self.text[at + 1 : at + 2]
        if end in "(){}":
            self._bracket(end, at)
        elif (self.in_test and end != "\n") or (end == "&" and before == "|"):
            return
        elif end == "&" and (before in ("<", ">") or behind == ">"):
            self._begin(at)
            self._glue(at)
        elif self.stack:
            self.at_command = not self.stack[-1].startswith(" ")
        elif self.start is None or self._is_open(end):
            return
        elif end in "\n;":
            self._end(after if "<<" in self.text[self.start : at] and end == "\n" else at)
        elif before == end:
            self._next(end * 2)
        elif behind == end:
            return
        else:
            self._next("|") if end == "|" else self._end(at, background=True)

    def _is_open(self, end: str) -> bool:
        """Whether a line end continues the statement: behind an operator, or ``name()`` of a function."""
        own = not self.parts[-1].words and len(self.parts) > 1
        return end == "\n" and (own or self.compound == "function") and not self._is_closed()

    def _is_closed(self) -> bool:
        text = self.text[self.start or 0 :]
        return self.compound == "function" and "}" in text.split("\n", 1)[0]

    def _glue(self, at: int) -> None:
        words = self.parts[-1].words
        begin = words.pop().start if words and words[-1].end == at else at
        words.append(PlacedWord(self.text[begin : at + 1], begin, at + 1))

    def _bracket(self, end: str, at: int) -> None:
        self._begin(at)
        words = self.parts[-1].words
        close = {"(": ")", "{": "}"}.get(end)
        attached = bool(words) and words[-1].end == at
        if close is None:
            if self.stack and self.stack[-1].strip() == end:
                whole = self.stack.pop().startswith(" ")
                if whole:
                    self._join(at)
                elif end == "}" and not self.stack and self.compound == "function":
                    self.compound = "function "
            return
        is_array = attached and words[-1].text.endswith(("=", "<", ">", "$"))
        is_array = is_array or self.stack[-1:] == [" )"]
        if is_array or (end == "{" and words and not self.compound):
            self.stack.append(f" {close}")
            self.opened.append(words[-1].start if attached else at)
            return
        if attached and end == "(" and self.text[at + 1 : at + 2] == ")" and not self.stack:
            self.compound = "function"
        self.compound = self.compound or end
        self.stack.append(close)
        self.at_command = True

    def _join(self, at: int) -> None:
        """Make one word of an array, which ends here."""
        words = self.parts[-1].words
        begin = self.opened.pop()
        while words and words[-1].start >= begin:
            words.pop()
        words.append(PlacedWord(self.text[begin : at + 1], begin, at + 1))

    def _next(self, operator: str) -> None:
        self.parts.append(ListCommand(operator, []))
        self.at_command = True

    def _end(self, at: int, *, background: bool = False) -> None:
        if self.start is None:
            return
        text = self.text[self.start : at].rstrip()
        parts = tuple(part for part in self.parts if part.words)
        if text and (parts or self.compound):
            own = parts or (ListCommand("", []),)
            kind = self.compound.strip()
            self.found.append(Statement(text, self._line(self.start), own, kind, background, self.start))
        self.start, self.compound, self.stack, self.opened, self.in_test = None, "", [], [], False


def _is_whole(word: str) -> bool:
    text = re.sub(r"^'[^']*'|(?<=\s)'[^']*'|\\.", "", word, flags=re.DOTALL)
    return text.count("`") % 2 == 0 and ("$(" not in text or text.count("(") == text.count(")"))


def statements(text: str) -> list[Statement]:
    """Return the statements of a text, comments among them, in their order."""
    return _Reader(text).read()


def without_redirections(words: list[PlacedWord]) -> tuple[list[PlacedWord], list[str]]:
    """Return the words of a command without its redirections, and these."""
    kept: list[PlacedWord] = []
    dropped: list[str] = []
    left = iter(words)
    for word in left:
        match = _REDIRECTION.fullmatch(word.text)
        if match is None:
            kept.append(word)
        else:
            following = None if match["file"] else next(left, None)
            dropped.append(f"{word.text} {following.text}" if following else word.text)
    return kept, dropped


def texts_in(found: list[Statement]) -> dict[str, list[str]]:
    """Return the texts that the statements give each variable, in which nothing is expanded."""
    texts: dict[str, list[str]] = {}
    for statement in found:
        inside = (pair for one in simple_commands(statement.text) for pair in assignments(one))
        for name, value in inside if statement.compound else statement.assigned:
            texts.setdefault(name, []).append(value)
        for name, value in _DEFAULT.findall(statement.text) if statement.text.startswith(":") else ():
            texts.setdefault(name, []).append(f"${{{name}:-{value}}}")
    return texts


def text_of(text: str, values: Mapping[str, str], depth: int = 0) -> str:
    """Return a text with the variables that have one value, and with defaults; others stay as they are."""

    def filled(match: re.Match[str]) -> str:
        name, default = match[1] or match[3], match[2]
        known = values.get(name, match[0] if default is None else default)
        if known.startswith(f"${{{name}:-"):
            known = known.removeprefix(f"${{{name}:-").removesuffix("}")
        return known if depth > _DEEPEST or known == match[0] else text_of(known, values, depth + 1)

    return _FILLED.sub(filled, text)


_DEFAULT: Final = re.compile(r"\$\{(\w+):?=([^{}]*(?:\{\w+\})?[^{}]*)\}")


def _value(text: str) -> str:
    """Return the text of an assignment without quotes; in double quotes, expansions stay as they are."""
    joined = text.replace("\\\n", "")
    if re.fullmatch(r'"(?:[^"\\]|\\.)*"', joined, re.DOTALL):
        return re.sub(r'\\(["\\])', r"\1", joined[1:-1])
    return joined if joined.startswith("(") else unquoted(joined)


_DEEPEST: Final = 5
_PRODUCT: Final = re.compile(r"\$\(\(([^()]+)\)\)|\$\(\s*expr\s+([^()]+)\)")
_FILLED: Final = re.compile(r"\$(?:\{(\w+)(?::?-([^{}]*(?:\{\w+\})?[^{}]*))?\}|(\w+))")


def number_of(text: str, values: Mapping[str, str], depth: int = 0) -> int | None:
    """Return the whole number that a text becomes, ``$((4 * N))`` too; None if that is not certain."""
    text = unquoted(text.strip())
    if match := _PRODUCT.fullmatch(text):
        factors = [part.strip(" \\$'\"{}") for part in (match[1] or match[2]).split("*")]
        names = (f"${part}" if part.isidentifier() else part for part in factors)
        return math.prod(number_of(name, values, depth + 1) or 0 for name in names) or None
    match = _FILLED.fullmatch(text)
    if match and depth < _DEEPEST:
        return number_of(values.get(match[1] or match[3], match[2] or ""), values, depth + 1)
    return int(text) if text.isascii() and text.isdecimal() else None


# --- What a statement is

_MODULES: Final = {"load": "", "add": "", "unload": "-", "rm": "-", "del": "-"}
_SETS_ANY: Final = frozenset(
    ("source", ".", "eval", "module", "ml", "spack", "conda", "mamba", "micromamba", "pyenv")
)
ACTIVATES: Final = re.compile(
    r"(?:source|\.)\s+\S*(?:\bactivate|conda\.sh|bashrc)\b|(?:conda|mamba|micromamba)\s+activate\b"
    r"|eval\s+\S*\$\(\S*(?:conda|mamba)\b"
)
"""Lines that activate an environment of Python; its packages may set ``OF_ENVIRONMENTS``."""
OF_PATH: Final = re.compile(r"PATH$")
OF_ENVIRONMENTS: Final = re.compile(
    r"(?:HOME|ROOT|PREFIX|DIR|DATA|FLAGS|_LIB|_INCLUDE)$|^(?:CC|CXX|FC|F77|LD|AR|MPICC)$"
)


def modules_of(statement: Statement) -> list[str]:
    """Return the modules that a line loads; those it unloads with ``-``; empty for any other line."""
    if statement.is_comment or statement.compound or len(statement.parts) != 1:
        return []
    words = [unquoted(word.text) for word in statement.parts[0].words]
    words = [
        word for word in words if not re.match(r"\d*[<>]", word) and word not in ("-s", "-q", "--silent")
    ]
    if words[:1] == ["ml"]:
        verb, names = (
            (words[1], words[2:])
            if words[1:2] and words[1] in {*_MODULES, "purge", "reset"}
            else ("load", words[1:])
        )
    elif words[:1] == ["module"] and len(words) > 1:
        verb, names = words[1], words[2:]
    else:
        return []
    if any(re.search(r"[$`&]|^--", name) for name in names):
        return []
    if verb in ("purge", "reset") and not names:
        return [verb]
    return [f"{_MODULES[verb]}{name}" for name in names] if verb in _MODULES else []


def sets_any(statement: Statement) -> bool:
    """Whether a line may set any variable: it loads a module, or reads a file."""
    names = {*statement.programs} if not statement.is_comment else set()
    return bool(names & _SETS_ANY or {name for name, _ in statement.assigned} & {"MODULEPATH", "PATH"})


def stops(statement: Statement) -> bool:
    """Whether a line makes bash end at the first command that fails."""
    return not statement.is_comment and bool(re.match(r"set\s+(?:-\w*e|-o errexit)", statement.text))


def names_in(text: str) -> set[str]:
    """Return the variables that a text uses."""
    return {*_NAME.findall(text)}


def exported_names(statement: Statement) -> set[str]:
    """Return the names behind ``export``."""
    words = [word.text for part in statement.parts for word in part.words]
    return {word.partition("=")[0] for word in words[1:]}


def is_opaque(statement: Statement) -> bool:
    """Whether a statement runs another shell script."""
    pattern = r"(?:^|[\s;&|])(?:(?:ba|z|k|da)?sh\s+(?!-c)[\w./$\"{]|\S+\.sh\b)"
    return not statement.is_comment and bool(
        re.search(pattern, re.sub(r"(?:source|\.)\s+\S+", "", statement.text))
    )
