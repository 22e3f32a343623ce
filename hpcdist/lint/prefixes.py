"""How the names begin that the lint knows, and beginnings that are most likely misspelt ones."""

from __future__ import annotations

from typing import Final

from hpcdist.spelling import closest

PREFIXES: Final = (
    "NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_", "UCX_", "OMPI_MCA_", "PRTE_MCA_",
    "PMIX_MCA_", "CCL_", "RDMAV_", "HOROVOD_",
)  # fmt: skip
"""The prefixes of the variables that the lint knows."""

_MISSPELT: Final = ("NCCL_", "HOROVOD_")
"""The others are short, or two words."""


def misspelt_prefix(name: str) -> str | None:
    """Return the prefix that the first word of a name misspells; None for a good one, and for another word.

    One letter too few or too many; HCCL_ and MCCL_ are the prefixes of other libraries.
    """
    begin, underscore, _ = name.partition("_")
    if not underscore or name.startswith(PREFIXES):
        return None
    near = [prefix for prefix in _MISSPELT if len(prefix) != len(begin) + 1]
    return next((prefix for prefix in near if closest(begin, [prefix[:-1]], 1)), None)
