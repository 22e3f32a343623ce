"""What a centre's published example sets, and what hpcdist's script of the same job has in its place.

``python -m tests.published SITE`` prints each setting of a site's ``published`` with ours, and what is wrong.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base import source
from hpcdist.base.text_checks import MODULE_RESETS
from hpcdist.base.units import Memory
from hpcdist.loading import load
from hpcdist.plan.model import Plan
from hpcdist.plan.values import TASK_WRAPPER, Origin
from hpcdist.planner.make_plan import make_plan
from hpcdist.planner.pools import Pool, pools
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.site.published import Published
from tests.sites import SHIPPED, account_on, shipped_site

FOLDER: Final = Path(__file__).parent / "golden/sites"
EXAMPLES: Final = ("horovod", "pytorch", "mpi")
GENERIC: Final = frozenset(("local", "testbed"))
"""Sites of tests, for which nobody publishes anything."""
NO_MACHINE: Final = GENERIC | {"slurm", "pbs", "lsf", "flux", "sge"}
"""These, and those of batch systems."""
NONE_READ: Final = "no such example on the pages that were read"

IMAGES: Final = {
    **dict.fromkeys(("pyxis", "shifter"), "nvcr.io/nvidia/pytorch:24.08-py3"),
    "edf": "",  # CSCS' own examples use uenvs
}
SIF: Final = "/images/torch.sif"

_CHOSEN: Final = """
--account --bank -A -P -G --time --time-limit walltime -W h_rt
--nodes --ntasks --ntasks-per-node --cpus-per-task -nnodes select ncpus mpiprocs ompthreads -n -np --np --ppn
--depth --nrs --rs_per_host --tasks_per_rs --nnodes --nproc-per-node --nslots --cores-per-slot
--cores-per-task --gpus-per-node --gpus-per-task --mem mem OMP_NUM_THREADS
MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK --rdzv-endpoint --rdzv-id
filesystems --image --container-image --container-mounts --container-workdir --container-env --pwd --bind
--hostfile LD_LIBRARY_PATH TMPDIR TORCH_HOME MIOPEN_CUSTOM_CACHE_DIR MIOPEN_USER_DB_PATH ZE_AFFINITY_MASK
"""
CHOSEN: Final = frozenset(_CHOSEN.split())
"""What a job chooses: who pays, how long, how many, which files; all else is compared with its value."""

BARE: Final = frozenset(("--envall", "--fakeroot", "--label", "--nv", "--rocm"))
"""Options without a value; the word behind them is no part of them."""

COMMANDS: Final = frozenset(("source", ".", "module", "ml", "ulimit", "unset", "mkdir", "eval", "umask"))
"""Commands of setup lines that are settings."""

Settings = tuple[tuple[str, str], ...]


class Line(NamedTuple):
    """A setting of theirs, what ours has of this name, and the reason where it is not the same.

    ``condition``: what the job itself must find for ours to apply.
    """

    theirs: str
    ours: tuple[str, ...]
    same: bool
    reason: str | None
    condition: str | None = None

    @property
    def name(self) -> str:
        """The setting without its value."""
        return name_of(canonical(self.theirs))


def examples_of(site: Site) -> tuple[str, ...]:
    """Return the examples that a site can run: without GPUs MPI alone."""
    has_gpus = any(pool.gpus for pool in pools(site)) or not site.node_types
    return EXAMPLES if has_gpus else ("mpi",)


def uncompared(site: Site) -> dict[str, str]:
    """Return why each example is not compared that a site can run and for which it has no published one."""
    compared = {entry.example for entry in site.published}
    left = [example for example in examples_of(site) if example not in compared]
    if isinstance(site.unpublished, dict):
        return {example: site.unpublished.get(example, NONE_READ) for example in left}
    reason = "no machine of its own" if site.name in NO_MACHINE else site.unpublished or NONE_READ
    return dict.fromkeys(left, reason)


def settings_of(site: Site, example: str, launch: str | None = None) -> Settings:
    """Return what is added to an example for a site, as for ``--set``; ``launch``: how PyTorch is started.

    By default it is as in the site's own published example.
    """
    own = (entry.launch or "env" for entry in site.published if entry.example == example)
    started = launch or next(own, "env")
    account = ("batch.account", account_on(site, gpus=example != "mpi"))
    image = IMAGES.get(site.container.runtime, SIF) if site.container and example == "pytorch" else None
    runs_in: Settings = (("build.image", image),) if image else ()
    runs_in += (("pytorch.launch", started),) if example == "pytorch" else ()
    amounts = _of_a_rank(site) if example == "mpi" else _all_gpus(site)
    paths = ("environment.resources", "environment.replicas.default_worker.resources") if amounts else ()
    return (account, *runs_in, *((path, f"{{{amounts}}}") for path in paths))


def _for_two_nodes(site: Site) -> list[Pool]:
    """Return the pools of which a job may have two nodes; all, where there are none."""
    return [pool for pool in pools(site) if pool.nodes > 1] or [*pools(site)]


def _all_gpus(site: Site) -> str:
    """Return the GPUs of a node that has some, as the experiment asks for them."""
    gpus = next((pool.gpus for pool in _for_two_nodes(site) if pool.gpus), None)
    return f"gpu: {{requests: {gpus}}}" if gpus else ""


def _of_a_rank(site: Site) -> str:
    """Return a fourth of a node without GPUs; a GPU where all jobs must have some."""
    found = [pool for pool in _for_two_nodes(site) if not pool.gpus] or pools(site)
    cpus = next((pool.cpus for pool in found if pool.cpus), None)
    needs_gpus = min((pool.min_gpus for pool in pools(site)), default=0)
    amounts = ("gpu: {requests: 1}" if needs_gpus else "", f"cpu: {{requests: {cpus // 4}}}" if cpus else "")
    memory = "memory: {requests: 4096}" if site.replica.memory else ""
    return ", ".join(filter(None, (*amounts, memory)))


def plan_of(site: Site, example: str, launch: str | None = None) -> Plan:
    """Return the plan of an example on a site."""
    file = FOLDER / f"{example}.yml"
    loaded = load.load_experiment(source.load(file), settings=settings_of(site, example, launch))
    return make_plan(loaded.experiment, site, lambda path: Origin("place", f"{file.name} {path}"))


def said(plan: Plan) -> tuple[str, ...]:
    """Return the settings of a plan's script in long form, as `Published.settings` has them."""
    environment = plan.environment
    header = schedulers.get(plan.identity.scheduler).header(plan, None)
    found = [setting for text, _ in header for setting in options(shlex.split(text)[1:])]
    found += map(_module, environment.modules)
    found += [item for word in (*environment.setup, *environment.task_setup) for item in commands(word.text)]
    variables = (*environment.variables, *environment.task_variables)
    found += (f"{item.name}={item.value}" for item in variables)
    found += _threads(plan)
    found += options(_launch_words(plan))
    return tuple(dict.fromkeys(found))


