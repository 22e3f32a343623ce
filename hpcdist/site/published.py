"""The centre's own published examples: their settings, which are compared with hpcdist's own script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Literal, get_args

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model

# --- Measured bandwidths: what `hpcdist sites check --measured` writes into a site file


class Measured(Model, frozen=True, kw_only=True):
    """The bandwidths of the network, as a job of `hpcdist doctor --job` measured them.

    ``library``: mpi, nccl or gloo. ``date``: the day (``YYYY-MM-DD``). ``nodes``: the number of nodes.
    ``pair``: what a node usually reached with another one, each way, in GB/s. ``all_reduce``: of all tasks,
    on the bus, in GB/s, as nccl-tests define it.
    ``versions``: of hpcdist, of the library and of the driver.
    """

    library: str
    date: str
    nodes: int
    pair: float
    all_reduce: float | None = None
    versions: dict[str, str] = {}


def measured_problems(found: Sequence[Measured]) -> Iterator[Problem]:
    """Yield the problems of measured bandwidths that their types do not exclude."""
    for index, one in enumerate(found):
        if not 0 < one.pair < _MOST:
            yield Problem(f"{one.pair:g} is out of range", ("measured", index, "pair"), "write GB/s")
        if one.all_reduce is not None and not 0 <= one.all_reduce < _MOST:
            message = f"{one.all_reduce:g} is out of range"
            yield Problem(message, ("measured", index, "all_reduce"), "write GB/s")
        if not _is_day(one.date):
            hint = "write the day: 2026-11-23"
            yield Problem(f"{one.date!r} is no date", ("measured", index, "date"), hint)


def _is_day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


_MOST = 1e6
"""GB/s; more than any network has."""


# --- The centre's own published examples

Example = Literal["horovod", "pytorch", "mpi"]


class Published(Model, frozen=True, kw_only=True):
    """One published example of the centre or the vendor, by its settings.

    ``example``: the experiment whose script it is compared with. ``where``: its address. ``read``: the day on
    which it was read (``YYYY-MM-DD``). ``launch``: how a ``pytorch`` example starts its processes, as in the
    experiment's ``pytorch: {launch: torchrun}``; by default ``env``, a task a GPU. ``settings``: its settings
    in long form, each with the reason why hpcdist's script has another; without a value it has the same.
    """

    example: Example
    where: str
    read: str
    launch: Literal["env", "torchrun"] | None = None
    settings: dict[str, str | None]


def problems_of(
    published: Sequence[Published], unpublished: str | Mapping[str, str] | None
) -> Iterator[Problem]:
    """Yield the problems of examples, and of reasons for others, that their types do not exclude."""
    compared = {entry.example for entry in published}
    for name in unpublished if isinstance(unpublished, Mapping) else ():
        path: Path = ("unpublished", name)
        if name not in get_args(Example):
            hint = f"write one of {', '.join(get_args(Example))}"
            yield Problem(f"there is no example {name!r}", path, hint)
        elif name in compared:
            yield Problem(f"{name} is compared in `published`", path, "remove the reason")
    for index, entry in enumerate(published):
        path = ("published", index, "settings")
        if not entry.settings:
            yield Problem("an example must have settings", path, "write one a line: `--nodes=2:`")
        if entry.launch and entry.example != "pytorch":
            yield Problem(f"{entry.example} has no `launch`", ("published", index, "launch"), "remove it")
        for key, reason in entry.settings.items():
            yield from _setting_problems(key, reason, (*path, key))


def _setting_problems(key: str, reason: str | None, path: Path) -> Iterator[Problem]:
    if not key.strip() or key != key.strip() or "\n" in key:
        yield Problem(
            f"{key!r} is not a setting", path, "write one, such as `--gpus-per-node=4` or `NAME=value`"
        )
    if key.startswith(("export ", "-l ")):
        hint = f"write {key.partition(' ')[2].strip()!r}"
        yield Problem("a setting is written without the word before it", path, hint)
    if reason is not None and not reason.strip():
        yield Problem(
            "the reason is empty", path, "write why, or no value where hpcdist's script has the same"
        )
