"""The nodes of ``hpcdist doctor --job --nodes``: how many, or which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.documents import text_checks
from hpcdist.errors import ConfigError, Place, Problem, comma_list
from hpcdist.schedulers import hostlist, schedulers
from hpcdist.schedulers.base import NodeRequest
from hpcdist.site.model import Site

_WRITE: Final = "write a number, such as 4, or names, such as n[1-4,7]"

Setting = tuple[str, str]


class WantedNodes(NamedTuple):
    """How many nodes a job is to have, and their names where it wants these alone."""

    number: int
    names: tuple[str, ...] = ()


def read(text: str) -> WantedNodes:
    """Return what ``--nodes`` wants; a number alone is that of nodes.

    Raises:
        ConfigError: if it is neither a number nor names of nodes, each of them once.
    """
    place = Place(f"--nodes={text}", 0, 0)
    if text.isascii() and text.isdecimal():
        if not 0 < int(text[:9]) <= hostlist.LIMIT:
            raise ConfigError(Problem(f"no job has {text[:9]} nodes", hint=_WRITE, place=place))
        return WantedNodes(int(text[:9]))
    try:
        names = hostlist.expand(text)
    except ValueError as error:
        raise ConfigError(Problem(str(error), hint=_WRITE, place=place)) from None
    if problems := [problem._replace(path=(), place=place) for problem in _problems(names)]:
        raise ConfigError(*problems)
    return WantedNodes(len(names), tuple(names))


def _problems(names: Sequence[str]) -> Iterator[Problem]:
    if not names:
        yield Problem("there is no node in it", hint=_WRITE)
    yield from text_checks.node_problems(names, ())
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        message = f"{comma_list(twice)} {'is' if len(twice) == 1 else 'are'} in it twice"
        yield Problem(message, hint="name each node once")


def settings(wanted: WantedNodes, site: Site, resources: str, others: Sequence[Setting]) -> Iterator[Setting]:
    """Yield the settings of an experiment, a replica a node, by which it gets the nodes with these names.

    ``resources``: those of each replica; ``others``: further settings, which may not replace these.

    Raises:
        ConfigError: if the batch system cannot be asked for nodes by name, or ``others`` replace it.
    """
    if not wanted.names:
        return
    place = Place(f"--nodes={hostlist.compress(wanted.names)}", 0, 0)
    request = schedulers.get(site.scheduler).request_nodes(wanted.names)
    if request is None:
        raise ConfigError(_never(site)._replace(place=place))
    own = dict(_of_request(request, resources))
    for name, _ in others:
        if any(name.startswith(key) or key.startswith(f"{name}.") for key in own):
            message = f"it replaces how {site.scheduler} is asked for the nodes of --nodes"
            hint = "remove it, or give --nodes a number"
            raise ConfigError(Problem(message, hint=hint, place=Place(f"--set {name}", 0, 0)))
    yield from own.items()


def _never(site: Site) -> Problem:
    if not schedulers.get(site.scheduler).is_batch_system:
        return Problem(f"all jobs of site {site.name} run on this machine", hint="give --nodes a number")
    message = f"hpcdist does not know how {site.scheduler} is asked for nodes by name"
    hint = "give --nodes a number, and --set batch.directives what names them there"
    return Problem(message, hint=hint)


def _of_request(request: NodeRequest, resources: str) -> Iterator[Setting]:
    if request.directive:
        yield "batch.directives", f'["{request.directive}"]'
    if request.constraint:
        yield "batch.constraint", f'"{request.constraint}"'
    if request.of_each:
        first, *rest = (f'{{constraint: "{text}"}}' for text in request.of_each)
        entries = (
            f"{{index: {index}, resources: {resources}, node_selector: {text}}}"
            for index, text in enumerate(rest)
        )
        yield "environment.node_selector", first
        yield "environment.replicas.worker", f"[{', '.join(entries)}]"
