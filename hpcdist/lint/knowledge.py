"""All that is known, by name; and how far the names of each program are known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from hpcdist.lint import libfabric, nccl, nccl_debugging, nccl_others, others
from hpcdist.lint.entry import GUIDE, Entry

TABLES: Final[tuple[tuple[Entry, ...], ...]] = (
    nccl.SYSTEM,
    nccl_debugging.DEBUGGING,
    nccl_others.UNDOCUMENTED,
    nccl_others.PYTORCH,
    libfabric.COMMON,
    libfabric.CXI,
    libfabric.EFA,
    others.OFI,
    others.UCX,
    others.OPEN_MPI,
    others.ONECCL,
)
KNOWN: Final = {entry.name: entry for table in TABLES for entry in table}


def entry_of(name: str, library: str | None) -> Entry | None:
    """Return what is known of a variable; RCCL reads some of NCCL's in its own way."""
    return (others.RCCL.get(name) if library == "rccl" else None) or KNOWN.get(name)


class Family(NamedTuple):
    """Names that begin alike and are one program's; ``all_known``: another name is certainly not read.

    ``near``: how like a known name another must be to be taken for a slip, from 0 to 1.
    """

    prefix: str
    program: str
    source: str
    all_known: bool = False
    near: float = 0.85


FAMILIES: Final = (
    Family("TORCH_NCCL_", "PyTorch", nccl_others.TORCH),
    Family("OFI_NCCL_", "aws-ofi-nccl 1.21", others.OFI_SOURCE, all_known=True, near=0.75),
    Family("NCCL_", "NCCL 2.30", GUIDE, all_known=True, near=0.75),
    Family("RCCL_", "RCCL", others.RCCL_SOURCE),
    Family("FI_CXI_", "libfabric 2.7", libfabric.CXI_SOURCE, all_known=True, near=0.75),
    Family("FI_EFA_", "libfabric 2.7", libfabric.EFA_SOURCE, all_known=True, near=0.75),
    Family("FI_", "libfabric", libfabric.SOURCE, near=0.9),
    Family("UCX_", "UCX", others.UCX_SOURCE),
    Family("OMPI_MCA_", "Open MPI", others.MPI_SOURCE, near=0.9),
    Family("CCL_", "oneCCL", others.ONECCL_SOURCE),
)


def family_of(name: str) -> Family | None:
    """Return the family of a name."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


def near(name: str, family: Family, known: Iterable[str] = KNOWN) -> str | None:
    """Return the known name of the family that is most like this one, None where none is alike."""
    import difflib  # for those who are told something only

    begin = len(family.prefix)
    ends = [item[begin:] for item in known if item.startswith(family.prefix) and not KNOWN[item].gone]
    found = difflib.get_close_matches(name[begin:], ends, n=1, cutoff=family.near)
    return family.prefix + found[0] if found else None
