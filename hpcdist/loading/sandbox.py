"""The part of Jinja that an experiment file may use, with a limit on its work.

A file may come from anyone, and planning must end. Jinja's sandbox blocks attributes, changes of lists and
dicts, and long ranges, but limits neither time nor memory; this module does. Only some statements, filters
and methods are allowed. The size of each value of an expression is limited, and charged to one budget for all
templates of a file.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.visitor import NodeTransformer

from hpcdist.base.errors import did_you_mean
from hpcdist.loading.inputs import SpeltFloat, SpeltInt

MAX_VALUE: Final = 20_000
MAX_INTEGER: Final = 10**300  # Python itself prints at most 4300 digits
MOST: Final = 2_000_000  # units of work in a file, which take at most about a second
MORE: Final = 10_000  # for each further trial of a search

_ALLOWED: Final = (nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Expr, nodes.Helper)
_FILTERS: Final = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join",
    "last", "length", "list", "lower", "map", "max", "min", "replace", "reverse", "round", "sort", "string",
    "sum", "title", "tojson", "trim", "unique", "upper",
)  # fmt: skip
_FUNCTIONS: Final = (
    "capitalize", "count", "endswith", "get", "index", "isdigit", "items", "keys", "lower", "lstrip",
    "replace", "rsplit", "rstrip", "safe_range", "split", "splitlines", "startswith", "strip", "title",
    "upper", "values",
)  # fmt: skip


class TemplateProblem(ValueError):  # noqa: N818 it becomes a Problem, with its hint
    """A problem of a template, with its hint; ``param``: the name of a param that does not exist."""

    def __init__(self, message: str, hint: str = "", param: str = "") -> None:
        super().__init__(message)
        self.hint, self.param = hint, param


class Renderer:
    """Renders the texts of one file with the same values, until `use` changes them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = _plain(values)
        self._sandbox = _Sandbox(finalize=self._finalized)
        self._compiled: dict[str, tuple[jinja2.Template, bool]] = {}

    def use(self, values: Mapping[str, Any]) -> None:
        """Take the values of one more trial, for which some more work is allowed."""
        self._values = _plain(values)
        self._sandbox.allow(MORE)

    def render(self, text: str, *, native: bool) -> Any:
        """Return the text with its templates filled in; the value itself for a lone expression, if native.

        Raises:
            TemplateProblem: for an invalid template, an unknown name, or too much work.
        """
        try:
            return self._rendered(text, native=native)
        except TemplateProblem:
            raise
        except SecurityError:
            raise TemplateProblem("the template uses an attribute or function that is not allowed") from None
        except jinja2.TemplateSyntaxError as error:
            raise _syntax_problem(str(error.message)) from None
        except (
            RecursionError,
            MemoryError,
            SyntaxError,
        ):  # raised by Python for the code that Jinja generates
            raise TemplateProblem("the template is nested too deeply") from None
        except Exception as error:  # noqa: BLE001 a template may divide by zero, add text to numbers, anything
            raise self._failed(str(error) or type(error).__name__) from None

    def _rendered(self, text: str, *, native: bool) -> Any:
        self._sandbox.charge(text)
        if text not in self._compiled:
            self._compiled[text] = self._compile(text)
        template, is_expression = self._compiled[text]
        self._native = native and is_expression
        text = ""
        for part in template.generate(self._values):
            self._sandbox.charge(part)
            text += part
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise TemplateProblem("a NUL byte or an unpaired surrogate cannot be passed to a program")
        return text if not self._native or isinstance(self._value, (str, jinja2.Undefined)) else self._value

    def _compile(self, text: str) -> tuple[jinja2.Template, bool]:
        """Return the template of a text, and whether it is a lone expression."""
        tree = _Charging(self._sandbox).visit(self._sandbox.parse(text))
        match tree.body:
            case [nodes.Output(nodes=[nodes.Filter()])]:
                return self._sandbox.from_string(tree), True
        return self._sandbox.from_string(tree), False

    def _finalized(self, value: Any) -> Any:
        """Return the value of an expression as plain data; Jinja reports an undefined one."""
        if value is None and not self._native:
            hint = "set its param, to `''` for an empty text, or write `{{ name|default('', true) }}`"
            raise TemplateProblem("this expression has no value", hint)
        if not isinstance(value, (str, int, float, list, dict, jinja2.Undefined, type(None))):
            if not isinstance(value, Iterable):
                raise TemplateProblem("the value of this expression cannot be written to a file")
            value = list(value)
        self._value: Any = value
        return value

    def _failed(self, message: str) -> TemplateProblem:
        name, found, rest = message.strip("'").partition("' is undefined")
        if not found or rest:
            return TemplateProblem(f"the template fails: {message}")
        hint = did_you_mean(name, self._values.keys() - {"params"}) or "write it under `params`"
        return TemplateProblem(f"there is no param {name!r}", hint, name)


