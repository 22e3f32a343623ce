"""Jinja's filters and statements with bounds: each charges a ``Budget`` for what it goes through."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.filters import FILTERS as _OF_JINJA
from jinja2.visitor import NodeTransformer

from hpcdist.loading.budget import Budget, TemplateProblem, check_length, checked_value

TURN: Final = "hpcdist_turn"
MAX_TURNS: Final = 10_000
MAX_DIGITS: Final = 30

FILTERS: Final = frozenset(
    ("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join",
     "last", "length", "list", "lower", "max", "min", "replace", "reverse", "round", "sort", "string",
     "sum", "title", "tojson", "trim", "unique", "upper")
)  # fmt: skip
_WEIGHED: Final = "hpcdist_weighed"
_BY_ATTRIBUTE: Final = frozenset({"max", "min", "sort", "sum", "unique"})
_SORTING: Final = {"sort": 16, "dictsort": 16}
"""How often they go through what they sort."""
_NOT_A_VALUE: Final = (jinja2.Environment, nodes.EvalContext)

Function = Callable[..., Any]


class Turns:
    """Counts the turns of all loops of one file, and charges for their nodes."""

    __name__ = "turn"

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._count = 0

    def __call__(self, size: int) -> None:
        """Take a turn of a loop that holds so many nodes."""
        self._budget.charge(size)
        self._count += 1
        if self._count > MAX_TURNS:
            raise TemplateProblem(f"the loops of the templates take more than {MAX_TURNS} turns")


class Charged(NodeTransformer):
    """Makes a template charge for what no filter, call or operator does: turns, comparisons, keys, slices."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's name
        """Charge each turn for what stands in the loop."""
        size = nodes.Const(sum(1 for _ in node.find_all(nodes.Node)))
        self.generic_visit(node)
        turn = nodes.Call(nodes.Name(TURN, "load"), [size], [], None, None)
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        """Charge for what is compared."""
        self.generic_visit(node)
        node.expr = _weighed(node.expr)
        for operand in node.ops:
            operand.expr = _weighed(operand.expr)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        """Join by the filter, which has a bound."""
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), "join", [], [], None, None, lineno=node.lineno)

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:  # noqa: N802
        """Charge for the key, whose hash is made."""
        self.generic_visit(node)
        node.key = _weighed(node.key)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:  # noqa: N802
        """Charge for what is sliced, or for the key."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _weighed(node.node)
        else:
            node.arg = _weighed(node.arg)
        return node


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return nodes.Filter(node, _WEIGHED, [], [], None, None, lineno=node.lineno)


def filters(budget: Budget, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters that a file may use."""
    kept = {name: usual[name] for name in FILTERS}
    kept |= {"replace": replaced, "join": _join, "round": _round, "sum": _sum, "tojson": _tojson}
    kept[_WEIGHED] = lambda value: value
    return {name: _charging(budget, name, function) for name, function in kept.items()}


def tests(budget: Budget, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return Jinja's tests."""
    return {name: _charging(budget, name, function) for name, function in usual.items()}


def replaced(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """Replace as Python does.

    Raises:
        TemplateProblem: when the text becomes too long.
    """
    text, old, new = str(text), str(old), str(new)
    check_length(len(text) + text.count(old) * len(new))
    return str(text.replace(old, new, -1 if count is None else count))


def _join(values: Any, d: Any = "") -> str:
    texts = [str(value) for value in values]
    check_length(sum(map(len, texts)) + len(texts) * len(str(d)))
    return str(d).join(texts)


def _tojson(value: Any) -> str:
    """Return JSON without Jinja's escapes for HTML; to make a list of an undefined value says its name."""
    return json.dumps(value, default=list, ensure_ascii=False)


def _round(value: Any, precision: int = 0) -> float:
    if abs(precision) > MAX_DIGITS:
        raise TemplateProblem(f"nothing is rounded to {precision} digits")
    return round(float(value), precision)


@jinja2.pass_environment
def _sum(environment: jinja2.Environment, values: Any, attribute: str | None = None, start: float = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise TemplateProblem("only numbers are added up")
    return _OF_JINJA["sum"](environment, values, attribute, start)


def _charging(budget: Budget, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or test that charges for what it is given, and gives nothing too long."""

    @functools.wraps(function)
    def charged(*arguments: Any, **options: Any) -> Any:
        given = [value for value in arguments if not isinstance(value, _NOT_A_VALUE)]
        times = _SORTING.get(name, 1)
        if name in _BY_ATTRIBUTE:
            times *= budget.weight((given[1:], options))
        budget.weigh(*given, *options.values(), times=times)
        return checked_value(function(*arguments, **options))

    return charged
