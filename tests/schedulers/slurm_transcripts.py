"""Answers of real Slurms, as tools/record-slurm writes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers.job import Job, Status, fold

PLACE = Path(__file__).parents[1] / "transcripts" / "slurm"


def answers(version: str, name: str) -> Iterator[Completed]:
    """Yield the commands of a transcript with their answers."""
    for block in (PLACE / version / f"{name}.txt").read_text().split("$ ")[1:]:
        asked, *lines = block.splitlines()
        code = int(lines.pop().removeprefix("exit ")) if lines and lines[-1].startswith("exit ") else 0
        said = "".join(f"{line}\n" for line in lines if not line.startswith("2> "))
        complained = "".join(f"{line[3:]}\n" for line in lines if line.startswith("2> "))
        yield Completed(Command(tuple(shlex.split(asked))), code, said, complained)


def jobs(version: str) -> dict[str, Job]:
    """Return the jobs that were submitted, by token; old versions took one that was to be ``refused``."""
    found = {}
    for completed in answers(version, "submit"):
        name = completed.command.argv[2].partition(":")[2]
        if completed.ok and name != "x":
            found[name] = Job(completed.stdout.strip(), name, f"/home/hu1/{name}", name)
    return found


def by_token(found: Mapping[str, Status], known: Iterable[Job]) -> dict[str, Status]:
    """Return what an answer says of each job by its token, folded from the elements where it is an array."""
    parts = {
        job.token: [status for key, status in found.items() if key.partition("_")[0] == job.id]
        for job in known
    }
    return {token: fold(statuses) for token, statuses in parts.items() if statuses}
