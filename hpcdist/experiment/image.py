"""Images: the forms in which a file can name a container image, for every runtime."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from hpcdist.errors import PlanError, Problem

_ENVIRONMENT: Final = ".toml"
_ENDINGS: Final = (".sif", ".sqsh", ".squashfs", ".img", _ENVIRONMENT)
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][\w./:@+-]*", re.ASCII)
_PATH: Final = ("build", "image")


class Image(NamedTuple):
    """An image and its form.

    ``registry``: an image of a registry, as Docker names it; ``file``: a file or a folder; ``address``: a URL
    with another scheme (``oras://``).
    """

    form: Literal["registry", "file", "address"]
    text: str

    @property
    def is_environment(self) -> bool:
        """Whether it is a file that describes an environment of CSCS' Container Engine (EDF)."""
        return self.form == "file" and self.text.endswith(_ENVIRONMENT)

    @property
    def host(self) -> str:
        """The registry's host, "" for none: a host has a dot or a port, or is localhost."""
        first, slash, _ = self.text.partition("/") if self.form == "registry" else ("", "", "")
        return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def read(text: str) -> Image:
    """Return an image by its name.

    A path begins with ``/``, ``./`` or ``../``, or has a suffix of image files; any other name is an image of
    a registry, also with ``docker://`` in front or in enroot's form, ``REGISTRY#NAME``.

    Raises:
        PlanError: when it is none of these.
    """
    scheme, colon, rest = text.partition("://")
    if colon and scheme != "docker":
        return Image("address", text)
    name = rest if colon else text
    if name.startswith(("~", "$")):
        hint = "write the absolute path, or one relative to the submit directory (./x.sif)"
        raise PlanError(Problem(f"variables and ~ are not expanded in {text!r}", _PATH, hint))
    if not colon and (name.startswith(("/", "./", "../")) or name.endswith(_ENDINGS)):
        return Image("file", name)
    reference = name.replace("#", "/", 1)
    if not _REFERENCE.fullmatch(reference):
        hint = "write a name in a registry (nvcr.io/nvidia/pytorch:24.08-py3), or a path (./x.sif)"
        raise PlanError(Problem(f"{text!r} is not a valid image", _PATH, hint))
    return Image("registry", reference)


def refused(image: Image, runtime: str, hint: str) -> PlanError:
    """Return the error of a runtime that does not support images of this form."""
    return PlanError(Problem(f"{runtime} cannot run {image.text!r}", _PATH, hint))
