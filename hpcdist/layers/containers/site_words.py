"""The words that a site file gives its container runtime."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.plan.model import JobSpec
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Word
from hpcdist.site.dialects.container import Runtime


def args(job: JobSpec, runtime: Runtime) -> Iterator[Word]:
    """Yield ``args``, and ``gpu_args`` where the job has GPUs."""
    for key, texts in (("args", runtime.args), ("gpu_args", runtime.gpu_args if job.gpus.library else ())):
        yield from (
            Word(text=text, origin=Origin("site", job.identity.site, f"container.{key}")) for text in texts
        )
