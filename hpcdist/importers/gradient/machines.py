"""Machine types of Gradient: the GPUs of each and their type, or the CPUs and memory of those without.

Paperspace's own are those of its documentation (https://github.com/Paperspace/Docs,
``instances/instance-types.md`` and ``more/instance-types/README.md``; the newest of
https://docs.digitalocean.com/products/paperspace/machines/details/availability), where ``x2``, ``x4`` and
``x8`` count GPUs; of C1 to C10 gradient-cli has all names (``MACHINE_TYPES`` of its ``constants.py``).
Private clusters on AWS name its machines: those with GPUs are of https://github.com/rapidsai/deployment
(``source/cloud/aws``) and AWS's tables of P2, G3 and G4, the others of
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/compute-optimized-instances.html.
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.errors import did_you_mean
from hpcdist.importers.machines import Machine

_FREE: Final = {"Free-CPU": "C3", "Free-GPU+": "GPU+", "Free-GPU": "GPU+", "Free-P5000": "P5000"}
"""Those of the free tier (``more/instance-types/free-instances.md`` there)."""
_MANY: Final = re.compile(r"(.+)x([248])")
_ONE_GPU: Final = (
    "M4000", "P4000", "P5000", "P6000", "RTX4000", "RTX5000", "A4000", "A5000", "A6000", "A100", "A100-80G",
    "V100", "V100-32G", "GV100", "K80", "P100", "H100",
)  # fmt: skip
_GPUS: Final = {
    **{kind: (1, kind) for kind in _ONE_GPU},
    "GPU+": (1, "M4000"),
    "p2.xlarge": (1, "K80"), "p2.8xlarge": (8, "K80"), "p2.16xlarge": (16, "K80"),
    "p3.2xlarge": (1, "V100"), "p3.8xlarge": (4, "V100"), "p3.16xlarge": (8, "V100"),
    "p3dn.24xlarge": (8, "V100-32G"), "p4d.24xlarge": (8, "A100"),
    "g3s.xlarge": (1, "M60"), "g3.4xlarge": (1, "M60"), "g3.8xlarge": (2, "M60"), "g3.16xlarge": (4, "M60"),
    "g4dn.xlarge": (1, "T4"), "g4dn.2xlarge": (1, "T4"), "g4dn.4xlarge": (1, "T4"),
    "g4dn.12xlarge": (4, "T4"), "g4dn.metal": (8, "T4"),
}  # fmt: skip
_CPUS: Final = {
    **dict.fromkeys(("C1", "C4", "C6", "C8", "C9", "C10"), (0, 0)),  # no table has their size
    "C2": (1, 1), "C3": (2, 2), "C5": (4, 8), "C7": (12, 30), "G1": (1, 3.75), "G6": (6, 24), "G12": (12, 64),
    "c5.large": (2, 4), "c5.xlarge": (4, 8), "c5.2xlarge": (8, 16), "c5.4xlarge": (16, 32),
    "c5.9xlarge": (36, 72), "c5.12xlarge": (48, 96), "c5.18xlarge": (72, 144), "c5.24xlarge": (96, 192),
}  # fmt: skip
"""CPUs and GiB of memory."""


def machine(name: str) -> Machine | None:
    """Return the machine of that name, None where there is none."""
    name = _FREE.get(name, name)
    if name in _CPUS:
        cpus, gib = _CPUS[name]
        return Machine(cpus=cpus, gib=gib)
    many = _MANY.fullmatch(name)
    if many and _GPUS.get(many[1], (0, ""))[0] == 1:
        return Machine(int(many[2]), _GPUS[many[1]][1])
    return Machine(*_GPUS[name]) if name in _GPUS else None


def nearest(name: str) -> str:
    """Return the hint that names the machine of Gradient with the nearest name; empty if none is near."""
    hint = did_you_mean(name, (*_GPUS, *_CPUS, *_FREE))
    return hint if hint.startswith("did") else ""