def _threads(plan: Plan) -> Iterator[str]:
    """Yield the threads of each task, which the task wrapper sets to its CPUs where nothing else does."""
    cpus = {row.cpus for row in plan.placement.rows}
    named = any(item.name == "OMP_NUM_THREADS" for item in plan.environment.variables)
    if plan.launch.mode == "tasks" and not plan.launch.starts_processes and not named and len(cpus) == 1:
        yield f"OMP_NUM_THREADS={cpus.pop()}"


def _launch_words(plan: Plan) -> Iterator[str]:
    """Yield the words of the launch line; a lone ``--`` stands for what the script fills in."""
    for word in plan.words:
        if not word.shell:
            yield word.text
        elif word == TASK_WRAPPER or word.text.startswith('"$'):
            yield "--"
        else:
            yield from shlex.split(word.text)


def _module(name: str) -> str:
    if name in MODULE_RESETS:
        return f"module {name}"
    return f"module unload {name[1:]}" if name.startswith("-") else f"module load {name}"


def commands(line: str) -> Iterator[str]:
    """Yield the settings of a line of bash: exported variables, and commands without variables in front."""
    for piece in re.split(r";|&&|\|\||\bthen\b|\belse\b|\n", line):
        words = [*dropwhile(lambda word: re.match(r"[A-Za-z_]\w*=", word), piece.split())]
        if words[:1] == ["export"]:
            yield from (word for word in shlex.split(piece)[1:] if "=" in word)
        elif words[:1] and words[0] in COMMANDS:
            yield " ".join(words)


def options(words: Iterable[str]) -> Iterator[str]:
    """Yield the options of a command in long form: ``--name=value``, ``-n value``; also ``NAME=value``.

    PBS's ``-l`` is left out: each resource is an option of its own.
    """
    left = [*words]
    for at, word in enumerate(left):
        follows = left[at + 1] if at + 1 < len(left) and not left[at + 1].startswith("-") else None
        if word == "-l" and follows:
            yield from re.split(r":(?=\w+=)", follows)
        elif re.fullmatch(r"--?mca", word) and follows:
            yield f"--mca {follows} {left[at + 2]}"
        elif word.startswith("--") and word != "--":
            yield _normal(word if "=" in word or word in BARE or not follows else f"{word}={follows}")
        elif re.match(r"-[A-Za-z]", word):
            yield word if follows is None else f"{word} {follows}"
        elif re.match(r"[A-Za-z_]\w*=", word) and (at == 0 or left[at - 1] not in {"-l", "-x"}):
            yield word