def _plain(value: Any) -> Any:
    """Return the value with plain dicts and lists: the attributes of a Map would hide its keys."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _syntax_problem(message: str) -> TemplateProblem:
    if message.startswith("No filter named"):
        name = message.split("'")[1]
        return TemplateProblem(f"there is no filter {name!r}", did_you_mean(name, _FILTERS))
    hint = "put {% raw %} and {% endraw %} around text that is not a template"
    return TemplateProblem(f"the template is invalid: {message.removesuffix('.')}", hint)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a limit on the work of operators, filters and methods, which Jinja does not have.

    Its comment tags contain NUL, so that no file has them, because ``${#array[@]}`` is bash.
    """

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self, finalize: Callable[[Any], Any]) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
            comment_start_string="\0{#",
            comment_end_string="#}\0",
            finalize=finalize,
        )
        self.globals = {"range": safe_range}
        self.filters = {name: self._charging(_OWN.get(name, FILTERS[name])) for name in _FILTERS}
        self.filters["charged"] = self._charged
        self._left = MOST

    def charge(self, *values: Any, times: int = 1) -> None:
        """Charge the product of these sizes to the budget: ``replace`` and ``join`` can write that much."""
        self._left -= times * (5 + math.prod(map(self._size, values)))
        if self._left < 0:
            hint = "use fewer loops, over shorter values"
            raise TemplateProblem("the templates of this file take too much time", hint)

    def allow(self, work: int) -> None:
        """Add to the budget."""
        self._left += work

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Calculate as Jinja does, but refuse long results before they are made."""
        if operator == "%" and isinstance(left, str):
            raise TemplateProblem("% cannot format text here", "write the text around {{ }}")
        for one, times in ((left, right), (right, left)):
            if operator == "*" and isinstance(one, (str, list, tuple)) and isinstance(times, int):
                _check_length(len(one) * times)
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check_length(left.bit_length() * abs(right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call ``range`` and some methods as Jinja does: others can make long values from short ones.

        They are not refused by ``is_safe_callable``, because Jinja 3.1.4 calls ``format`` before it.
        """
        if getattr(obj, "__name__", "") not in _FUNCTIONS:
            raise SecurityError
        self.charge(getattr(obj, "__self__", None), *args, *kwargs.values())
        return super().call(context, obj, *args, **kwargs)

    def _charging(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def charged(*args: Any, **kwargs: Any) -> Any:
            self.charge(*args, *kwargs.values())
            return function(*args, **kwargs)

        return charged

    @jinja2.pass_context  # else Jinja would charge a constant only once, when it compiles
    def _charged(self, _context: Any, value: Any) -> Any:
        self.charge(value)
        if isinstance(value, (str, list, range)):
            _check_length(len(value))
        if isinstance(value, (SpeltInt, SpeltFloat)):
            _check_length(len(value.text))
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise TemplateProblem("a number of the template has more than 300 digits")
        return value

    def _size(self, value: Any) -> int:
        """Return the number of all items in a value, counted until it exceeds the budget."""
        total, waiting = 0, [value]
        while waiting and total <= self._left:
            one = waiting.pop()
            total += 1
            if isinstance(one, (str, range)):
                total += len(one)
            elif isinstance(one, (SpeltInt, SpeltFloat)):
                total += len(one.text)
            elif isinstance(one, dict):
                waiting += [*one.keys(), *one.values()]
            elif isinstance(one, (list, tuple, KeysView, ValuesView, ItemsView)):
                waiting += one
        return total


class _Charging(NodeTransformer):
    """Passes each value of a template through a filter that charges it; refuses other than ``_ALLOWED``.

    Jinja's sandbox cannot refuse statements, and does not see comparisons, loops, slices and keys.
    """

    def __init__(self, sandbox: _Sandbox) -> None:
        self._sandbox = sandbox

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the node; a value that is read, wrapped in the filter."""
        is_allowed = isinstance(node, _ALLOWED)
        if not is_allowed:
            hint = "use only {{ }}, {% if %}, {% for %} and {% raw %}"
            raise TemplateProblem("this statement is not allowed in an experiment file", hint)
        self._sandbox.charge(times=50)  # the cost of compiling it
        self.generic_visit(node, *args, **kwargs)
        if hasattr(node, "attr") or isinstance(getattr(node, "arg", None), nodes.Filter):
            node.node = node.node.node  # one key is found without reading the whole
        is_value = isinstance(node, nodes.Expr) and not isinstance(node, (nodes.Slice, nodes.TemplateData))
        if not is_value or getattr(node, "ctx", "load") != "load":
            return node
        return nodes.Filter(node, "charged", [], [], None, None, lineno=node.lineno)


def _check_length(length: int) -> None:
    if length > MAX_VALUE:
        raise TemplateProblem(f"a value of the template is longer than {MAX_VALUE}")


@jinja2.pass_environment
def _sum(environment: jinja2.Environment, values: Any, attribute: str | None = None, start: float = 0) -> Any:
    """Sum numbers only: Jinja sums lists too, in quadratic time."""
    if not isinstance(start, (int, float)):
        raise TemplateProblem("sum takes only numbers")
    return FILTERS["sum"](environment, values, attribute, start)


@jinja2.pass_context
def _map(context: jinja2.runtime.Context, values: Any, *words: Any, **attribute: Any) -> list[Any]:
    """Apply a filter of ours to each value: Jinja reads attributes too, and its generator hides its size."""
    if attribute or not words:
        raise TemplateProblem("map takes only a filter", "write map('int')")
    return [context.environment.call_filter(words[0], one, words[1:], context=context) for one in values]


_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "map": _map,
    "sum": _sum,
    # Jinja rounds whole numbers too, which takes hours for 10**9 digits; a float is fast.
    "round": lambda value, precision=0: round(float(value), precision),
    # Jinja writes JSON for HTML. A list of an undefined value raises an error with its name.
    "tojson": functools.partial(json.dumps, default=list, ensure_ascii=False),
}
