"""Hostile values in every field of an experiment, on sites of every batch system.

A field may be refused. What is accepted may not fail, break the script's syntax, nor add a directive.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.chaos import hpcdist_here
from tests.chaos.result import Result
from tests.chaos.values import text

_FIELDS: Final = (
    "name", "description", "tags.0", "project", "framework", "backend", "kind", "version", "params.p",
    "inputs.0.name", "outputs.0.name", "logging.level", "build.image", "build.dockerfile",
    "build.env_vars.0", "environment.node_selector.k", "environment.node_selector.partition",
    "environment.node_selector.constraint", "environment.env_vars.V", "environment.max_restarts",
    "environment.processes_per_replica", "environment.persistence.data.0",
    "environment.resources.cpu.requests", "environment.resources.gpu.requests",
    "environment.resources.memory.requests", "environment.replicas.n_workers", "environment.replicas.n_ps",
    "environment.replicas.ps_on", "environment.replicas.worker.0", "batch.site", "batch.account",
    "batch.partition", "batch.qos", "batch.walltime", "batch.constraint", "batch.exclusive",
    "batch.launcher", "batch.launcher.name", "batch.launcher.args.0", "batch.dependency",
    "batch.dependency.0", "batch.array", "batch.signal", "batch.requeue", "batch.mail", "batch.mail.user",
    "batch.mail.events.0", "batch.directives.0", "batch.gpu_visibility", "batch.container",
    "batch.modules.0", "batch.spack_env", "horovod.elastic", "horovod.autotune", "horovod.cycle_time_ms",
    "horovod.timeline_filename", "tensorflow.version", "pytorch.launch", "pytorch.max_restarts",
)  # fmt: skip
_ODD: Final[tuple[object, ...]] = (
    "", " ", ",", "+", "=", "/", "0", "-1", ":", "%", "@", "1:", "afterok:", "@1", "1-", "&", "|", "()",
    "a&", '"', [], {}, [""], 0, -1, 10**12, 1.5, True, {"": ""}, "a,,b", "#", "\t", None,
)  # fmt: skip
_SITES: Final = {
    "testbed": "#SBATCH", "perlmutter": "#SBATCH", "slurm": "#SBATCH", "gadi": "#PBS", "polaris": "#PBS",
    "pbs": "#PBS", "summit": "#BSUB", "lsf": "#BSUB", "tuolumne": "#flux:", "flux": "#flux:", "sge": "#$",
    "local": "#",
}  # fmt: skip


def fields(count: int, seed: int, folder: Path) -> Result:
    """Render so many experiments, each with one odd value in one field."""
    rnd = random.Random(seed)  # noqa: S311 - values, no secrets
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        field = _FIELDS[number % len(_FIELDS)].split(".")
        value = rnd.choice(_ODD) if rnd.random() < 0.5 else _word(rnd, folder)
        site = rnd.choice([*_SITES])
        found = _rendered(folder, _experiment(field, value, site), site, outcomes)
        wrong += [f"{'.'.join(field)}: {value!r} on {site}: {problem}" for problem in found]
    return Result("fields", outcomes, wrong)


def _word(rnd: random.Random, folder: Path) -> str:
    """Return a hostile text, often such as begins like what is wanted."""
    return rnd.choice(["", "", "a", "/p/", "x/"]) + text(rnd, folder / "MARK")


def _experiment(field: Sequence[str], value: object, site: str) -> dict[str, Any]:
    base = {"name": "chaos", "run": {"cmd": "true"}, "batch": {"account": "acc", "walltime": "1h"}}
    experiment: dict[str, Any] = copy.deepcopy(base) if site != "local" else {"run": {"cmd": "true"}}
    if field[0] in {"horovod", "tensorflow", "pytorch"}:
        experiment["framework"] = field[0]
    node = experiment
    for step in field[:-1]:
        node = node.setdefault(step, {})
    node[field[-1]] = value
    return dict(_listed(experiment))


def _listed(node: Any) -> Any:
    """Return the tree with lists where its keys are numbers."""
    if not isinstance(node, dict):
        return node
    if [*node] == ["0"]:
        return [_listed(node["0"])]
    return {key: _listed(value) for key, value in node.items()}


def _rendered(folder: Path, experiment: dict[str, Any], site: str, outcomes: Counter[str]) -> Iterator[str]:
    file = folder / "e.yml"
    file.write_text(json.dumps(experiment))
    ended = hpcdist_here.run("render", str(file), "--site", site, environment={"HPCDIST_CONFIG": ""})
    outcomes[f"exit code {ended.code}"] += 1
    if ended.fault:
        yield ended.fault
    if ended.code:
        return
    if any(line.startswith(_SITES[site]) and line.rstrip().endswith("INJECTED") for line in _head(ended.out)):
        yield "a directive was added"
    checked = subprocess.run(
        ["bash", "-n"], input=ended.out.encode(errors="surrogateescape"), capture_output=True, check=False
    )
    if checked.returncode:
        yield f"bash cannot read the script: {checked.stderr.decode()[:300]}"


def _head(script: str) -> Iterator[str]:
    """Yield the lines that a batch system reads: those before the first command."""
    for line in script.replace("\r\n", "\n").split("\n"):
        if line and not line.startswith("#"):
            return
        yield line
