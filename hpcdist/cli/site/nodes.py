"""``hpcdist nodes``: the nodes that failed or were slow, over all runs of a user."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from hpcdist.cli import show
from hpcdist.cli.jobs import spans
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import json_option, runs_dir_option
from hpcdist.errors import ConfigError, Problem, did_you_mean
from hpcdist.host import ownership
from hpcdist.nodes import suspects
from hpcdist.nodes.known import Known
from hpcdist.nodes.ledger import Forgotten, Node

_HEADS: Final = ("node", "site", "suspicion", "lost", "failed", "slow", "last", "run", "why")
_LEAST: Final = 0.01
"""What weighs less is shown as JSON alone."""


@click.group("nodes", invoke_without_command=True)
@click.option("--site", metavar="SITE", help="List only the nodes of this site.")
@runs_dir_option
@json_option
@click.pass_context
def command(ctx: click.Context, site: str | None, runs_dir: Path, json: bool) -> None:
    """List the nodes that failed or were slow in your runs.

    From a suspicion of 0.50 on, `submit` warns of a node, and excludes it where the experiment wants that.
    """
    if ctx.invoked_subcommand:
        if site or json or ctx.get_parameter_source("runs_dir") is not ParameterSource.DEFAULT:
            raise click.UsageError("write the options behind `forget`.")
        return
    found = suspects.read(runs_dir)
    print_problems((*found.problems, *found.save()))
    nodes = found.nodes(site)
    shown = [node for node in nodes if node.suspicion >= _LEAST]
    if json:
        show.as_json([_data(node, found) for node in nodes])
    elif shown:
        show.table(_HEADS, (_row(node, found.now) for node in shown))
    else:
        note(f"nothing is known against a node{f' of site {site}' if site else ''}")


@command.command("forget")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--site", metavar="SITE", help="Forget the nodes of this site alone.")
@runs_dir_option
def forget(names: tuple[str, ...], site: str | None, runs_dir: Path) -> None:
    """Forget what is known against nodes: they were repaired, or their names given to others.

    Nothing is deleted: what was recorded up to now no longer counts, for the group of a shared ledger, too.
    """
    found = suspects.read(runs_dir)
    print_problems(found.problems)
    there = sorted({node.name for node in found.nodes(site)})
    bare = {name.partition(".")[0]: name for name in there}
    names = tuple(name if name in there else bare.get(name, name) for name in names)
    if unknown := [name for name in names if name not in there]:
        where = f" of site {site}" if site else ""
        raise ConfigError(
            *(Problem(f"nothing is known against {name!r}{where}", hint=did_you_mean(name, there, most=5))
              for name in unknown)
        )  # fmt: skip
    user = ownership.own_name()
    problems = found.save(tuple(Forgotten(name, site or "", user, found.now) for name in names))
    print_problems(problems)
    click.echo(f"forgotten: {', '.join(names)}")


def _row(node: Node, now: float) -> tuple[str, ...]:
    kinds, last = Counter(one.kind for one in node.evidence), node.evidence[0]
    counts = (str(kinds[kind] or "-") for kind in ("lost", "failed", "slow"))
    age = spans.span(now - last.at)
    return (node.name, node.site, f"{node.suspicion:.2f}", *counts, age, last.run, last.text)


def _data(node: Node, found: Known) -> dict[str, Any]:
    """Return a node for JSON; ``age`` in seconds."""
    evidence = [
        {**one._asdict(), "age": round(max(0.0, found.now - one.at))} for one in node.evidence
    ]  # fmt: skip
    return {
        "node": node.name,
        "site": node.site,
        "suspicion": round(node.suspicion, 3),
        "is_suspect": node.is_suspect,
        "evidence": evidence,
    }
