"""What jobs used, as `describe` prints it."""

from __future__ import annotations

import pytest

from hpcdist.checks.usage import NodeUse, Used
from hpcdist.cli.jobs import used


def test_how_many_nodes_are_not_shown_and_how_many_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = tuple(NodeUse("12", (0, 0), node, f"n{node}", 60, 2, None, (), 0, None) for node in range(20))
    found = Used((), nodes, (), nodes_left_out=1980)
    used.print_used(found)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "4 more nodes: --json has them",
        "1980 more were sampled and not read: these are evenly spaced",
    ]
    assert (len(used.of_used(found)["gpu_use"]), used.of_used(found)["gpu_use_left_out"]) == (20, 1980)
