"""How often a program is started again, and how long it may take: retries, a policy and a time limit."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from hpcdist.documents.tree import Map
from hpcdist.errors import Path, Problem

_RETRIES: Final = ("max_retries", "maxRetries")
_POLICIES: Final = ("restart_policy", "restartPolicy")
_KEYS: Final = (*_RETRIES, *_POLICIES, "timeout", "ttl")
_USUAL: Final = 10
"""Restarts where the policy sets no bound, as of `environment.restart`."""


class _Terms(NamedTuple):
    """The section that has these keys, where it stands, and the file that gets them."""

    section: Map
    path: Path
    data: Map
    remarks: list[Problem]

    def take(self) -> None:
        """Move them to where they belong; the policy last, as it asks for a number."""
        for key, value in self.section.items():
            if key in _RETRIES:
                self._put("environment", "max_restarts", key, value)
            elif key == "timeout":
                is_number = isinstance(value, int) and not isinstance(value, bool)
                self._put("batch", "walltime", key, f"{value}s" if is_number else value)
            elif key == "ttl":
                self._say(key, "'ttl' has no effect: what a job leaves is kept", "", "warning")
            elif key not in _POLICIES:
                self._say(key, "unknown key", "write `max_retries` or `timeout`")
        for key in (key for key in _POLICIES if key in self.section):
            self._take_policy(key, self.section[key])

    def _take_policy(self, key: str, policy: object) -> None:
        environment = self.data.get("environment")
        number = environment.get("max_restarts") if isinstance(environment, Map) else None
        name = str(policy).replace("_", "").lower()
        if name not in {"never", "always", "onfailure"}:
            self._say(key, f"{policy!r} is no policy of restarts", "write never, on_failure or always")
        elif name == "never":
            if number:
                self._say(key, f"{policy!r}, and there are restarts", "keep one")
        elif number is None:
            self._put("environment", "max_restarts", key, _USUAL)
            message = f"{policy!r} sets no bound: after a failure it is started again, {_USUAL} times at most"
            self._say(
                key, message, "write `max_restarts`, or `restart` to go on after time limits", "warning"
            )

    def _put(self, name: str, key: str, own: str, value: object) -> None:
        target = self.data.get(name)
        target = target.copy() if isinstance(target, Map) else Map(place=self.section.place_of(own))
        if key in target:
            self._say(own, f"`{name}.{key}` is the same", "keep one")
            return
        target.put(key, value, self.section.place_of(own))
        place, key_place = self.data.value_places.get(name), self.data.key_places.get(name)
        self.data.put(name, target, place or target.place, key_place=key_place)

    def _say(
        self, key: str, message: str, hint: str, severity: Literal["error", "warning"] = "error"
    ) -> None:
        place = self.section.place_of(key)
        self.remarks.append(Problem(message, (*self.path, key), hint, severity, place))


def normalise(data: Map, remarks: list[Problem]) -> None:
    """Make ``environment.max_restarts`` and ``batch.walltime`` of them."""
    section = data.get("termination")
    if isinstance(section, Map):
        data.drop("termination")
        _Terms(section, ("termination",), data, remarks).take()
    environment = data.get("environment")
    if isinstance(environment, Map) and any(key in environment for key in _KEYS):
        own, rest = Map(place=environment.place), environment.copy()
        for key in [key for key in _KEYS if key in environment]:
            own.copy_from(environment, key)
            rest.drop(key)
        data["environment"] = rest
        _Terms(own, ("environment",), data, remarks).take()
