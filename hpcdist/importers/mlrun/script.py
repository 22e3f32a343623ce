"""A standalone module, written as ``mlrun.py`` beside a program that is no handler. Python 3.8 or later.

Where mlrun is installed, the program gets that. Elsewhere it gets ``stand_in.py``, beside this file, and
``mlrun.get_or_create_ctx`` returns a context with the params of the run ($MLRUN_EXEC_CONFIG).
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from typing import Any


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.8 has no functools.cache
def context() -> Any:
    """Return the context of the program, which is one however often it is asked for."""
    stand_in: Any = importlib.import_module("stand_in")
    spec = json.loads(os.environ.get("MLRUN_EXEC_CONFIG") or "{}").get("spec", {})
    params = spec.get("parameters", {})
    stand_in.tracking.log_params(params)
    return stand_in.MLClientCtx(params, spec.get("inputs", {}))


def replace_itself() -> None:
    """Put mlrun, or what stands in for it, into the place of this module."""
    own, tracking = sys.modules[__name__], importlib.import_module("hpcdist_tracking")
    tracking.step_aside(__name__, "execution")
    if sys.modules[__name__] is own:
        stand_in: Any = importlib.import_module("stand_in").StandIn
        stand_in.names["get_or_create_ctx"] = lambda *_, **__: context()
        sys.meta_path.append(stand_in)
        sys.modules[__name__] = stand_in(__name__)


if __name__ == "mlrun":
    replace_itself()
