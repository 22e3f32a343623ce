"""Names of params that templates can have."""

from __future__ import annotations

import keyword
import re
from typing import Final

_OF_TEMPLATES: Final = frozenset({"true", "false", "none", "range", "loop", "self"})


def param_name(name: str) -> str:
    """Return the name that templates can have for a param: ``learning_rate`` for ``learning-rate``."""
    param = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not param.isidentifier() or param.lower() in _OF_TEMPLATES or keyword.iskeyword(param):
        param = f"_{param}" if param[:1].isdigit() else f"{param}_"
    return param