def _normal(setting: str) -> str:
    """Return an option with its value in one spelling: memory in MiB, a path that is bound to itself once.

    Masks have no leading zeros; that bindings are printed (``verbose``) is no setting.
    """
    name, _, value = setting.partition("=")
    if not value:
        return setting
    if name.startswith("--mem") and re.fullmatch(r"[1-9][0-9.]*[KMGT]?B?", value):
        return f"{name}={Memory.parse(value).mib}M"
    if name == "--cpu-bind":
        bound = re.sub(r"^(?:v|verbose|q|quiet),", "", value).replace("mask_cpu=", "mask_cpu:")
        return f"{name}={re.sub(r'0x0+(?=[0-9a-f])', '0x', bound)}"
    if name in {"--bind", "--volume"}:
        return re.sub(r"=([^:]+?)/?(?::\1)?$", r"=\1", setting)
    return setting


def canonical(setting: str) -> str:
    """Return a setting of theirs as `said` writes ours."""
    if not setting.startswith("-"):
        return " ".join(setting.split()) if setting.startswith("module") else setting
    return next(options(shlex.split(setting)), setting)


def name_of(setting: str) -> str:
    """Return a setting without its value: an option, a variable, a module without its version."""
    if found := re.match(r"(module \w+ )([^/]+)(?:/.*)?$|(--mca \S+) .*$|(-x \w+)=.*$", setting):
        return "".join(filter(None, found.groups()))
    return re.split(r"=| " if re.match(r"-\w", setting) else r"=", setting, maxsplit=1)[0]


def line(theirs: str, reason: str | None, ours: Sequence[str]) -> Line:
    """Compare a setting of theirs with all of ours."""
    setting = canonical(theirs)
    of_the_name = tuple(each for each in ours if name_of(each) == name_of(setting))
    same = setting in ours or any(name_of(each) == setting for each in ours)
    return Line(theirs, of_the_name, same, reason)


def lines(site: Site, entry: Published) -> list[Line]:
    """Compare an example with our script, line by line."""
    plan = plan_of(site, entry.example, entry.launch or "env")
    ours, found = said(plan), conditions(plan)
    compared = (line(theirs, reason, ours) for theirs, reason in entry.settings.items())
    return [each._replace(condition=found.get(each.name)) if each.same else each for each in compared]


def conditions(plan: Plan) -> dict[str, str]:
    """Return the variables that the job sets only where it finds a library, with what it must find."""
    late = (item for item in plan.environment.variables if item.is_late)
    return {
        item.name: f"if {item.found} is found" if item.found else f"if the program links {item.links}"
        for item in late
    }


def mistake(found: Line) -> str | None:
    """Return what is wrong with a line of data: a reason that is missing, or stale."""
    ours = ", ".join(map(repr, found.ours)) or "nothing of this name"
    setting = canonical(found.theirs)
    if (
        found.same
        and setting not in found.ours
        and setting not in CHOSEN
        and not setting.startswith("module")
    ):
        return f"it needs its value, as ours has one: {ours}"
    if not found.same and found.reason is None:
        return f"not in our script, which has {ours}; write the reason, or correct the site"
    if found.same and found.reason is not None:
        return f"our script has it, {ours}; remove the reason"
    return None


def mistakes(site: Site) -> Iterator[str]:
    """Yield every mistake in a site's ``published``, with its file and key."""
    for entry in site.published:
        for found in lines(site, entry):
            if text := mistake(found):
                yield f"{site.name}.yaml: published ({entry.example}): {found.theirs!r}: {text}"


def main(names: Sequence[str]) -> None:
    """Print the settings of each example beside ours, and ours that no entry names."""
    for site in map(shipped_site, names or SHIPPED):
        for entry in site.published:
            print(f"\n{site.name} {entry.example}: {entry.where}")  # noqa: T201
            for found in lines(site, entry):
                text = mistake(found)
                state = f"WRONG: {text}" if text else "same" if found.same else "another way"
                print(f"  {found.theirs:50} ours: {', '.join(found.ours) or '-':40} {state}")  # noqa: T201
        for example in examples_of(site) if names else ():
            print(f"\n{site.name} {example}, all of ours:")  # noqa: T201
            print("  " + "\n  ".join(each for each in said(plan_of(site, example)) if "POLYAXON" not in each))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
