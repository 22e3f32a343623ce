"""Plain: what most launchers are; each says only what it is beside that."""

from __future__ import annotations

from hpcdist.plan.model import RemoteShell


class Plain:
    """A launcher that is asked for no version, has no order of nodes, and leaves the rest to the script."""

    version_words: tuple[str, ...] = ()
    mpi_flavours: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    frameworks: frozenset[str] = frozenset()
    site_options: frozenset[str] = frozenset()
    reserved_options: frozenset[str] = frozenset()
    lists_cpus: bool = False
    hostfile_line: str = "%s slots=%s"
    unequal_nodes: bool = False
    provides_mpi: bool = False
    provides_pmi: bool = False
    pmi_over_components: str | None = None
    labels_output: bool = False
    labels_single: bool = False
    remote_shell: RemoteShell | None = None
    orders_nodes: bool = False
