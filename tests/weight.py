"""What hpcdist weighs: `tools/weight` prints it, and a test keeps each figure from growing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

import click

from hpcdist.cli import VERBS, main
from tests.test_architecture import FILES, PACKAGE, ROOMS, reached, room, tree

ROOT: Final = PACKAGE.parent
_KINDS: Final = {
    "job templates": ("templates/job/*", "templates/job.sh.j2", "templates/*.sh", "templates/*.yml"),
    "supervisor": ("templates/runtime/*", "templates/runtime/supervisor/*"),
    "modules for programs": ("templates/python/*",),
    "report": ("templates/report/*",),
}
"""The kinds of templates."""

_ODD: Final = re.compile(
    r"\b(of which|of its own|go(es)? on|anew|(is|are) none|nobody|has besides|as it has to|be it"
    r"|(that|those) of)\b"
    r"|(?<![\"'`.{])\bbeside\b(?![\"'`:=])"  # `run.beside` is a key of the experiment
)
"""Constructions that Slurm's manuals do not have: a noun, "continues", "again", "next to" say the same."""


def figures() -> dict[str, float]:
    """Return each figure by its name; a smaller one is better, apart from the share of docstrings."""
    texts = {file: file.read_text() for file in FILES}
    filled = sum(bool(line.strip()) for text in texts.values() for line in text.splitlines())
    nodes = [node for file in FILES for node in ast.walk(tree(file))]
    verbs = [*_verbs(main)]
    return {
        "lines of the package": sum(text.count("\n") for text in texts.values()),
        "files of the package": len(FILES),
        "import lines, % of those that are not blank": _percent(map(_import_lines, nodes), filled),
        "docstrings, % of the same": _percent(map(_docstring_lines, nodes), filled),
        "modules that one other imports": _imported_once(),
        "class names defined more than once": _repeated(),
        "longest line": max(len(line) for text in texts.values() for line in text.splitlines()),
        "rooms": len(ROOMS),
        "arrows between rooms": sum(map(len, arrows().values())),
        "floors": max(map(_floor, ROOMS)),
        **{f"lines of templates: {kind}": _lines(kind_of) for kind, kind_of in _KINDS.items()},
        "words of docs": sum(len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md")),
        "odd constructions in package, templates and docs": _odd(),
        "verbs": sum(bool(verb.group) for verb in VERBS.values()),
        "options of verbs": sum(isinstance(param, click.Option) for verb in verbs for param in verb.params),
    }


def _percent(parts: Iterable[int], whole: int) -> float:
    return round(100 * sum(parts) / whole, 1)


def _import_lines(node: ast.AST) -> int:
    return _lines_of(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else 0


def _docstring_lines(node: ast.AST) -> int:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return _lines_of(node)
    return 0


def _lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _imported_once() -> int:
    importers = Counter(other for file in FILES for other in reached(file))
    return sum(count == 1 for other, count in importers.items() if other.name != "__init__.py")


def _repeated() -> int:
    nodes = (node for file in FILES for node in tree(file).body)
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return sum(count > 1 for count in names.values())


@cache
def arrows() -> Mapping[str, frozenset[str]]:
    """Return the rooms from which each room imports."""
    found: dict[str, set[str]] = {own: set() for own in ROOMS}
    for file in FILES:
        if room(file) in found:
            found[room(file)] |= {room(other) for other in reached(file)} & found.keys() - {room(file)}
    return {own: frozenset(others) for own, others in found.items()}


@cache
def _floor(own: str) -> int:
    """Return on which floor a room is: the ground, 1, imports from none."""
    return 1 + max(map(_floor, arrows()[own]), default=0)


def _lines(patterns: Iterable[str]) -> int:
    return sum(
        file.read_text().count("\n") for pattern in patterns for file in ROOT.glob(pattern) if file.is_file()
    )


def _odd() -> int:
    files = (file for top in ("hpcdist", "templates", "docs") for file in (ROOT / top).rglob("*"))
    texts = (file.read_text() for file in files if file.suffix in {".py", ".md", ".sh", ".j2", ".yml"})
    return sum(len(_ODD.findall(text)) for text in texts)


def _verbs(group: click.Command) -> Iterator[click.Command]:
    """Yield each verb with its own verbs."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for text in group.list_commands(context):
            verb = group.get_command(context, text)
            if verb and not verb.hidden:
                yield verb
                yield from _verbs(verb)


if __name__ == "__main__":
    for what, figure in figures().items():
        click.echo(f"{figure:>9,}  {what}")
