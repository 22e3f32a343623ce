"""A commit of a repository, fetched without its history.

A server may serve no commit by its id, and none by an abbreviated one: then all branches and tags are
fetched. The URL, in which there are no credentials, stays in the clone as ``origin``.
Sources: git-fetch(1), git-checkout(1).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hpcdist.code import git
from hpcdist.errors import ConfigError, Problem
from hpcdist.host.command import Completed, Runner

_TIMEOUT: Final = 300.0
_ID: Final = re.compile(r"[0-9a-f]{4,64}")
_PATH: Final = ("build", "git")
_ALL: Final = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


def clone(url: str, ref: str, target: Path, runner: Runner) -> str:
    """Check out a branch, tag or commit of a repository in a new folder; return the id of the commit.

    Raises:
        ConfigError: when it cannot be fetched; it has git's own words.
        OSError: when the folder cannot be made.
    """
    target.mkdir(mode=0o700)

    def run(*words: str) -> Completed:
        return runner.run(git.command(target, *words, timeout=_TIMEOUT))

    _check(run("init", "--quiet"), url, ref)
    _check(run("remote", "add", "origin", url), url, ref)
    fetched = run("fetch", "--quiet", "--no-tags", "--depth=1", "origin", ref)
    if not fetched.ok and not fetched.timed_out and _ID.fullmatch(ref):
        _check(run("fetch", "--quiet", "origin", *_ALL), url, ref)
        _check(run("checkout", "--quiet", "--detach", ref), url, ref)
    else:
        _check(fetched, url, ref)
        _check(run("checkout", "--quiet", "--detach", "FETCH_HEAD"), url, ref)
    if (target / ".gitmodules").is_file():
        _check(run("submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"), url, ref)
    return _check(run("rev-parse", "HEAD"), url, ref).stdout.strip()


def _check(done: Completed, url: str, ref: str) -> Completed:
    if done.ok:
        return done
    if done.missing:
        raise ConfigError(Problem("there is no git on this machine", ("batch", "code")))
    why = f"no answer in {_TIMEOUT:.0f} s" if done.timed_out else done.stderr.strip()
    hint = "git asks for no password here: use an ssh key or a credential helper, and try `git ls-remote`"
    raise ConfigError(Problem(f"{ref} of {url} cannot be fetched: {why}", _PATH, hint))
