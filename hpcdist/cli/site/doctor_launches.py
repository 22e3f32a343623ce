"""The launches of the doctor's job behind its first one: what they measure, and their results."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.doctor import candidates, measurement, records
from hpcdist.doctor.candidates import Candidate
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.measurement import Measurement
from hpcdist.host import resources
from hpcdist.runs.rundir import RunDirectory
from hpcdist.site.published import Measured

KINDS: Final = ("mpi", "torch")
_LAUNCH: Final = "\n# Start the tasks.\n"  # templates/job/launch.sh.j2: what is behind it starts them
_SECONDS: Final = 40
"""How long a launch of a candidate takes at most, on a network that is not broken."""


def with_launches(script: str) -> str:
    """Return the job's script with several launches of its tasks: templates/doctor_launches.sh."""
    own = (resources.shipped("templates") / "doctor_launches.sh").read_text(encoding="utf-8")
    before, _, launch = script.rpartition(_LAUNCH)
    return f"{before}{_LAUNCH}launch() {{\n{launch}}}\n{own}"


def file_of(tried: Sequence[Candidate]) -> str:
    """Return the file ``launches``: a line each, with its number, a seed, and the variables that differ."""
    numbers = candidates.order(len(tried))
    lines = [(str(place), str(secrets.randbelow(1 << 31)), *_assignments(tried[number]))
             for place, number in enumerate(numbers, 1)]  # fmt: skip
    return "".join("\t".join(line) + "\n" for line in lines)


def _assignments(candidate: Candidate) -> Iterator[str]:
    return (f"{name}={value}" for name, value in candidate)


def walltime(tried: Sequence[Candidate]) -> str:
    """Return the time limit of a job with these candidates, in Slurm's form."""
    minutes = 5 + len(candidates.order(len(tried))) * _SECONDS // 60
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


def read(directory: RunDirectory, launch: int = 1) -> list[Measurement]:
    """Return what a launch measured, by each library that the job's Python has."""
    texts = (_text(directory, f"outputs/bandwidth.{launch}.{kind}.json") for kind in KINDS)
    return [found for found in map(measurement.read, texts) if found]


def slow_nodes(directory: RunDirectory) -> dict[str, str]:
    """Return the nodes that the first launch found slow, by any library, each with the numbers."""
    measured = (one for one in reversed(read(directory)) if not one.error and one.pairs)
    return {
        one.nodes[node]: f"{text}, by {one.library}"
        for one in measured
        for node, text in one.shares().items()
    }


def findings(
    directory: RunDirectory, tried: Sequence[Candidate], before: Sequence[Measured]
) -> Iterator[Finding]:
    """Yield the findings of all launches; ``before``: the bandwidths of the site file."""
    yield from measurement.findings(read(directory), before)
    if len(tried) == 1:
        return
    speeds: dict[str, dict[int, list[float]]] = {}
    others: dict[int, str] = {}
    for place, number in enumerate(candidates.order(len(tried)), 1):
        for one in read(directory, place):
            if what := candidates.not_set(tried[number], one.variables) if one.done else "":
                others[number] = what
            elif one.done and one.all_reduce:
                speeds.setdefault(one.library, {}).setdefault(number, []).append(one.all_reduce)
    yield from candidates.findings(tried, speeds, others)


def _text(directory: RunDirectory, file: str) -> str:
    try:
        return directory.read(file, records.MAX_BYTES).decode(errors="backslashreplace")
    except OSError:
        return ""
