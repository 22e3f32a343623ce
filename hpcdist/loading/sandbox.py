"""The part of Jinja that an experiment file may use, bounded in time and memory.

A file may come from anyone, and planning must end. So there are no macros, no assignments, no recursion,
and few filters and methods; the loops of a file take at most ``MAXTURNS`` turns, and no value becomes longer
than ``MAX_VALUE``. What a turn holds, and what operators, filters, methods and comparisons go through, is
charged to one ``Budget`` a file, which lasts for about a second. The values are plain ones, whose attributes
Jinja's own sandbox keeps closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from hpcdist.errors import did_you_mean
from hpcdist.loading.bounded import FILTERS, TURN, Charged, Turns, filters, replaced, tests
from hpcdist.loading.budget import Budget, TemplateProblem, check_length, checked_value

MAX_TEXT: Final = 1_000_000
MAX_NODES: Final = 5000

_METHODS: Final = frozenset(
    ("capitalize", "count", "endswith", "get", "index", "isdigit", "items", "keys", "lower", "lstrip",
     "replace", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper", "values")
)  # fmt: skip
_ALLOWED: Final = (nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Expr, nodes.Helper)
_WORK_OF_TEXT: Final = 1000
_WORK_OF_NODE: Final = 50
_RAW: Final = "put {% raw %} and {% endraw %} around text that is no template"


class Renderer:
    """Renders the texts of one file with the same values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._given = values
        self._budget = Budget()
        turns = Turns(self._budget)
        self._values = {**{key: _plain(value) for key, value in values.items()}, TURN: turns}
        self._environment = _environment(self._budget)

    def render(self, text: str, *, native: bool) -> Any:
        """Return the text with its templates filled in; the value itself for a lone expression, if native.

        Raises:
            TemplateProblem: for a broken template, an unknown name, or work without bound.
        """
        try:
            tree = self._environment.parse(text)
            self._budget.charge(_WORK_OF_TEXT + _WORK_OF_NODE * _checked(tree))
            alone = _alone(tree) if native else None
            tree = Charged().visit(tree)
            return self._value(alone) if alone else self._text(tree)
        except TemplateProblem:
            raise
        except jinja2.TemplateSyntaxError as error:
            raise _broken(error) from None
        except jinja2.UndefinedError as error:
            raise self._undefined(error) from None
        except SecurityError:
            raise TemplateProblem("the template reads or calls what a file may not") from None
        except RecursionError:
            raise TemplateProblem("the template is nested too deeply") from None
        except Exception as error:  # noqa: BLE001 a template may divide by zero, recur too deeply, anything
            raise TemplateProblem(f"the template fails: {str(error) or type(error).__name__}") from None

    def _value(self, expression: nodes.Expr) -> Any:
        body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), expression, lineno=1)]
        template = self._environment.from_string(nodes.Template(body, lineno=1))
        value = _finalized(TemplateExpression(template, undefined_to_none=False)(self._values))
        return _encodable(str(value)) if isinstance(value, (str, jinja2.Undefined)) else value

    def _text(self, tree: nodes.Template) -> str:
        text = ""
        for part in self._environment.from_string(tree).generate(self._values):
            self._budget.charge(len(part) / 10)
            text += part
            if len(text) > MAX_TEXT:
                raise TemplateProblem(f"the text becomes longer than {MAX_TEXT} characters")
        return _encodable(text)

    def _undefined(self, error: jinja2.UndefinedError) -> TemplateProblem:
        message = str(error.message)
        if not message.endswith(" is undefined"):
            return TemplateProblem(f"the template fails: {message}")
        name = message.split("'")[1]
        hint = did_you_mean(name, self._given) or "write it under `params`"
        return TemplateProblem(f"there is no param {name!r}", hint, name)


