"""Plain: a runtime that each task's shell starts, so that the launcher knows nothing of it."""

from __future__ import annotations

from collections.abc import Mapping

from hpcdist.plan.model import Container, Environment, JobSpec
from hpcdist.plan.values import Word
from hpcdist.site.dialects.container import Runtime


class Plain:
    """A runtime without words for the launcher."""

    launchers: frozenset[str] = frozenset()
    single_options: Mapping[str, str] = {}

    def launcher_words(
        self, job: JobSpec, container: Container, environment: Environment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return nothing: the launcher knows nothing of it."""
        del job, container, environment, runtime
        return ()
