"""What the job scripts of a folder become: ``python -m tests.importers.job_scripts.folder DIR``, as root.

A line for each script: what it is now, and whether the original and the rendered script start the same
processes under the stand-ins of `cluster`. Both run as nobody, without a network, in a folder of their own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base.errors import HpcdistError
from hpcdist.importers.job_scripts.size import JobSize, size_of
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.script.renderer import render
from tests.importers.job_scripts import cluster
from tests.importers.job_scripts.reading import header_of

_PROGRAM: Final = re.compile(
    r"(?<![\w./-])(?:~|\$\{?\w+\}?)?(?:/[\w.${}+-]+)*/"
    r"(python[\d.]*|torchrun|accelerate|deepspeed|mpirun)(?=[\s\"'])"
)
"""An interpreter or launcher by its path, which this machine does not have."""
_BASH: Final = """
module() { :; }; ml() { :; }; conda() { :; }; mamba() { :; }; spack() { :; }; sleep() { :; }; wget() { :; }
curl() { :; }; git() { :; }; pip() { :; }; pip3() { :; }; nvidia-smi() { :; }; sbatch() { :; }
source() { case $1 in /*) ;; *) if [ -f "$1" ]; then builtin source "$@"; fi ;; esac; }
.() { source "$@"; }
cd() { builtin cd "$@" 2>/dev/null || :; }
RANDOM=7; shuf() { echo 7; }
command_not_found_handle() { record_as "$@"; }
"""
_OF_BASH: Final = frozenset({"source", "deactivate", "conda", "module"})
_NOBODY: Final = 65534
_SECONDS: Final = 60
_MOST: Final = 64
"""The most tasks of a script that is run here."""


class Outcome(NamedTuple):
    """What a script became, and how its processes compare: ``same``, ``none``, or what differs."""

    kind: str
    detail: str = ""
    compared: str = ""


def _records(text: str, size: JobSize, programs: set[str]) -> list[tuple[str, ...]]:
    """Return the words of the processes that a script starts, each once and in order."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        code = Path(cluster.__file__).read_text()
        (work / "bin").mkdir()
        for program in {*cluster.PROGRAMS, *programs}:
            (work / "bin" / program).write_text(f"#!/usr/bin/python3 -SE\n{code}")
            (work / "bin" / program).chmod(0o755)
        (work / "job.sh").write_text(text)
        (work / "env.sh").write_text(_BASH)
        (work / "run").mkdir()
        for program in programs:  # one that the script names by its folder
            named = rf"(?<![\w$/~}}.-])((?:\.{{1,2}}/|[\w.-]+/)+{re.escape(program)})(?![\w/.-])"
            for path in re.findall(named, text):
                file = (work / "run" / path).resolve()
                if file.is_relative_to(work) and not file.exists():
                    file.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(work / "bin" / program, file)
        found = work / "run/record.jsonl"
        for path in (work, work / "run"):
            shutil.chown(path, _NOBODY)
        subprocess.run(
            ["unshare", "--net", "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups",
             "bash", "-c", "ulimit -t 30 -f 2000 -u 400; exec timeout 40 bash ../job.sh"],
            cwd=work / "run", env=_environment(work, size, found), check=False, timeout=_SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(Path(name) / "err").open("w"),
        )  # fmt: skip
        lines = found.read_text().splitlines(keepends=True) if found.exists() else []
    whole = (line for line in lines if line.endswith("\n"))
    return [_plain(json.loads(line)["words"], name) for line in whole]


def _environment(work: Path, size: JobSize, found: Path) -> dict[str, str]:
    total, cpus = str(size.nodes * size.tasks), str((size.cpus or size.tasks) // size.tasks)
    return {
        "PATH": f"{work}/bin:/usr/bin:/bin",
        "HOME": str(work / "run"),
        "BASH_ENV": str(work / "env.sh"),
        "RECORD": str(found),
        "NODES": " ".join(f"n{number + 1}" for number in range(size.nodes)),
        "EACH": str(size.tasks),
        "CPUS": cpus,
        "GPUS": str(size.gpus),
        "USER": "me",
        "MODULES_CMD": "modulecmd",
        "SLURM_JOB_ID": "42",
        "SLURM_JOBID": "42",
        "SLURM_JOB_NAME": "job",
        "SLURM_SUBMIT_DIR": str(work / "run"),
        "SLURM_JOB_NODELIST": f"n[1-{size.nodes}]",
        "SLURM_NODELIST": f"n[1-{size.nodes}]",
        "SLURM_JOB_NUM_NODES": str(size.nodes),
        "SLURM_NNODES": str(size.nodes),
        "SLURM_NTASKS": total,
        "SLURM_NPROCS": total,
        "SLURM_CPUS_PER_TASK": cpus,
        "SLURM_GPUS_ON_NODE": str(size.gpus),
        "SLURM_GPUS_PER_NODE": str(size.gpus),
        "SLURM_GPUS": str(size.gpus * size.nodes),
        "SLURM_NTASKS_PER_NODE": str(size.tasks),
        "SLURM_ARRAY_TASK_ID": "1",
        "SLURM_ARRAY_JOB_ID": "42",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(size.gpus))),
    }


def _plain(words: list[str], folder: str) -> tuple[str, ...]:
    """Return words without what differs on purpose: the folder, ``python -u``, times."""
    own = [re.sub(r"\d{9,}|\d\d[:_-]\d\d[:_-]\d\d", "T", word.replace(folder, "")) for word in words]
    return tuple(word for at, word in enumerate(own) if not (word == "-u" and at == 1))


def _compared(text: str, made: Planned) -> str:
    """Return how the processes of a script compare with those of the rendered one."""
    size = size_of(header_of(text))
    if size.nodes * size.tasks > _MOST:
        return "too many"
    before = _records(text, size, set())
    if not before:
        return "nothing ran"
    programs = {words[0] for words in before if re.fullmatch(r"[\w.+-]*\w", words[0])} - _OF_BASH
    steps = {step.time: step.command for step in made.plan.steps}
    parts = (steps.get("before", ""), render(made.plan), steps.get("after", ""))
    after = [one for own in parts if own for one in _records(_PROGRAM.sub(r"\1", own), size, programs)]
    lost, more = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if not lost and not more:
        return "same"
    texts = [f"{sign}{count}x {' '.join(words)[:160]}" for sign, found in (("-", lost), ("+", more))
             for words, count in [*found.items()][:2]]  # fmt: skip
    return " | ".join(texts)


def outcome(file: Path, site: str) -> Outcome:
    """Return what a script becomes."""
    text = _PROGRAM.sub(r"\1", file.read_text(errors="replace"))
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "job.sh"
        copy.write_text(text)
        try:
            made = plan_experiment(ExperimentOptions(str(copy), site=site))
        except HpcdistError as error:
            wrong = (str(one) for one in error.problems if one.severity == "error")
            return Outcome("refused", " | ".join(wrong)[:400])
    data = made.document.data
    kind = "body once" if data.get("backend") == "mpi" else str(data.get("framework") or "one task")
    why = next((note.message for note in made.plan.notes if "runs once, on the first node" in str(note)), "")
    return Outcome(kind, why, _compared(text, made))


def main(folder: str, site: str = "slurm") -> Iterator[str]:
    """Yield the lines of the table, then its sums."""
    kinds: Counter[str] = Counter()
    for file in sorted(Path(folder).iterdir()):
        try:
            found = outcome(file, site)
        except Exception as error:  # noqa: BLE001 - a crash is a row of the table
            found = Outcome("crash", repr(error))
        same = found.compared if found.compared in {"same", "nothing ran", "too many", ""} else "differs"
        kinds[f"{found.kind}: {same}" if same else found.kind] += 1
        yield "\t".join([file.name, *found])
    yield from (f"{count:5} {kind}" for kind, count in kinds.most_common())


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
