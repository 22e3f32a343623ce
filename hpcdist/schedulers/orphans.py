"""Jobs that can never start, because what they wait for ended otherwise."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class EndsOrphans(Protocol):
    """What a scheduler may have besides: a directive by which a job ends as soon as it can never start.

    Without it the job waits for ever, unless the site has configured that. PBS and Flux end such jobs anyway.
    """

    @property
    def orphan_directive(self) -> str:
        """The directive."""
        ...
