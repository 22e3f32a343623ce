"""All known variables by name, and for which prefixes the tables are complete."""

from __future__ import annotations

from collections.abc import Sequence
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
    others.RCCL_OWN,
    others.UCX,
    others.OPEN_MPI,
    others.ONECCL,
)
KNOWN: Final = {entry.name: entry for table in TABLES for entry in table}

_BY_CAPITALS: Final = {name.upper(): name for name in KNOWN}


def spelled(name: str) -> str | None:
    """Return the known name that differs from this one by capital and small letters only."""
    meant = _BY_CAPITALS.get(name.upper())
    return None if meant == name else meant


def entry_of(name: str, library: str | None) -> Entry | None:
    """Return what is known of a variable; RCCL reads some of NCCL's in its own way."""
    return (others.RCCL.get(name) if library == "rccl" else None) or KNOWN.get(name)


class Family(NamedTuple):
    """Names with one prefix, read by one program; ``all_known``: no other name with it is read.

    ``near``: from which similarity on (0 to 1) a name is taken for a misspelt known one.
    """

    prefix: str
    program: str
    source: str
    all_known: bool = False
    near: float = 0.85


OF_RCCL: Final = Family("RCCL_", "RCCL", others.RCCL_SOURCE)
_SHORT: Final = 14
_OF_SHORT: Final = 0.8
"""The similarity for names of up to ``_SHORT`` letters: those with a common ending are similar too soon."""

FAMILIES: Final = (
    Family("TORCH_NCCL_", "PyTorch", nccl_others.TORCH),
    Family("OFI_NCCL_", "aws-ofi-nccl 1.21", others.OFI_SOURCE, all_known=True, near=0.75),
    Family("NCCL_", "NCCL 2.30", GUIDE, all_known=True, near=0.75),
    OF_RCCL,
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


def near(name: str, family: Family, library: str | None = None) -> str | None:
    """Return the most similar known name, None where none is similar; RCCL's own come first."""
    if library == "rccl" and family.prefix == "NCCL_":
        own = near(f"R{name}", OF_RCCL)
        if own:
            return own
    begin = len(family.prefix)
    ends = [item[begin:] for item in KNOWN if item.startswith(family.prefix) and not KNOWN[item].gone]
    found = _nearest(name[begin:], ends, family.near)
    return family.prefix + found if found else None


def _nearest(end: str, ends: Sequence[str], ratio: float) -> str | None:
    import difflib  # needed for warnings only

    swapped = [item for item in ends if sorted(item) == sorted(end)]
    cutoff = ratio if len(end) > _SHORT else max(ratio, _OF_SHORT)
    found = swapped or difflib.get_close_matches(end, ends, n=1, cutoff=cutoff)
    return found[0] if found else None
