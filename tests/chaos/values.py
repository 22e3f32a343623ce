"""Values that would be code if a shell read them, through a real bash, and compared byte by byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from tests.chaos import hpcdist_here
from tests.chaos.result import Result
from tests.script.jobs import write

_PIECES: Final = (
    "$(@)", "`@`", "; @;", '"; @; "', "'; @; '", "'$(@)'", '"$(@)"', "\n@\n", "\nCOMMAND\n@\n",
    "\nTASK_WRAPPER\n@\n", "\nNODES_AND_TASKS_ON_EACH\n@\n", "\n#SBATCH --comment=INJECTED\n",
    "\n#PBS -N INJECTED\n", "\n#BSUB -J INJECTED\n", "\n#flux: --job-name=INJECTED\n", "\n#$ -N INJECTED\n",
    "\r", "\r\n@\r\n", "\u202e", "\ufeff", "\u2028", "\x85", "é", "😀", "-", "--", "-rf", "--help", "$HOME",
    "${PATH}", "$$", "!!", "!x", "~", "~root", "*", "?", "[a]", "{a,b}", "\\", "\\\\", "\\n", "\\'", '\\"',
    "%s", "%n", "%j", "%", "&", "&&", "|", "||", ">x", "<x", "(", ")", "#", "# x", "=", "\t", "  ", " ",
    "'", '"', '"""', "$'", '$"', "$'\\x60@\\x60'", "}; @; x() {", "() { :; }; @", "x[$(@)]", "EOF", "done",
    "fi", "${x@P}", "${x:=$(@)}", "<<<", "<<EOF", "a" * 3000, "a b c", "1", "true", "null", "0x10", "1e3",
)  # fmt: skip
"""``@`` is a command that would leave a file."""
_END: Final = "THE_END_OF_WHAT_WAS_WRITTEN"
_KEEP: Final = f"cat >\"$HPCDIST_OUTPUTS/body\" <<'{_END}'"
_DUMP: Final = """\
import os
with open(os.environ["HPCDIST_OUTPUTS"] + "/variables", "wb") as file:
    file.write(b"\\0".join(name + b"=" + value for name, value in os.environb.items()))
"""
_VARIABLES: Final = 16
_ENOUGH: Final = 20
"""Faults after which no further job runs."""
_PARAMS: Final = 6


def text(rnd: random.Random, mark: Path) -> str:
    """Return a text that leaves the mark if any part of it is run; no template."""
    pieces = (rnd.choice(_PIECES) for _ in range(rnd.choice([1, 1, 2, 3, 5, 8])))
    return "".join(pieces).replace("@", f"touch {mark}").replace("{%", "%").replace("{{", "{")


def values(count: int, seed: int, folder: Path) -> Result:
    """Send at least so many values through variables, params and commands of jobs on this machine."""
    rnd = random.Random(seed)  # noqa: S311 - values, no secrets
    (folder / "dump.py").write_text(_DUMP)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    number = 0
    while outcomes.total() < count and len(wrong) < _ENOUGH:
        number += 1
        wrong += [f"seed {seed}, job {number}: {problem}" for problem in _job(rnd, folder, outcomes)]
    return Result("values", outcomes, wrong)


def _job(rnd: random.Random, folder: Path, outcomes: Counter[str]) -> Iterator[str]:
    mark = folder / "MARK"
    variables = {f"V{at}": text(rnd, mark) for at in range(_VARIABLES)}
    params: dict[str, Any] = {f"p{at}": text(rnd, mark) for at in range(_PARAMS)}
    params["nested"] = [text(rnd, mark), {text(rnd, mark)[:900]: text(rnd, mark)}, 1, None, 1.5]
    body = "\n".join(text(rnd, mark) for _ in range(5)).replace("\r", "")
    experiment = {
        "name": "chaos",
        "description": text(rnd, mark),
        "tags": [text(rnd, mark)],
        "params": params,
        "environment": {"env_vars": variables},
        "run": {"cmd": f"{_KEEP}\n{body}\n{_END}\n{sys.executable} {folder}/dump.py\n"},
        "batch": {"launcher": "processes"},
    }
    run_dir, problem = _run(folder, experiment)
    if mark.exists():
        yield f"a value was run: {experiment}"
        mark.unlink()
    if problem:
        yield problem
        return
    outputs = run_dir / "outputs"
    got = dict(item.split(b"=", 1) for item in (outputs / "variables").read_bytes().split(b"\0"))
    for name, value in variables.items():
        yield from _compared("variables", outcomes, value.encode(), got.get(name.encode()))
    for name, value in json.loads(got[b"POLYAXON_PARAMS"]).items():
        yield from _compared("params", outcomes, params[name], value)
    yield from _compared("commands", outcomes, f"{body}\n".encode(), (outputs / "body").read_bytes())
    shutil.rmtree(run_dir)


def _compared(kind: str, outcomes: Counter[str], sent: object, got: object) -> Iterator[str]:
    outcomes[kind] += 1
    if got != sent:
        yield f"{kind}: sent {sent!r}, got {got!r}"


def _run(folder: Path, experiment: dict[str, Any]) -> tuple[Path, str]:
    """Run the script of an experiment; return its run directory, and what went wrong."""
    file, run = folder / "e.yml", folder / "run"
    file.write_text(json.dumps(experiment))
    ended = hpcdist_here.run("render", str(file), "--site", "local", environment={"HPCDIST_CONFIG": ""})
    if ended.code:
        return folder, ended.fault or f"refused: {ended.err}"
    write(run, plan_experiment(ExperimentOptions(str(file), site="local")).plan)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    job = subprocess.run(
        ["bash", run / "job.sh"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if job.returncode:
        shutil.rmtree(run)
        return folder, f"the job ended with {job.returncode}: {job.stderr[-500:]}: {experiment}"
    return run, ""
