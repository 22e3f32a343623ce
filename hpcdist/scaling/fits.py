"""Laws of scalability, fitted to the throughput that was measured with several numbers of nodes.

Amdahl (1967), for a problem of fixed size: X(n) = L / (s + (1 - s) / n). Gustafson (1988), for one that grows
with the nodes: X(n) = L (s + (1 - s) n). Gunther's universal scalability law (2007), with contention and
coherency: X(n) = L n / (1 + c (n - 1) + k n (n - 1)); its maximum is at sqrt((1 - c) / k). Each is linear in
its parameters once it is written for X or n / X, so that the best one is found without iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

Point = tuple[int, float]
"""A number of nodes, and a throughput that was measured with it."""

_SINGULAR: Final = 1e-12


class Fit(NamedTuple):
    """A law with its parameters: shares of the work, each 0 or more; ``one_node`` is its throughput.

    ``residuals``: of each point, how far the measured throughput is above the law, as a share of that.
    ``is_exact``: there are only as many sizes as parameters, so that residuals say nothing.
    """

    law: str
    one_node: float
    parameters: dict[str, float]
    residuals: tuple[tuple[int, float], ...]
    is_exact: bool
    peak: float | None = None


class _Law(NamedTuple):
    """A law as a sum of ``columns`` of n with coefficients of 0 or more, which is equal to ``left``.

    ``read`` makes the throughput of one node and the parameters of the coefficients, None where they are
    none; ``at`` returns the throughput for n and these, as a multiple of that of one node.
    """

    name: str
    columns: tuple[Callable[[float], float], ...]
    left: Callable[[float, float], float]
    read: Callable[[Sequence[float]], tuple[float, dict[str, float]] | None]
    at: Callable[[float, dict[str, float]], float]


def _one(nodes: float) -> float:
    del nodes
    return 1.0


def _serial(one_node: float, serial: float) -> tuple[float, dict[str, float]]:
    return one_node, {"serial": serial}


AMDAHL: Final = _Law(
    "Amdahl",
    (_one, float),
    lambda n, x: n / x,
    lambda c: _serial(1 / sum(c), c[1] / sum(c)),
    lambda n, p: 1 / (p["serial"] + (1 - p["serial"]) / n),
)
GUSTAFSON: Final = _Law(
    "Gustafson",
    (_one, float),
    lambda _, x: x,
    lambda c: _serial(sum(c), c[0] / sum(c)),
    lambda n, p: p["serial"] + (1 - p["serial"]) * n,
)
UNIVERSAL: Final = _Law(
    "universal",
    (_one, lambda n: n - 1, lambda n: n * (n - 1)),
    lambda n, x: n / x,
    lambda c: (1 / c[0], {"contention": c[1] / c[0], "coherency": c[2] / c[0]}) if c[0] > 0 else None,
    lambda n, p: n / (1 + p["contention"] * (n - 1) + p["coherency"] * n * (n - 1)),
)
LAWS: Final = {law.name: law for law in (AMDAHL, GUSTAFSON, UNIVERSAL)}


def at(fit: Fit, nodes: float) -> float:
    """Return the throughput of a law with so many nodes."""
    return fit.one_node * LAWS[fit.law].at(nodes, fit.parameters)


def fit(law: str, points: Iterable[Point]) -> Fit | None:
    """Fit a law, with the least squares of relative errors; None for fewer sizes than it has parameters.

    Points whose throughput is not above zero are left out: no law has such.
    """
    found, kind = [(n, x) for n, x in points if 0 < x < math.inf], LAWS[law]
    sizes = {nodes for nodes, _ in found}
    if len(sizes) < len(kind.columns):
        return None
    rows = [[column(n) / kind.left(n, x) for column in kind.columns] for n, x in found]
    read = kind.read(_least_squares(rows))
    if read is None:
        return None
    one_node, parameters = read
    fitted = Fit(law, one_node, parameters, (), len(sizes) == len(kind.columns), _peak(parameters))
    return fitted._replace(residuals=tuple((n, x / at(fitted, n) - 1) for n, x in found))


def _peak(parameters: dict[str, float]) -> float | None:
    """Return the number of nodes with the most throughput; None where the law has none."""
    coherency = parameters.get("coherency", 0.0)
    return math.sqrt(max(1.0, (1 - parameters["contention"]) / coherency)) if coherency else None


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the coefficients of 0 or more with which these columns come nearest to 1 in each row.

    Of few columns, the best of all subsets whose unbounded solution has no coefficient below 0.
    """
    width = len(rows[0])
    best, least = [0.0] * width, math.inf
    subsets = (places for size in range(1, width + 1) for places in combinations(range(width), size))
    for places in subsets:
        found = _solved([[row[place] for place in places] for row in rows])
        if found is None or min(found) < 0:
            continue
        solution = dict(zip(places, found, strict=True))
        error = sum((sum(row[place] * solution[place] for place in places) - 1) ** 2 for row in rows)
        if error < least:
            best, least = [solution.get(place, 0.0) for place in range(width)], error
    return best


def _solved(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the coefficients of the columns without bounds, by the normal equations; None if none are best.

    The columns are scaled to one length, since those of many nodes are much longer than the others.
    """
    columns = [*zip(*rows, strict=True)]
    lengths = [math.hypot(*column) for column in columns]
    if not all(lengths):
        return None
    units = [[value / length for value in column] for column, length in zip(columns, lengths, strict=True)]
    system = [[*(_product(one, other) for other in units), sum(one)] for one in units]
    for place in range(len(system)):
        pivot = max(range(place, len(system)), key=lambda row: abs(system[row][place]))
        system[place], system[pivot] = system[pivot], system[place]
        head = system[place][place]
        if abs(head) < _SINGULAR:
            return None
        system[place] = [value / head for value in system[place]]
        for other in range(len(system)):
            if other != place:
                factor = system[other][place]
                system[other] = [a - factor * b for a, b in zip(system[other], system[place], strict=True)]
    return [row[-1] / length for row, length in zip(system, lengths, strict=True)]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
