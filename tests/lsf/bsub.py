"""A stand-in for bsub that refuses what the documentation says is refused.

Sources: bsub(1) of LSF 10.1, and for ``-nnodes`` and ``-alloc_flags`` the Summit user guide.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lsf import state
from tests.lsf.state import Config, Job, complain, say

VALUED = frozenset(("-J", "-Jd", "-P", "-q", "-W", "-n", "-R", "-gpu", "-nnodes", "-alloc_flags", "-o", "-e",
                    "-w", "-wa", "-wt", "-u", "-env", "-app", "-G"))  # fmt: skip
BARE = frozenset(("-x", "-r", "-rn", "-B", "-N", "-Ne"))
RANGE = r"[1-9]\d*(?:-[1-9]\d*(?::[1-9]\d*)?)?"


class RefusedError(Exception):
    """What bsub says before ``Job not submitted.``"""


def main(argv: list[str]) -> int:
    """Submit a job."""
    settings = state.config()
    try:
        options, rest = parsed(argv)
        text = script_of(rest, settings)
        if not rest or settings.csm:
            options = {**directives(text), **options}
        made = jobs_of(options, settings)
    except RefusedError as error:
        complain(f"{error}. Job not submitted.")
        return 255
    (state.folder() / f"{made[0].id}.script").write_text(text)
    for job in made:
        state.submit(job)
    subprocess.Popen(
        [sys.executable, "-m", "tests.lsf.sbatchd", *(job.key for job in made)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(state.folder() / "sbatchd.log").open("a"),
        start_new_session=True,
    )
    while any(state.submitted(job.key).exists() for job in made):
        time.sleep(0.01)
    queue = f"queue <{options['-q']}>" if "-q" in options else "default queue <normal>"
    if "BSUB_QUIET" not in os.environ:
        say(f"Job <{made[0].id}> is submitted to {queue}.")
    return 0


def parsed(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options, and the words from the first that is none."""
    found: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        flag = left.pop(0)
        if flag not in VALUED | BARE:
            raise RefusedError(f"bsub: illegal option -- {flag}")
        if flag in found:
            raise RefusedError(f"{flag}: given twice")
        if flag in VALUED and not left:
            raise RefusedError(f"{flag}: option requires an argument")
        found[flag] = left.pop(0) if flag in VALUED else ""
    return found, left


def script_of(rest: list[str], settings: Config) -> str:
    if rest:
        if settings.csm:
            return Path(rest[0]).read_text()
        return shlex.join(rest)  # without LSB_BSUB_PARSE_SCRIPT it is a command like any other
    if settings.csm:
        raise RefusedError("Empty job: this cluster reads scripts by their name")
    return sys.stdin.read()


def directives(text: str) -> dict[str, str]:
    """Return what the ``#BSUB`` lines say, wherever they stand."""
    words = [
        word for line in text.splitlines() if line.startswith("#BSUB ") for word in shlex.split(line[6:])
    ]
    found, rest = parsed(words)
    if rest:
        raise RefusedError(f"#BSUB: {rest[0]!r} is no option")
    return found


def jobs_of(options: dict[str, str], settings: Config) -> list[Job]:
    """Return the jobs that these options ask for, an array element by element."""
    hosts, slots = shape(options, settings)
    name, indexes = array(options.get("-J", "job"))
    output = options.get("-o", "")
    if output and not (Path.cwd() / output).parent.is_dir():
        raise RefusedError(f"{output}: No such directory")
    if "-w" in options and not re.fullmatch(r"[a-z]+\(\d+\)( && [a-z]+\(\d+\))*", options["-w"]):
        raise RefusedError("Dependency condition syntax error")
    if ("-wa" in options) != ("-wt" in options):
        raise RefusedError("-wa and -wt belong together")
    limit = minutes(options["-W"]) if "-W" in options else None
    warning = (options["-wa"], minutes(options["-wt"])) if "-wa" in options else None
    number = state.next_id()
    return [
        Job(
            id=number,
            index=index,
            name=f"{name}[{index}]" if index else name,
            description=options.get("-Jd", ""),
            queue=options.get("-q", "normal"),
            hosts=hosts,
            slots=slots,
            cwd=str(Path.cwd()),
            output=output.replace("%J", str(number)).replace("%I", str(index)),
            minutes=limit,
            warning=warning,
            waits_for=options.get("-w", ""),
            environment=dict(os.environ),
        )
        for index in indexes
    ]


def shape(options: dict[str, str], settings: Config) -> tuple[tuple[str, ...], int]:
    """Return the hosts of a job, and its slots on each."""
    if settings.csm:
        if set(options) & {"-n", "-R", "-gpu", "-x"}:
            raise RefusedError("-R, -n and -gpu cannot be used in easy mode")
        if "-P" not in options:
            raise RefusedError("no project specified")
        number = positive("-nnodes", options.get("-nnodes", "1"))
        if not re.fullmatch(r"[A-Za-z0-9]*(?: [A-Za-z0-9]+)*", options.get("-alloc_flags", "")):
            raise RefusedError("-alloc_flags: bad flags")
        return settings.hosts[:number], settings.slots
    if set(options) & {"-nnodes", "-alloc_flags"}:
        raise RefusedError("bsub: -nnodes needs CSM")
    slots = positive("-n", options.get("-n", "1"))
    ptile = re.search(r"span\[ptile=(\d+)\]", options.get("-R", ""))
    each = int(ptile[1]) if ptile else slots
    gpus = re.match(r"num=(\d+)", options.get("-gpu", "num=0"))
    if (
        not gpus
        or int(gpus[1]) > settings.gpus
        or each > settings.slots
        or -(-slots // each) > len(settings.hosts)
    ):
        raise RefusedError("Too many processors requested")
    return settings.hosts[: -(-slots // each)], each


def positive(flag: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise RefusedError(f"{flag}: bad number {text!r}")
    return int(text)


def minutes(text: str) -> int:
    """Read ``[hour:]minute``."""
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", text)
    if not match or not int(match[1] or 0) * 60 + int(match[2]):
        raise RefusedError(f"{text}: Bad RUNLIMIT specification")
    return int(match[1] or 0) * 60 + int(match[2])


def array(text: str) -> tuple[str, list[int]]:
    """Read ``name[1-10:2,12]%4``."""
    match = re.fullmatch(rf"([A-Za-z0-9._-]+)(?:\[({RANGE}(?:,{RANGE})*)\](?:%[1-9]\d*)?)?", text)
    if not match:
        raise RefusedError(f"{text}: Bad job name or index list")
    if not match[2]:
        return match[1], [0]
    found: list[int] = []
    for part in match[2].split(","):
        first, _, rest = part.partition("-")
        last, _, step = rest.partition(":")
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return match[1], found
