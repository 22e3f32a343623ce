"""How much work something is, without a clock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """Return how many functions of Python this work calls, when it is done a second time."""
    work()  # with what is imported and compiled once
    found = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal found
        found += event == "call"

    gc.disable()  # it calls what other work left behind
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found
