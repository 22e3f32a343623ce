from __future__ import annotations

import pytest

from hpcdist.errors import PlanError
from hpcdist.experiment.image import Image, read
from tests.wording import Wording


@pytest.mark.parametrize(
    ("text", "image", "host"),
    [
        ("python", Image("registry", "python"), ""),
        ("pytorch/pytorch:2.4", Image("registry", "pytorch/pytorch:2.4"), ""),
        ("docker://nvcr.io/nvidia/x:1", Image("registry", "nvcr.io/nvidia/x:1"), "nvcr.io"),
        ("nvcr.io#nvidia/x:1", Image("registry", "nvcr.io/nvidia/x:1"), "nvcr.io"),
        ("localhost/x", Image("registry", "localhost/x"), "localhost"),
        ("here:5000/x@sha256:ab", Image("registry", "here:5000/x@sha256:ab"), "here:5000"),
        ("/images/torch", Image("file", "/images/torch"), ""),
        ("./my image", Image("file", "./my image"), ""),
        ("x.sif", Image("file", "x.sif"), ""),
        ("nvidia+x.sqsh", Image("file", "nvidia+x.sqsh"), ""),
        ("oras://ghcr.io/x:1", Image("address", "oras://ghcr.io/x:1"), ""),
    ],
)
def test_image_forms(text: str, image: Image, host: str) -> None:
    assert (read(text), read(text).host) == (image, host)


@pytest.mark.parametrize(
    "text",
    [
        "~/x.sif",
        "a b",
        "docker://",
    ],
)
def test_invalid_images(text: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        read(text)
    wording(str(caught.value))
