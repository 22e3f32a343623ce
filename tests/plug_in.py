"""A package of somebody else's that brings an object to hpcdist, for as long as a test lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def plugged_in(folder: Path, kind: str, module: str, code: str) -> Iterator[None]:
    """Install a module whose object has the module's name in capitals, as a plug-in of this kind."""
    info = folder / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hpcdist.{kind}s]\n{module} = {module}:{module.upper()}\n")
    (folder / f"{module}.py").write_text(code)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(module, None)
