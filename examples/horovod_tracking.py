"""The training of ``horovod_digits.py``, whose metrics are recorded by the client that ``--client`` names.

``print`` records nothing: the lines that the training prints are enough, as ``horovod_tracking.yml`` shows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import horovod_digits


def recorder(client: str) -> Callable[..., None]:
    """Return the function that is called with ``step=1, loss=0.5``."""
    log: Callable[..., None] = write if client == "file" else write_nothing
    if client == "hpcdist":
        from hpcdist_tracking import log_metrics

        log = log_metrics
    elif client == "polyaxon":  # 1 and 2: `pip install polyaxon`
        from polyaxon import tracking

        tracking.init()
        log = tracking.log_metrics
    elif client == "polyaxon-0":  # 0.x; hpcdist brings a module of this name
        from polyaxon_client.tracking import Experiment

        log = Experiment().log_metrics
    return log


def write_nothing(**metrics: float) -> None:
    """Record nothing: what is printed is enough."""


def write(**metrics: float) -> None:
    """Append a line to ``metrics.jsonl``, as many programs do."""
    with (horovod_digits.OUTPUTS / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metrics) + "\n")


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--client", choices=["hpcdist", "polyaxon", "polyaxon-0", "file", "print"])
    args, words = parser.parse_known_args()
    horovod_digits.main(recorder(args.client), words)


if __name__ == "__main__":
    main()
