"""The small job that submits the next generation of a search when the one before has ended."""

from __future__ import annotations

import json
import sys
from typing import Final

from hpcdist.cli.jobs.submit import submit_run
from hpcdist.cli.messages import note
from hpcdist.cli.session import planned
from hpcdist.documents import source
from hpcdist.host.command import python
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs import requests
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.words import quote

_WALLTIME: Final = "00:15:00"
_KEPT: Final = ("account", "qos", "partition", "modules", "spack_env", "exclude_nodes", "exclude_bad_nodes")


def follow(run: Run, options: ExperimentOptions, batch: dict[str, object], services: Services) -> Run:
    """Submit the job that begins when all jobs of the run have ended, and that submits itself again.

    ``options``: those of the search, of which the site is taken; ``batch``: its settings.

    Raises:
        HpcdistError: as ``submit`` does.
    """
    live = [job for job in run.jobs if job.record.ended is None]
    ids = ":".join(job.event_id for job in live or run.jobs[-1:])
    start = python(sys.executable, "from hpcdist.cli import program; program()")
    command = [*start, "sweep", "advance", str(run.directory.path), "--by-job"]
    wanted = {
        "name": f"{run.name}-advance",
        "run": {"cmd": " ".join(str(quote(word)) for word in command)},
        "batch": {
            **{name: batch[name] for name in _KEPT if batch.get(name)},
            "walltime": _WALLTIME,
            "dependency": f"afterany:{ids}",
        },
    }
    document = source.parse(json.dumps(wanted), "the job that goes on with the search")
    own = ExperimentOptions(document.file, site=options.site, site_path=options.site_path)
    made = planned(own, document, runs_dir=run.directory.path.parent)
    request = requests.of(made, own, services.runner)
    return submit_run(request, run.directory.path.parent, services, _print_id, again=True)


def _print_id(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}: it goes on when the trials have ended")
