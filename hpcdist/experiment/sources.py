"""Where a program comes from: the forms of container images, and the repository of its code.

Sources: gitremote-helpers(7), git-check-ref-format(1).
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from hpcdist.base.errors import PlanError, Problem

# --- Container images

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


def image_of(text: str) -> Image:
    """Return an image by its name.

    A path begins with ``/``, ``./`` or ``../``, or has a suffix of image files; any other name is an image of
    a registry, also with ``docker://`` in front or in enroot's form, ``REGISTRY#NAME``.

    Raises:
        PlanError: when it has none of these forms.
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


def image_error(image: Image, runtime: str, hint: str) -> PlanError:
    """Return the error of a runtime that does not support images of this form."""
    return PlanError(Problem(f"{runtime} cannot run {image.text!r}", _PATH, hint))


# --- The repository of a job's code

_USER: Final = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)@", re.IGNORECASE)
_SSH: Final = ("ssh://", "git+ssh://", "ssh+git://")
_REF: Final = re.compile(r"[\w.][\w./@#=,+-]*")


def without_credentials(url: str) -> str:
    """Return a URL without user, password and query; ssh keeps its user, who is no secret.

    >>> without_credentials("https://me:secret@example.org/x.git?token=1")
    'https://example.org/x.git'
    """
    if match := _USER.match(url):
        user = f"{match[2].partition(':')[0]}@" if match[1].lower() in _SSH else ""
        url = f"{match[1]}{user}{url[match.end() :]}"
    return re.split(r"[?#]", url, maxsplit=1)[0] if "://" in url else url


def url_error(url: str) -> str:
    """Return why nothing can be cloned from this URL or path; empty if that can be tried."""
    if url.startswith("-") or not url.isprintable() or url != url.strip():
        return "it is not the URL or path of a repository"
    if re.match(r"[A-Za-z0-9.+-]+::", url):
        return "git would run a program of this name"
    if without_credentials(url) != url:
        return "it has a name, password or query, which could be secret and would be kept with the run"
    return ""


def is_ref(text: str) -> bool:
    """Whether this can be the name of a branch, a tag or a commit."""
    odd = ".." in text or "//" in text or "@{" in text or text.endswith((".lock", "/", "."))
    return bool(_REF.fullmatch(text)) and not odd
