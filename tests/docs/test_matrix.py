"""The matrix of the pages claims no more than the tests do."""

from __future__ import annotations

import ast

import pytest

from hpcdist.layers.frameworks import frameworks
from hpcdist.schedulers import schedulers
from tests.docs.pages import keeps_table, table
from tests.docs.tried import (
    PLACING,
    TESTS,
    TRAINING,
    Cell,
    Run,
    cell_of,
    cells,
    example_file,
    function,
    parameters,
    stands_in,
)
from tests.test_examples import EXAMPLES
from tests.test_golden import Case


def matrix() -> str:
    """Return the matrix: a row for a batch system and launcher, a column for a framework.

    Pairs that are only planned are listed below it.
    """
    found, names = cells(), frameworks.names()
    order = schedulers.names()
    pairs = {(cell.scheduler, cell.launcher): order.index(cell.scheduler) for cell in found}
    rows = [
        [
            f"`{scheduler}`{' (stand-in)' if stands_in(scheduler) else ''}",
            f"`{launcher}`",
            *(found.get(Cell(scheduler, launcher, name), "no").replace("planned", "") for name in names),
        ]
        for scheduler, launcher in sorted(pairs, key=pairs.__getitem__)
    ]
    tried = [row for row in rows if {*row[2:]} - {"", "no"}]
    planned = ", ".join(f"{row[0]} {row[1]}" for row in rows if row not in tried)
    shown = table(["scheduler", "launcher", *(f"`{name}`" for name in names)], tried)
    return f"{shown}\nOnly planned: {planned}.\n"


def test_the_matrix_is_that_of_the_tests() -> None:
    keeps_table("matrix", f"\n{matrix()}\n")


@pytest.mark.parametrize("run", [*TRAINING, *PLACING], ids=lambda run: f"{run.test}-{run.framework}")
def test_what_is_said_to_have_run_is_run_by_that_test(run: Run) -> None:
    text = (TESTS / run.test.partition("::")[0]).read_text()
    tried = [cell_of(Case(example_file(name), "testbed")) for name in EXAMPLES if name in _said(run.test)]
    if given := parameters(run.test, "launcher"):
        assert given == tuple(run.launchers.split())
    else:
        assert run.launchers in text or run.launchers in {run.scheduler, *(cell.launcher for cell in tried)}
    assert run.framework in {cell.framework for cell in tried} or f'"{run.framework}"' in text
    assert bool(tried) == (run in TRAINING)


def _said(test: str) -> str:
    """Return what stands in a test and over it."""
    return ast.unparse(function(test))


def test_stand_ins_are_told_from_batch_systems() -> None:
    assert [name for name in schedulers.names() if stands_in(name)] == ["pbs", "lsf", "flux"]
