"""The only extension mechanism: objects by name, each imported when it is first used."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar, cast

from hpcdist.base.errors import ConfigError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects of one kind by name: built-in ones, and plug-ins by entry points ``hpcdist.<kind>s``.

    ``builtin`` maps a name to ``module:attribute``. A plug-in may not replace a built-in name.
    """

    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self._builtin = dict(builtin)

    def get(self, name: str) -> T:
        """Return the object of that name.

        Raises:
            ConfigError: when no object has it; the hint names the closest.
        """
        target = self._builtin.get(name) or self._plugins().get(name)
        if target is None:
            raise ConfigError(unknown(self.kind, name, self.names()))
        module, _, attribute = target.partition(":")
        return cast("T", getattr(importlib.import_module(module), attribute))

    def __contains__(self, name: str) -> bool:
        """Whether an object has this name; plug-ins are searched only if no built-in object has it."""
        return name in self._builtin or name in self._plugins()

    def names(self) -> tuple[str, ...]:
        """Return every name, the built-in ones first."""
        return (*self._builtin, *(name for name in self._plugins() if name not in self._builtin))

    def objects(self) -> Iterator[T]:
        """Yield every object, the built-in ones first; plug-ins are searched only when it reaches them."""
        yield from map(self.get, self._builtin)
        yield from (self.get(name) for name in self._plugins() if name not in self._builtin)

    def _plugins(self) -> Mapping[str, str]:
        return _entry_points(f"hpcdist.{self.kind}s", tuple(sys.path))


@functools.lru_cache  # each search reads a file of every package, 4 ms in a small environment
def _entry_points(group: str, path: tuple[str, ...]) -> Mapping[str, str]:
    """Return the entry points of the packages on ``path``, which is ``sys.path``, by name."""
    from importlib.metadata import entry_points  # 10 ms, needed only for names that are not built in

    del path
    return {entry.name: entry.value for entry in entry_points(group=group)}
