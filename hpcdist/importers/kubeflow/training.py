"""What the jobs of Kubeflow's training operator share: their kinds of replicas and the commands of these.

The names of the earlier operators, one for each kind, are accepted too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hpcdist.importers.kubeflow.pod import pod
from hpcdist.importers.kubeflow.roles import (
    Part,
    Role,
    put_amounts,
    put_image,
    put_program,
    refuse_missing_command,
    roles,
    whole,
)
from hpcdist.importers.launch_lines import refuse_launch_per_replica
from hpcdist.importers.reading import Reading

_ORDER: Final = ("master", "worker", "ps", "evaluator")
_OF_JOBS: Final = dict.fromkeys(
    ("selector", "manualSelector", "completionMode", "podFailurePolicy", "podReplacementPolicy",
     "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"), "there are no pods",
)  # fmt: skip
_ADVICE: Final = (
    "write an MPIJob with `slotsPerWorker`, whose Launcher runs {program} for all of them; or "
    "`framework: {framework}`, and the program alone"
)


def one_pod(read: Reading) -> None:
    """Read a Job of Kubernetes that is one pod."""
    for key in ("parallelism", "completions"):
        if (whole(read, "spec", key) or 1) > 1:
            why = "a trial is one job, and its pods do not know each other"
            read.refuse("spec", key, why=why, hint="write 1, or a PyTorchJob, MPIJob or TFJob")
    read.ignore_all(_OF_JOBS, "spec")
    if found := pod(read, "spec", "template"):
        role = {"master": Role(("spec", "template"), 1, found)}
        put_replicas(read, role, parts_of(read, role))


def replicas_of(
    read: Reading,
    specs: Sequence[str],
    names: Mapping[str, str],
    main: str,
    operator_variables: frozenset[str],
) -> dict[str, Role]:
    """Return the kinds of replicas with a number above 0; ``specs`` are the keys that may hold them."""
    keys = [key for key in specs if read.peek("spec", key) is not None]
    if not keys:
        hint = f"write `{specs[0]}: {{{next(iter(names)).title()}: ...}}`"
        read.refuse("spec", why="the job has no replicas", hint=hint)
        return {}
    found = roles(read, ("spec", keys[0]), names, main, operator_variables)
    present = {name: role for name, role in found.items() if role.number}
    if found and not present:
        read.refuse("spec", keys[0], why="all replica counts are 0", hint="write `replicas: 1` or more")
    return present


def only_one(read: Reading, role: Role | None, name: str) -> None:
    """Refuse more than one replica of a kind."""
    if role and role.number > 1:
        why = f"there can be one {name}, not {role.number}"
        read.refuse(*role.path, "replicas", why=why, hint="write 1")


def worker_first(read: Reading, found: dict[str, Role], what: str) -> dict[str, Role]:
    """Make the first worker the master; unchanged, with an error, where that is not possible.

    ``what`` is what changes for the program, "" for nothing.
    """
    worker = found.get("worker")
    if worker is None:
        why = "there is neither a chief nor a worker"
        read.refuse("spec", why=why, hint="write one of them")
        return found
    if what and (len(found) > 1 or worker.number > 1):
        read.warn(*worker.path, why=f"the first worker is the master: {what}")
    others = {name: role for name, role in found.items() if name != "worker"}
    return with_master(worker) | others


def with_master(worker: Role) -> dict[str, Role]:
    """Return the first worker as the master, and the rest."""
    rest = {"worker": worker._replace(number=worker.number - 1)} if worker.number > 1 else {}
    return {"master": worker._replace(number=1), **rest}


def parts_of(read: Reading, found: Mapping[str, Role]) -> list[Part]:
    """Return what each native role runs; none, with an error, if only some name it, or one is not run."""
    silent = {role.path: role for role in found.values() if role.pod.command is None}
    if any(role.pod.command is not None or not role.pod.image for role in found.values()):
        for role in silent.values():
            refuse_missing_command(read, role)
        if silent:
            return []
    pods = {name: found[name].pod for name in _ORDER if name in found}
    parts = [Part(name, pod, pod.args if pod.command is None else pod.command) for name, pod in pods.items()]
    return parts if _check_launches(read, parts, sum(role.number for role in found.values())) else []


def _check_launches(read: Reading, parts: Sequence[Part], total: int) -> bool:
    """Refuse a launch that hpcdist runs once, where Kubeflow runs it in every pod and there are several."""
    commands = {part.pod.command_path: part.command for part in parts}
    refused = [
        refuse_launch_per_replica(read, text, total, where, advice=_ADVICE)
        for where, text in commands.items()
    ]
    return not any(refused)


def put_replicas(read: Reading, found: Mapping[str, Role], parts: list[Part]) -> None:
    """Put the replicas of a job with a master."""
    put_amounts(read, **{name: role.pod for name, role in found.items()})
    for name, key in (("worker", "n_workers"), ("ps", "n_ps")):
        if name in found:
            read.put(f"environment.replicas.{key}", found[name].number, *found[name].path, "replicas")
    if "evaluator" in found and not (found["evaluator"].pod.resources or found["evaluator"].pod.nodes):
        read.put("environment.replicas.evaluator", {}, *found["evaluator"].path)
    put_image(read, [role.pod for role in {role.path: role for role in found.values()}.values()])
    if parts:
        put_program(read, parts)
