"""The repository that ``batch.code: git`` clones: its URL, and a branch, tag or commit.

Sources: gitremote-helpers(7), git-check-ref-format(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hpcdist.errors import Problem

if TYPE_CHECKING:
    from hpcdist.experiment.model import Experiment

_USER: Final = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)@", re.IGNORECASE)
_SSH: Final = ("ssh://", "git+ssh://", "ssh+git://")
_REF: Final = re.compile(r"[\w.][\w./@#=,+-]*")
_LOGIN: Final = "use an ssh key or a credential helper of git"


def problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield what keeps the code from being cloned, and warnings of keys that have no effect."""
    batch, build = experiment.batch, experiment.build
    if batch.max_code_size is not None and batch.code != "snapshot":
        message = "'max_code_size' has no effect without `code: snapshot`"
        yield Problem(message, ("batch", "max_code_size"), "remove it", "warning")
    if batch.code != "git" or not build:
        return
    if build.git and (why := url_error(build.git)):
        yield Problem(f"{without_credentials(build.git)!r} cannot be cloned: {why}", ("build", "git"), _LOGIN)
    for key in ("commit", "branch"):
        if (ref := getattr(build, key)) and not is_ref(ref):
            hint = f"write {key}: NAME"
            yield Problem(f"{ref!r} is not the name of a branch, tag or commit", ("build", key), hint)


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
