"""Sizes of Azure's virtual machines: their GPUs and the type of these, or the CPUs and memory of others.

Source: the pages of the series below https://learn.microsoft.com/azure/virtual-machines/sizes/overview,
"Accelerators" and "Basics". Those of retired sizes give half as many GPUs where a card with two counts as
one (NC, NV); of sizes that get a part of a GPU, the one that their programs see is counted.
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.importers.machines import Machine

_PREFIX: Final = re.compile(r"^(standard|singularity|basic)[._]", re.IGNORECASE)
_GPUS: Final = (
    (r"NC(\d+)r?s?", 6, "K80"),
    (r"NC(\d+)r?s?_v2", 6, "P100"),
    (r"NC(\d+)r?s?_v3", 6, "V100"),
    (r"NC(\d+)as_T4_v3", 16, "T4"),
    (r"NC(\d+)ads_A100_v4", 24, "A100-80G"),
    (r"NCC?(\d+)adi?s_H100_v5", 40, "H100"),
    (r"NC(\d+)l?ds_xl_RTXPRO6000BSE_v6", 128, "RTXPRO6000"),
    (r"ND(\d+)r?s", 6, "P40"),
    (r"ND(40)(?:r?s)?_v2", 5, "V100-32G"),
    (r"ND(96)am\w*_v4", 12, "A100-80G"),
    (r"ND(96)\w*_v4", 12, "A100"),
    (r"ND(96)\w*_(H100|H200|MI300X)_v5", 12, r"\2"),
    (r"ND(128)\w*_(GB[23]00)_v6", 32, r"\2"),
    (r"NV(\d+)s?(?:_v2)?", 6, "M60"),
    (r"NV(\d+)s_v3", 12, "M60"),
    (r"NV(\d+)as_v4", 32, "MI25"),
    (r"NV(\d+)adm?s_A10_v5", 36, "A10"),
    (r"NV(\d+)adm?s_V710_v5", 1000, "V710"),
    (r"NG(\d+)adm?s_V620_v1", 1000, "V620"),
)
"""The CPUs in a name, how many of them come with a GPU, and its type."""
_CPUS: Final = (
    (r"D(\d+)[a-km-z]*_v[3-7]", 4.0),
    (r"E([24]|8|16|20|32|48)[a-z]*_v[3-7]", 8.0),
    (r"F(\d+)s?(?:_v2)?", 2.0),
    (r"FX(\d+)mds", 21.0),
    (r"A(\d)_v2", 2.0),
    (r"A(\d)m_v2", 8.0),
)
"""The CPUs in a name, and the GiB of memory for each."""
_NUMBERED: Final = re.compile(r"DS?(\d+)(?:_v2)?", re.IGNORECASE)
_SIZE_OF_NUMBER: Final = {
    **{1 + at: (2**at, 3.5 * 2**at) for at in range(5)},
    **{10 + at: (2**at, 7.0 * 2**at) for at in range(1, 5)},
    15: (20, 140.0),
}
"""The CPUs and GiB of D and DS of the first two generations, whose names have a number instead."""
_WITHOUT_GPUS: Final = re.compile(r"(A|B|D|DS|DC|E|EC|F|FX|G|GS|H|HB|HC|HX|L|LS|M)\d.*", re.IGNORECASE)


def machine(size: str) -> Machine | None:
    """Return the machine of a size (``Standard_ND96asr_v4``), one without GPUs or CPUs if it only lacks GPUs.

    None for one that is not known.
    """
    name = _PREFIX.sub("", size)
    for pattern, each, kind in _GPUS:
        if found := re.fullmatch(pattern, name, re.IGNORECASE):
            return Machine(max(1, int(found[1]) // each), found.expand(kind).upper())
    for pattern, gib in _CPUS:
        if found := re.fullmatch(pattern, name, re.IGNORECASE):
            return Machine(cpus=int(found[1]), gib=int(found[1]) * gib)
    found = _NUMBERED.fullmatch(name)
    if found and (of_number := _SIZE_OF_NUMBER.get(int(found[1]))):
        return Machine(cpus=of_number[0], gib=of_number[1])
    return Machine() if _WITHOUT_GPUS.fullmatch(name) else None
