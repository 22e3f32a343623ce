# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist.errors import PlanError
from hpcdist.experiment.image import Image, read


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
    ("text", "message"),
    [
        (
            "~/x.sif",
            (
                "build.image: variables and ~ are not expanded in '~/x.sif'; write the absolute path, or one relative to "
                "the submit directory (./x.sif)"
            ),
        ),
        (
            "a b",
            (
                "build.image: 'a b' is not a valid image; write a name in a registry (nvcr.io/nvidia/pytorch:24.08-py3), or a path "
                "(./x.sif)"
            ),
        ),
        (
            "docker://",
            (
                "build.image: 'docker://' is not a valid image; write a name in a registry (nvcr.io/nvidia/pytorch:24.08-py3), or a "
                "path (./x.sif)"
            ),
        ),
    ],
)
def test_invalid_images(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read(text)
    assert [str(problem) for problem in caught.value.problems] == [message]
