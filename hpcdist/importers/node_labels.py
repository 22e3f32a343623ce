"""Labels of Kubernetes nodes that name a GPU, by which files select nodes.

Labels: NVIDIA's GPU feature discovery, and those of the clouds; instance types: the lists of AWS and Google.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PRODUCTS: Final = frozenset({
    "nvidia.com/gpu.product", "nvidia.com/gpu.family", "amd.com/gpu.product-name", "accelerator",
    "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name", "gpu.nvidia.com/model", "gpu.nvidia.com/class",
})  # fmt: skip
_INSTANCES: Final = frozenset({"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"})
_MODEL: Final = re.compile(r"(?:[ahbvpktl]|gh|gb|mi)\d{1,4}[a-z]?")
_MEMORY: Final = re.compile(r"\d{2,3}gb?")
_OF_INSTANCES: Final = {
    "p2": "k80", "p3": "v100", "p4d": "a100-40g", "p4de": "a100-80g", "p5": "h100", "p5e": "h200",
    "p5en": "h200", "p6-b200": "b200", "g4dn": "t4", "g5": "a10g", "g6": "l4", "g6e": "l40s",
    "a2-highgpu": "a100-40g", "a2-megagpu": "a100-40g", "a2-ultragpu": "a100-80g", "a3-highgpu": "h100",
    "a3-megagpu": "h100", "a3-ultragpu": "h200", "a4-highgpu": "b200", "g2-standard": "l4",
}  # fmt: skip


def gpu_type(labels: Mapping[str, object]) -> tuple[str, str]:
    """Return the label that names a GPU, and its type in native form; two empty texts if none does."""
    for label, value in labels.items():
        if label in _PRODUCTS and (name := _of_product(str(value))):
            return label, name
        instance = re.sub(r"^ml\.|\.[^.]*$|-\d+g$|-\d+$", "", str(value).lower())
        if label in _INSTANCES and instance in _OF_INSTANCES:
            return label, _OF_INSTANCES[instance]
    return "", ""


def _of_product(text: str) -> str:
    """Return the type of a product: ``a100-80g`` of ``NVIDIA-A100-SXM4-80GB``."""
    parts = re.split(r"[^a-z0-9]+", text.lower())
    model = next(filter(_MODEL.fullmatch, parts), "")
    memory = next(filter(_MEMORY.fullmatch, parts), "")
    return "-".join(filter(None, (model, memory.removesuffix("b")))) if model else ""
