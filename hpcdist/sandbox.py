"""The part of Jinja that an experiment file may use, bounded in time and memory.

A file may come from anyone, and planning must end. So there are no macros, no assignments, no recursion,
and few filters and methods; the loops of a file take at most ``MAX_TURNS`` turns, and no value becomes longer
than ``MAX_VALUE``. The values are plain ones, whose attributes Jinja's own sandbox keeps closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from hpcdist.errors import did_you_mean

MAX_VALUE: Final = 20_000
MAX_TEXT: Final = 1_000_000
MAX_TURNS: Final = 10_000
MAX_NODES: Final = 5000
MAX_DIGITS: Final = 30

_FILTERS: Final = frozenset(
    ("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join",
     "last", "length", "list", "lower", "max", "min", "replace", "reverse", "round", "sort", "string",
     "sum", "title", "trim", "unique", "upper")
)  # fmt: skip
_METHODS: Final = frozenset(
    ("capitalize", "count", "endswith", "get", "index", "isdigit", "items", "keys", "lower", "lstrip",
     "replace", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper", "values")
)  # fmt: skip
_ALLOWED: Final = (nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.Expr, nodes.Helper)
_TURN: Final = "hpcdist_turn"
_RAW: Final = "put {% raw %} and {% endraw %} around text that is no template"


class TemplateProblem(ValueError):  # noqa: N818 it becomes a Problem, with its hint
    """What is wrong with a template, and what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Renderer:
    """Renders the texts of one file with the same values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._given = values
        self._values = {**{key: _plain(value) for key, value in values.items()}, _TURN: _Turns()}
        self._environment = _environment()

    def render(self, text: str, *, native: bool) -> Any:
        """Return the text with its templates filled in; the value itself for a lone expression, if native.

        Raises:
            TemplateProblem: for a broken template, an unknown name, or work without bound.
        """
        try:
            tree = self._environment.parse(text)
            _check(tree)
            return self._value(text) if native and _is_lone(tree) else self._text(tree)
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

    def _value(self, text: str) -> Any:
        expression = self._environment.compile_expression(_inner(text), undefined_to_none=False)
        value = _finalized(expression(self._values))
        return _encodable(str(value)) if isinstance(value, (str, jinja2.Undefined)) else value

    def _text(self, tree: nodes.Template) -> str:
        for loop in tree.find_all(nodes.For):
            turn = nodes.Call(nodes.Name(_TURN, "load"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(turn, lineno=loop.lineno))
        text = ""
        for part in self._environment.from_string(tree).generate(self._values):
            text += part
            if len(text) > MAX_TEXT:
                raise TemplateProblem(f"the text becomes longer than {MAX_TEXT} characters")
        return _encodable(text)

    def _undefined(self, error: jinja2.UndefinedError) -> TemplateProblem:
        message = str(error.message)
        if not message.endswith(" is undefined"):
            return TemplateProblem(f"the template fails: {message}")
        name = message.split("'")[1]
        return TemplateProblem(
            f"there is no param {name!r}", did_you_mean(name, self._given) or "write it under `params`"
        )


def _broken(error: jinja2.TemplateSyntaxError) -> TemplateProblem:
    message = str(error.message)
    if message.startswith("No filter named"):
        name = message.split("'")[1]
        return TemplateProblem(f"there is no filter {name!r}", did_you_mean(name, _FILTERS))
    return TemplateProblem(f"the template is broken: {message}", _RAW)


def _check(tree: nodes.Template) -> None:
    """Refuse statements beyond ``if`` and ``for``, and templates without end."""
    for count, node in enumerate(tree.find_all(nodes.Node)):
        if count > MAX_NODES:
            raise TemplateProblem("the template is too long")
        recursive = isinstance(node, nodes.For) and (node.recursive or node.test)
        if recursive or not isinstance(node, _ALLOWED):
            hint = "only {{ }}, {% if %}, plain {% for %} and {% raw %} can"
            raise TemplateProblem("this statement cannot stand in an experiment file", hint)


def _is_lone(tree: nodes.Template) -> bool:
    match tree.body:
        case [nodes.Output(nodes=[only])]:
            return not isinstance(only, nodes.TemplateData)
    return False


def _inner(text: str) -> str:
    """Return what stands between ``{{`` and ``}}``."""
    inner = text.strip()[2:-2]
    return inner[inner[:1] in ("-", "+") : -1 if inner.endswith("-") else None]


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
    _check_length(len(text))
    return text


def _check_length(length: float) -> None:
    if length > MAX_VALUE:
        raise TemplateProblem(f"a value of the template becomes longer than {MAX_VALUE}")


class _Turns:
    """Counts the turns of all loops of one file."""

    __name__ = "turn"

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        if self._count > MAX_TURNS:
            raise TemplateProblem(f"the loops of the templates take more than {MAX_TURNS} turns")


class _Sandbox(SandboxedEnvironment):
    """Jinja's sandbox, with bounds on the operators and methods that make much of little."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse what grows without bound, then calculate as Jinja does."""
        if operator == "%" and isinstance(left, str):
            raise TemplateProblem("% does not format text here", "write the text around {{ }}")
        if operator == "*":
            _check_product(left, right)
        if operator == "**":
            _check_power(left, right)
        return super().call_binop(context, operator, left, right)

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow ``range`` and a few methods."""
        if isinstance(obj, _Turns) or obj is _range:
            return True
        return getattr(obj, "__name__", "") in _METHODS and bool(super().is_safe_callable(obj))

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call as Jinja does, but ``replace`` with a bound."""
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str) and getattr(obj, "__name__", "") == "replace":
            return _replace(owner, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


def _check_product(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (list, tuple)):
            raise TemplateProblem("a list cannot be multiplied here")
        if isinstance(one, str) and isinstance(other, int):
            _check_length(len(one) * other)
        if isinstance(one, int):
            _check_length(one.bit_length())


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_length(left.bit_length() * abs(right))


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    _check_length(len(numbers))
    return numbers


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = str(text), str(old), str(new)
    _check_length(len(text) + text.count(old) * len(new))
    return str(text.replace(old, new, -1 if count is None else count))


def _join(values: Any, d: Any = "") -> str:
    texts = [str(value) for value in values]
    _check_length(sum(map(len, texts)) + len(texts) * len(str(d)))
    return str(d).join(texts)


def _round(value: Any, precision: int = 0) -> float:
    if abs(precision) > MAX_DIGITS:
        raise TemplateProblem(f"nothing is rounded to {precision} digits")
    return round(float(value), precision)


def _environment() -> _Sandbox:
    environment = _Sandbox(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        comment_start_string="\0{#",  # ${#array[@]} is bash, and no file holds a NUL
        comment_end_string="#}\0",
        finalize=_finalized,
        autoescape=False,
    )
    environment.globals.clear()
    environment.globals["range"] = _range
    kept = {name: environment.filters[name] for name in _FILTERS}
    environment.filters = {**kept, "replace": _replace, "join": _join, "round": _round}
    return environment
