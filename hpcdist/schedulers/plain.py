"""Plain: the defaults of most batch systems, from which each scheduler is derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdist.schedulers.installations import Installation

if TYPE_CHECKING:
    from hpcdist.site.model import Site


class Plain:
    """A batch system that sets the GPUs of each job itself, and has one kind of nodes in a job."""

    is_batch_system: bool = True
    installation: Installation | None = None
    names_gpus: bool = True
    gpu_hook: str = ""
    sets_threads: bool = False
    has_components: bool = False
    has_arrays: bool = True
    rounds_cpus: bool = False
    requeues: bool = False
    open_mpi_support: str = ""

    def memory_refused_by(self, site: Site) -> str:
        """Return no key: memory can be requested."""
        del site
        return ""

    def cannot_exclude(self, site: Site) -> str:
        """Return nothing: nodes that are named to it are excluded on all sites."""
        del site
        return ""
