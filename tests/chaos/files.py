"""Files that nobody meant to write: experiments, sites and configs, changed at random and read by the verbs.

A verb may refuse any of them, with sentences that say where; it may not fail by itself, nor hang, nor accept
a key that nobody reads.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos import hpcdist_here, mutations
from tests.chaos.result import Result

_REPOSITORY: Final = Path(__file__).parents[2]
_SITES: Final = (
    "testbed",
    "testbed",
    "perlmutter",
    "local",
    "gadi",
    "summit",
    "tuolumne",
    "sge",
    "vista",
    "roihu",
)
_LOCATED: Final = re.compile(r"^error: \S.*?:\d+:\d+:? |\(\S+:\d+\)$")
_OF_THE_FILE: Final = ("the file is over 1 MiB", "the file is empty", "and not an experiment")

_OF_SITES: Final = frozenset((
    "node_types", "partitions", "launchers", "env", "node_selectors", "volumes", "nodes", "modules",
    "detect", "sources", "translate", "containers", "gres", "affinity",
))  # fmt: skip

RICH: Final = """\
version: 1
kind: experiment
name: rich
description: text
tags: [a, b]
framework: horovod
logging: {level: INFO}
params: {lr: 0.1, s: "x y", l: [1, 2], m: {a: {b: c}}}
inputs:
- {name: lr, type: float, minimum: 0, maximum: 3, is_optional: true, default: 0.1}
- {name: s, type: str, options: ["x y", z]}
- {name: l, type: list}
- {name: m, type: dict}
environment:
  resources: {cpu: {requests: 2, limits: 3}, memory: {requests: 1Gi}, gpu: {requests: 1}}
  env_vars: {A: "1", B: "{{ s }}"}
  max_restarts: 1
  replicas:
    n_workers: 2
    default_worker: {resources: {cpu: {requests: 1}, gpu: {requests: 1}}}
    worker:
    - {index: 1, resources: {cpu: {requests: 2}, gpu: {requests: 1}}}
horovod: {fusion_threshold_mb: 32, cycle_time_ms: 3.5, autotune: true}
run: {cmd: "python t.py --lr={{ lr }} {{ m.a.b }} {% for i in l %}{{ i }} {% endfor %}"}
batch:
  account: acc
  partition: gpu
  qos: q
  walltime: "01:00:00"
  exclusive: true
  dependency: afterok:12
  array: 0-3%2
  signal: B:USR1@120
  requeue: true
  mail: {user: me, events: [end]}
  modules: [a/1, b]
  spack_env: /x/y
  launcher: {name: srun, args: ["--x"]}
"""
_CONFIG: Final = """\
site: testbed
defaults: {account: a, partition: gpu, qos: q, walltime: 1h, mail: {user: x, events: [end]}}
sites: {testbed: {walltime: 2h}, gadi: {account: b}}
"""


class Kind(NamedTuple):
    """A kind of file: texts to begin with, and the keys below which users write names of their own."""

    name: str
    texts: tuple[str, ...]
    own_names: frozenset[str]


def kinds() -> tuple[Kind, ...]:
    """Return the kinds of files that hpcdist reads."""
    examples = tuple(path.read_text() for path in sorted(_REPOSITORY.glob("examples/*.yml")))
    sites = tuple(path.read_text() for path in sorted(_REPOSITORY.glob("site_configs/*.yaml")))
    return (
        Kind(
            "experiment",
            (*examples, *[RICH] * 4),
            frozenset(
                ("params", "env_vars", "node_selector", "default", "options", "tags", "metrics", "matrix")
            ),
        ),
        Kind(
            "site",
            sites,
            _OF_SITES,
        ),
        Kind("config", (_CONFIG,), frozenset({"sites"})),
    )


def files(count: int, seed: int, folder: Path) -> Result:
    """Read so many changed files, each by two verbs; those that met a fault are left in the folder."""
    rnd = random.Random(seed)  # noqa: S311 - files, no secrets
    experiment, site, config = kinds()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        kind = rnd.choices((experiment, site, config), (16, 3, 1))[0]
        found = _try(rnd, kind, folder / "f.yml", outcomes)
        if found:
            kept = folder / f"{kind.name}-{seed}-{number}.yml"
            kept.write_bytes((folder / "f.yml").read_bytes())
            wrong += [f"{kept}: {text}" for text in found]
    return Result("files", outcomes, wrong)


def _try(rnd: random.Random, kind: Kind, file: Path, outcomes: Counter[str]) -> list[str]:
    text = rnd.choice(kind.texts)
    slip = mutations.typo(rnd, text, kind.own_names) if rnd.random() < 0.15 else None
    file.write_bytes(slip[0] if slip else rnd.choice(mutations.MUTATIONS)(rnd, text))
    wrong = []
    codes = []
    config = str(file) if kind.name == "config" else ""
    for words in _verbs(rnd, kind, file):
        ended = hpcdist_here.run(*words, environment={"HPCDIST_CONFIG": config})
        codes.append(ended.code)
        outcomes[f"{kind.name}: exit code {ended.code}"] += 1
        wrong += [f"{' '.join(words)}: {problem}" for problem in _wrong(ended)]
    if slip and not any(codes):
        wrong.append(f"the key {slip[1]!r} is accepted")
    return wrong


def _verbs(rnd: random.Random, kind: Kind, file: Path) -> tuple[tuple[str, ...], ...]:
    quickstart = str(_REPOSITORY / "examples/quickstart.yml")
    if kind.name == "site":
        return ("sites", "check", str(file)), ("plan", quickstart, "--site", str(file))
    site = ("--site", rnd.choice(_SITES))
    if kind.name == "config":
        return ("check", quickstart), ("plan", quickstart, *site)
    return ("check", str(file), *site), (rnd.choice(("plan", "render", "explain")), str(file), *site)


def _wrong(ended: hpcdist_here.Ended) -> list[str]:
    if ended.fault or not ended.code:
        return [ended.fault] if ended.fault else []
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    if not errors:
        return [f"exit code {ended.code} without an error: {ended.err}"]
    return [
        f"no place: {line[:300]}"
        for line in errors
        if not _LOCATED.search(line) and not any(text in line for text in _OF_THE_FILE)
    ]
