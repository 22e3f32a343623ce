"""The work that the templates of one file may make: what an operation goes through is charged by its size."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Mapping, ValuesView
from typing import Any, Final

MAX_VALUE: Final = 20_000
MAX_INTEGER: Final = 10**300
"""As many digits as a number in a file may have; Python itself writes none of more than 4300."""
MOST: Final = 2_000_000
"""Units of work in all, which take at most about a second."""


class TemplateProblem(ValueError):  # noqa: N818 it becomes a Problem, with its hint
    """What is wrong with a template, and what to do; ``param`` is one that it asks for in vain."""

    def __init__(self, message: str, hint: str = "", param: str = "") -> None:
        super().__init__(message)
        self.hint, self.param = hint, param


def check_length(length: float) -> None:
    """Refuse a value that is too long.

    Raises:
        TemplateProblem: when it is.
    """
    if length > MAX_VALUE:
        raise TemplateProblem(f"a value of the template becomes longer than {MAX_VALUE}")


def checked_value(value: Any) -> Any:
    """Return a value that an operator or a filter made.

    Raises:
        TemplateProblem: when it is too long.
    """
    if isinstance(value, (str, list)):
        check_length(len(value))
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise TemplateProblem("a number of the template has more than 300 digits")
    return value


class Budget:
    """What is left of the work."""

    def __init__(self, left: float = MOST) -> None:
        self._left = left

    def charge(self, work: float) -> None:
        """Take some off.

        Raises:
            TemplateProblem: when nothing is left.
        """
        self._left -= max(1, work)
        if self._left < 0:
            raise TemplateProblem("the templates of this file make too much work")

    def weigh(self, *values: Any, times: float = 1) -> None:
        """Charge for going through these values; ``times`` over.

        Raises:
            TemplateProblem: when nothing is left.
        """
        self.charge(self.weight(values) * times)

    def weight(self, value: Any) -> int:
        """Count everything in a value, as often as it stands there, until it is more than what is left."""
        total, waiting = 0, [value]
        while waiting and total <= self._left:
            one = waiting.pop()
            total += 1
            if isinstance(one, (str, range)):
                total += len(one)
            elif isinstance(one, Mapping):
                waiting += [*one.keys(), *one.values()]
            elif isinstance(one, (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)):
                waiting += one
        return total
