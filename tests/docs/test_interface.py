"""The reference of the Python interface is what its code says: nothing leaks, and nothing vanishes unseen."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import hpcdist
from tests.docs.pages import keeps_table

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_the_interface_is_what_the_page_has() -> None:
    keeps_table("python interface", "\n" + "\n".join(entry(name) for name in hpcdist.__all__) + "\n")


def entry(name: str) -> str:
    """Return what the page has of a public name."""
    value = getattr(hpcdist, name)
    assert value.__name__ == name
    tree = ast.parse(Path(sys.modules[value.__module__].__file__ or "").read_text())
    [node] = (each for each in tree.body if isinstance(each, Definition) and each.name == name)
    parts = [f"## {name}\n", f"```text\n{head(node)}\n```\n", text(value.__doc__)]
    return "\n".join([*parts, *(members(node) if isinstance(node, ast.ClassDef) else ())])


def head(node: Definition) -> str:
    """Return the signature of a function, or the fields of a class, as they are written."""
    if not isinstance(node, ast.ClassDef):
        return signature(node)
    fields = [ast.unparse(each) for each in node.body if isinstance(each, (ast.AnnAssign, ast.Assign))]
    shown = (field for field in fields if not field.startswith("_"))
    bases = ", ".join(map(ast.unparse, node.bases))
    return "\n    ".join([f"class {node.name}({bases})" if bases else f"class {node.name}", *shown])


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}"


def members(node: ast.ClassDef) -> Iterator[str]:
    """Yield what the page has of the public methods and properties of a class."""
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if each.name.startswith("_") and each.name != "__getitem__":
            continue
        if any(ast.unparse(mark) == "overload" for mark in each.decorator_list):
            continue
        is_property = any(ast.unparse(mark) == "property" for mark in each.decorator_list)
        shown = f"{each.name}: {ast.unparse(each.returns or each)}" if is_property else signature(each)
        yield f"### {node.name}.{each.name}\n\n```text\n{shown}\n```\n\n{text(ast.get_docstring(each))}"


def text(docstring: str | None) -> str:
    """Return a docstring in Markdown."""
    found = inspect.cleandoc(docstring or "").replace("``", "`")
    before, _, raises = found.partition("Raises:\n")
    lines = re.sub(r"\n\s{8,}", " ", raises).splitlines()
    listed = "".join(f"* raises `{line.strip().replace(':', '`:', 1)}\n" for line in lines if line.strip())
    return f"{before.strip()}\n" + (f"\n{listed}" if listed else "")
