"""flux batch and flux run of the real flux-core, as far as they need no broker: the jobspec of --dry-run.

Run by a Python that has ``flux-python``. That is only half of Flux: the library behind it is not there, so
what it would answer is made up here, and nothing of it reaches a jobspec.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Anything:
    """What is asked for and leads nowhere: every attribute, and what every call gives, is one more."""

    def __init__(self, **known: Any) -> None:
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Anything:
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __int__(self) -> int:
        return 1


def without_library() -> None:
    """Put empty modules in the place of those that are made of C."""
    spec = find_spec("flux")
    assert spec is not None
    assert spec.origin is not None
    sources = Path(spec.origin).parent.rglob("*.py")
    names = {name for file in sources for name in re.findall(r"FLUX_[A-Z0-9_]+", file.read_text())}

    class Library(Anything):
        def __dir__(self) -> list[str]:
            return sorted(names)

    for name in ("_core", "_hostlist", "_idset", "_security"):
        module: Any = types.ModuleType(f"_flux.{name}")
        module.ffi = Anything(NULL=None, error=type("Error", (Exception,), {}), string=lambda *_: b"x")
        module.lib = Library(**{constant: number for number, constant in enumerate(sorted(names))})
        sys.modules[f"_flux.{name}"] = module
    flux: Any = importlib.import_module("flux")
    flux.Flux = Anything()


def main() -> None:
    without_library()
    verb, words = sys.argv[1], sys.argv[2:]
    module: Any = importlib.import_module(f"flux.cli.{verb}")
    for loaded in [found for name, found in sys.modules.items() if name.startswith("flux")]:
        if hasattr(loaded, "conf_builtin_get"):
            vars(loaded)["conf_builtin_get"] = lambda *_, **__: ""
    commands: list[Any] = [
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__
    ]
    made = commands[0](f"flux {verb}")
    if words == ["--flags-of-it"]:
        flags = (flag for action in made.parser._actions for flag in action.option_strings)
        sys.stdout.write("\n".join(flags))
        return
    sys.argv = ["flux", verb, *words]
    try:
        made.main(made.parser.parse_args(words))
    except ValueError as error:
        sys.stderr.write(f"flux-{verb}: ERROR: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