def _broken(error: jinja2.TemplateSyntaxError) -> TemplateProblem:
    message = str(error.message)
    if message.startswith("No filter named"):
        name = message.split("'")[1]
        return TemplateProblem(f"there is no filter {name!r}", did_you_mean(name, FILTERS))
    return TemplateProblem(f"the template is broken: {message.removesuffix('.')}", _RAW)


def _checked(tree: nodes.Template) -> int:
    """Count the nodes; refuse statements beyond ``if`` and ``for``, and templates without end."""
    count = 0
    for count, node in enumerate(tree.find_all(nodes.Node)):
        if count > MAX_NODES:
            raise TemplateProblem("the template is too long")
        recursive = isinstance(node, nodes.For) and (node.recursive or node.test)
        if recursive or not isinstance(node, _ALLOWED):
            hint = "only {{ }}, {% if %}, plain {% for %} and {% raw %} can"
            raise TemplateProblem("this statement cannot stand in an experiment file", hint)
    return count


def _alone(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression that is all of a template, before it is charged."""
    match tree.body:
        case [nodes.Output(nodes=[only])] if not isinstance(only, nodes.TemplateData):
            return only
    return None


def _finalized(value: Any) -> Any:
    """Return what an expression gives, as text, number, list or dict; an undefined one is left to Jinja."""
    if value is None or isinstance(value, (str, int, float, list, dict, jinja2.Undefined)):
        return value
    if isinstance(value, Iterable):
        return list(value)
    raise TemplateProblem("this expression has no value that a file can hold")


def _encodable(text: str) -> str:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise TemplateProblem("a NUL byte or half a character cannot be passed to a program")
    return text


def _plain(value: Any) -> Any:
    """Return the value made of the very types dict and list, which have no attributes of ours."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _bounded(value) if isinstance(value, str) else value


def _bounded(text: str) -> str:
    check_length(len(text))
    return text


class _Sandbox(SandboxedEnvironment):
    """Jinja's sandbox, with bounds on the operators and methods that make much of little."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "**", "%"))
    budget: Budget

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse what grows without bound, then calculate as Jinja does."""
        if operator == "%" and isinstance(left, str):
            raise TemplateProblem("% does not format text here", "write the text around {{ }}")
        self.budget.weigh(left, right)
        if operator == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, type(left)):
            check_length(len(left) + len(right))
        if operator == "*":
            _check_product(left, right)
        if operator == "**":
            _check_power(left, right)
        return checked_value(super().call_binop(context, operator, left, right))

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow ``range`` and a few methods."""
        if isinstance(obj, Turns) or obj is _range:
            return True
        return getattr(obj, "__name__", "") in _METHODS and bool(super().is_safe_callable(obj))

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call as Jinja does, but ``replace`` with a bound."""
        owner = getattr(obj, "__self__", None)
        self.budget.weigh(owner, *args, *kwargs.values())
        if isinstance(owner, str) and getattr(obj, "__name__", "") == "replace":
            return replaced(owner, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


def _check_product(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (list, tuple)):
            raise TemplateProblem("a list cannot be multiplied here")
        if isinstance(one, str) and isinstance(other, int):
            check_length(len(one) * other)
        if isinstance(one, int):
            check_length(one.bit_length())


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        check_length(left.bit_length() * abs(right))


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    check_length(len(numbers))
    return numbers


def _environment(budget: Budget) -> _Sandbox:
    def finalized(value: Any) -> Any:
        budget.weigh(value)
        if value is None:
            hint = "give its param a value, `''` for an empty text, or write `{{ name|default('', true) }}`"
            raise TemplateProblem("this has no value that could stand in a text", hint)
        return _finalized(value)

    environment = _Sandbox(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        comment_start_string="\0{#",  # ${#array[@]} is bash, and no file holds a NUL
        comment_end_string="#}\0",
        finalize=finalized,
        autoescape=False,
    )
    environment.globals.clear()
    environment.globals["range"] = _range
    environment.filters = filters(budget, environment.filters)
    environment.tests = tests(budget, environment.tests)
    environment.budget = budget
    return environment
