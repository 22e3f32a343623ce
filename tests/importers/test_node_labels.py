from __future__ import annotations

import pytest

from hpcdist.importers.kubeflow.pod import gpu_type


@pytest.mark.parametrize(
    ("label", "value", "kind"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", "a100-80g"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", "h100-80g"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-v100", "v100"),
        ("amd.com/gpu.product-name", "AMD_Instinct_MI250X", "mi250x"),
        ("node.kubernetes.io/instance-type", "ml.p5.48xlarge", "h100"),
        ("node.kubernetes.io/instance-type", "a2-ultragpu-8g", "a100-80g"),
        ("node.kubernetes.io/instance-type", "m5.large", ""),
        ("nvidia.com/gpu.product", "gpu", ""),
        ("zone", "a100", ""),
    ],
)
def test_types(label: str, value: str, kind: str) -> None:
    assert gpu_type({"other": "x", label: value}) == ((label, kind) if kind else ("", ""))
