"""Roles of a run of Polyaxon 1 and 2, and their conversion to replicas."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hpcdist.errors import Path
from hpcdist.importers.container import command_path
from hpcdist.importers.polyaxon.contexts import ARTIFACTS
from hpcdist.importers.reading import Reading

_ARTIFACTS: Final = re.compile(rf"\$\{{?{ARTIFACTS}\b")
_BY_ROLE: Final = "write them for all, or set them in the command by $HPCDIST_ROLE"


class Replica(NamedTuple):
    """One role and its number of replicas.

    ``command`` is None for the image's entrypoint, which gets ``args``, shell text like the command.
    ``files`` and ``exports`` are lines in front of its command, which is run in ``folder``, a shell word.
    """

    path: Path
    count: Any
    command: str | None
    folder: str | None
    amounts: dict[str, dict[str, object]]
    variables: dict[str, str]
    image: str | None
    args: str = ""
    files: str = ""
    exports: str = ""
    nodes: Mapping[str, str] = MappingProxyType({})

    def put_needs(self, read: Reading, section: str) -> None:
        """Put its resources and its node selector into a section."""
        if self.amounts:
            read.put(f"{section}.resources", self.amounts, *self.path, "container", "resources")
        if self.nodes:
            read.put(f"{section}.node_selector", self.nodes, *self.path, "environment", "nodeSelector")


def put_alone(read: Reading, replica: Replica) -> None:
    """Put a replica as the master."""
    put_shared(read, replica)
    replica.put_needs(read, "environment")


def put_shared(read: Reading, replica: Replica) -> None:
    """Put what all replicas have in common."""
    where = (*replica.path, "container")
    if replica.command is None:
        _put_entrypoint(read, replica)
    elif replica.command:
        text = replica.files + replica.exports + _in_folder(replica.command, replica.folder)
        folder = f"{ARTIFACTS}=$PWD\n" if _ARTIFACTS.search(text) and f"{ARTIFACTS}=" not in text else ""
        read.put("run.cmd", folder + text, *command_path(read, *where))
    for name, value in replica.variables.items():
        put_variable(read, name, value, *where, "env")
    if replica.image:
        read.put("build.image", replica.image, *where, "image")


def _put_entrypoint(read: Reading, replica: Replica) -> None:
    where = (*replica.path, "container")
    for lines, key in ((replica.files, (*replica.path, "init")), (replica.exports, (*where, "env"))):
        if lines:
            hint = "write the image's program as `command`"
            read.refuse(
                *key, why="only a command can do this, and this is the image's own program", hint=hint
            )
    read.put("run.entrypoint", "image", *where, "image")
    if replica.args:
        read.put("run.args", replica.args, *where, "args")
    if replica.folder:
        read.put("run.workdir", shlex.split(replica.folder)[0], *where, "workingDir")


def _in_folder(text: str, folder: str | None) -> str:
    if not folder:
        return text
    return f"cd {folder} || exit\n{text}" if "\n" in text else f"cd {folder} && {text}"


def put_variable(read: Reading, name: str, value: str, *source: str | int) -> None:
    """Set a variable of the job, whose name may contain characters that a shell does not allow."""
    if not isinstance(read.native.get("environment", {}).get("env_vars"), dict):
        read.put("environment.env_vars", {}, *source)
    read.native["environment"]["env_vars"].put(name, value, read.place(*source))


def put_count(read: Reading, key: str, count: object, role: Replica, default: str) -> None:
    """Put the number of replicas besides the master, and the resources of each."""
    read.put(f"environment.replicas.{key}", count, *role.path, "replicas")
    if count != 0:
        role.put_needs(read, f"environment.replicas.{default}")


def one_less(read: Reading, count: Any, path: Path) -> object:
    """Return the number of workers besides the first, which is the master."""
    if isinstance(count, int) and count >= 1:
        return count - 1
    if isinstance(count, str) and count.startswith("{{") and count.endswith("}}"):
        return f"{{{{ ({count[2:-2].strip(' -')}) - 1 }}}}"
    read.refuse(*path, why=f"{count!r} replicas cannot be started", hint="write a whole number of 1 or more")
    return 0


def check_same(read: Reading, one: Replica, other: Replica) -> None:
    """Refuse roles that differ in what all replicas of an experiment share."""
    for what, key, fields, hint in (
        ("command", ("container", "command"), ("command", "args"), "let the program check $HPCDIST_ROLE"),
        ("image", ("container", "image"), ("image",), "write the same image"),
        ("directory", ("container", "workingDir"), ("folder",), "write the same directory"),
        ("list of files", ("init",), ("files",), "write the same files"),
        ("list of variables", ("container", "env"), ("variables", "exports"), _BY_ROLE),
    ):
        if any(getattr(one, field) != getattr(other, field) for field in fields):
            why = f"the {what} differs from that of {one.path[-1]}"
            read.refuse(*other.path, *key, why=why, hint=hint)
