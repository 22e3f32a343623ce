"""All known variables by name, and for which prefixes the tables are complete."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpcdist.lint import horovod, libfabric, nccl, nccl_debugging, nccl_others, others
from hpcdist.lint.entry import GUIDE, Entry
from hpcdist.lint.prefixes import misspelt_prefix
from hpcdist.spelling import closest

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
    horovod.HOROVOD,
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

    ``near``: the most wrong letters of a name that is taken for a misspelt known one.
    """

    prefix: str
    program: str
    source: str
    all_known: bool = False
    near: int = 1


OF_RCCL: Final = Family("RCCL_", "RCCL", others.RCCL_SOURCE)

FAMILIES: Final = (
    Family("TORCH_NCCL_", "PyTorch", nccl_others.TORCH),
    Family("OFI_NCCL_", "aws-ofi-nccl 1.21", others.OFI_SOURCE, all_known=True, near=3),
    Family("NCCL_", "NCCL 2.30", GUIDE, all_known=True, near=3),
    OF_RCCL,
    Family("FI_CXI_", "libfabric 2.7", libfabric.CXI_SOURCE, all_known=True, near=3),
    Family("FI_EFA_", "libfabric 2.7", libfabric.EFA_SOURCE, all_known=True, near=3),
    Family("FI_", "libfabric", libfabric.SOURCE),
    Family("UCX_", "UCX", others.UCX_SOURCE),
    Family("OMPI_MCA_", "Open MPI", others.MPI_SOURCE),
    Family("CCL_", "oneCCL", others.ONECCL_SOURCE),
    Family("HOROVOD_", "Horovod", horovod.SOURCE, all_known=True, near=2),
)


def family_of(name: str) -> Family | None:
    """Return the family of a name."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


def with_prefix(name: str) -> tuple[str, Family] | None:
    """Return the known name, and its family, of one that begins wrong: ``OROVOD_CACHE_CAPACITY``."""
    begin = misspelt_prefix(name)
    found = begin and begin + name.partition("_")[2]
    family = family_of(found) if found in KNOWN else None
    return (found, family) if found and family else None


def near(name: str, family: Family, library: str | None = None) -> str | None:
    """Return the most similar known name, None where none is similar; RCCL's own come first."""
    if library == "rccl" and family.prefix == "NCCL_":
        own = near(f"R{name}", OF_RCCL)
        if own:
            return own
    begin = len(family.prefix)
    ends = [item[begin:] for item in KNOWN if item.startswith(family.prefix) and not KNOWN[item].gone]
    found = closest(name[begin:], ends, family.near)
    return family.prefix + found if found else None
