"""Which task failed first and which ranks are slow, as sentences and for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from hpcdist.nodes.failures import Failure
from hpcdist.nodes.findings import Findings
from hpcdist.runs.state import Attempt


def print_findings(found: Findings, attempts: Iterable[Attempt]) -> None:
    """Print a sentence for each."""
    for title, text in found.sentences(attempts).items():
        click.echo(f"\n{title}: {text}")


def of_findings(found: Findings) -> dict[str, Any]:
    """Return them for JSON; null is nothing."""
    slowness = found.slowness
    data = slowness and {**slowness._asdict(), "slow": [each._asdict() for each in slowness.slow]}
    return {"first_failure": found.failure and _of_failure(found.failure), "slowness": data}


def _of_failure(failure: Failure) -> dict[str, Any]:
    nodes = [
        {"host": node.host, "signs": [sign._asdict() for sign in node.signs]}
        for node in failure.nodes
        if node.signs
    ]
    others = [end._asdict() for end in failure.others]
    return {**failure._asdict(), "others": others, "nodes": nodes, "text": failure.text}
