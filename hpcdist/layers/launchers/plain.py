"""Plain: the defaults of most launchers, from which each launcher is derived."""

from __future__ import annotations

from hpcdist.plan.model import RemoteShell


class Plain:
    """A launcher without site options, which starts ranks in the plan's order of nodes."""

    version_words: tuple[str, ...] = ()
    mpi_flavours: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    frameworks: frozenset[str] = frozenset()
    site_options: frozenset[str] = frozenset()
    reserved_options: frozenset[str] = frozenset()
    lists_cpus: bool = False
    can_go_on: bool = False
    hostfile_line: str = "%s slots=%s"
    unequal_nodes: bool = False
    provides_mpi: bool = False
    provides_pmi: bool = False
    pmi_over_components: str | None = None
    labels_output: bool = False
    labels_single: bool = False
    remote_shell: RemoteShell | None = None
    orders_nodes: bool = False
