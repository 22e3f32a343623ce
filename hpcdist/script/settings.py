"""Settings: the values of one job that the runtime reads, as entries of a map and rows of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from hpcdist.plan import devices
from hpcdist.plan.model import Plan
from hpcdist.schedulers import schedulers
from hpcdist.script import trial_table
from hpcdist.words import Raw, numbered, quote

Group = dict[str, object]
"""Entries that belong together, by their keys; those that are None, False or empty are not written."""

DEVICES: Final = {
    "CUDA_VISIBLE_DEVICES": "/dev/nvidia[0-9]*",
    "ROCR_VISIBLE_DEVICES": "/dev/dri/renderD*",
    "ZE_AFFINITY_MASK": "/dev/dri/renderD*",
}
"""Where the GPUs of a node can be counted when no variable names them."""

_USUAL: Final = "CUDA_VISIBLE_DEVICES"
_COLUMNS: Final = {
    "role": "role",
    "index": "index",
    "rank": "rank",
    "tasks": "tasks",
    "tasks_per_replica": "per_replica",
    "tasks_per_node": "per_node",
    "node": "node",
    "local_rank": "local_rank",
    "cpu": "cpu",
    "cpus": "cpus",
    "gpu": "gpu",
    "gpus": "gpus",
    "tasks_per_gpu": "per_gpu",
    "processes": "processes",
}
"""What the table has of each `Row`, and the heads of its columns."""


def entries(plan: Plan, run_dir: str | None) -> Iterator[Raw]:
    """Yield the entries of the map ``hpcdist``, a line for each group of them."""
    for group in _groups(plan, run_dir):
        values = ((key, 1 if value is True else value) for key, value in group.items() if value)
        if text := " ".join(f"[{key}]={_element(value)}" for key, value in values):
            yield Raw(text)


def _element(value: object) -> str:
    """Return a value as one word, quoted where a comma would look like the end of it."""
    word = quote(value)
    return f"'{word}'" if "," in word and word == str(value) else word


def table(plan: Plan) -> Iterator[Raw]:
    """Yield the rows of ``hpcdist_tasks``, below a comment with the names of their columns."""
    rows = [[str(getattr(row, name)) for name in _COLUMNS] for row in plan.placement.rows]
    heads = list(_COLUMNS.values())
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for mark, end, cells in (("# ", "", heads), *(('" ', '"', row) for row in rows)):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield Raw(f"{mark}{' '.join(padded).rstrip()}{end}")


def needs_hostfile(plan: Plan) -> bool:
    """Whether anything in the script reads the hostfile, or the user's own launcher may."""
    environment = plan.environment
    words = (*plan.words, *environment.setup, *environment.task_setup)
    texts = (plan.identity.command, *(item.text for item in words))
    variables = (*environment.variables, *environment.task_variables)
    values = (text for item in variables for text in (item.value, item.otherwise or ""))
    return plan.launch.mode == "once" or any("HPCDIST_HOSTFILE" in text for text in (*texts, *values))


def _groups(plan: Plan, run_dir: str | None) -> Iterator[Group]:
    scheduler, launch = schedulers.get(plan.identity.scheduler), plan.launch
    pack = plan.sweep and plan.sweep.pack
    yield {"job": f"{plan.identity.name}: {plan.summary}", "run_dir": run_dir}
    yield {
        "scheduler": plan.identity.scheduler,
        "submit_environment": plan.request.submit_environment if scheduler.is_batch_system else None,
        "walltime": plan.request.walltime,
        "array": _elements(plan),
        "trials": plan.sweep and numbered(trial_table.FILE, plan.identity.number),
        "max_failures": plan.sweep and plan.sweep.max_failures,
        "stop_at": plan.sweep and plan.sweep.stop_at and json.dumps(plan.sweep.stop_at),
        "policies": plan.sweep and plan.sweep.policies and json.dumps(plan.sweep.policies),
        **_of_budget(plan),
        "number": plan.identity.number > 1 and plan.identity.number,
        "packed": pack and pack.workers,
        "shell": plan.shell and ("container" if plan.container else "job"),
        "output": plan.request.output,
        "error": plan.request.error,
    }
    yield {
        "launcher": launch.launcher,
        "program": "" if plan.words[0].shell else plan.words[0].text,
        "mode": launch.mode,
        "rank": launch.rank_variables and launch.rank_variables.rank,
        "size": launch.rank_variables and launch.rank_variables.size,
        "needs_pmi": launch.needs_pmi,
        "mpi": launch.needs_pmi and launch.mpi,
        "label": launch.label_in_task,
        "starts_processes": launch.starts_processes,
        "remote_shell": launch.remote_shell,
        "orders_nodes": launch.orders_nodes,
        "checks_program": plan.task_words and not plan.container and 1,  # it cannot see inside a container
    }
    yield _of_placement(plan)
    yield _of_gpus(plan)
    yield {
        "ports": plan.rendezvous.ports,
        "suffix": plan.rendezvous.suffix,
        "by_address": plan.rendezvous.by_address,
    }
    yield {
        "required_roles": " ".join(plan.completion.required_roles),
        "required_tasks": plan.required_tasks,
        "elastic": plan.completion.elastic,
        "steps": "srun" if plan.steps and plan.identity.scheduler == "slurm" else None,
        "own_nodes": plan.own_nodes,
        "beside": any(step.time == "beside" for step in plan.steps),
        "go_on": not plan.completion.kill_on_failure,
        "max_restarts": plan.completion.max_restarts,
        **_of_restarts(plan),
    }
    yield _of_scheduler(plan)


def _of_restarts(plan: Plan) -> Group:
    """Return after which ends another attempt follows; without any, how often it runs again here."""
    restarts = plan.completion.restarts
    if restarts is None:
        return {}
    return {
        "restart": restarts.by or "here",
        "restart_on": " ".join(restarts.on),
        "max_restarts": restarts.max,
        "notice": f"{restarts.notice} {restarts.signal}",
        "no_progress": restarts.no_progress,
        "stop_on_exit": " ".join(map(str, restarts.stop_on_exit)),
        "stop_file": restarts.stop_file,
        "spare": restarts.spare_nodes,
        "keep_nodes": not restarts.exclude_bad_nodes,
        "rehearsal": restarts.rehearsal and restarts.rehearsal.words,
    }


def _of_budget(plan: Plan) -> Group:
    """Return the GPU-seconds that the trials may take, those of one, or a packed job, and its GPUs."""
    sweep, walltime = plan.sweep, plan.request.walltime
    if not sweep or not sweep.budget or not sweep.cost or not walltime:
        return {}
    return {"budget": sweep.budget, "cost": sweep.cost, "trial_gpus": sweep.cost // walltime.seconds}


def _elements(plan: Plan) -> str | None:
    """Return an array's elements; of one, where PBS has no array, its number alone."""
    array = plan.request.array
    if array is None:
        return None
    return str(array if array.only_index is None else array.only_index)


def _of_scheduler(plan: Plan) -> Group:
    """Return the settings that only LSF (its launch node) and Grid Engine (its slots) need."""
    asks_slots = any(directive.flag == "-pe" for directive in plan.directives)
    several = plan.identity.scheduler == "sge" and plan.placement.nodes + plan.own_nodes > 1
    return {
        "launch_node": plan.request.lsf.launch_node,
        "slots": plan.placement.groups[0].cpus if asks_slots else several and 1,
        "remote": plan.request.sge.remote == "qrsh" and "qrsh",
    }


def _of_placement(plan: Plan) -> Group:
    placement, launch = plan.placement, plan.launch
    several = len(placement.groups) > 1
    by_srun = launch.launcher == "srun"
    files = [str(index) for index, group in enumerate(placement.groups) if by_srun and not group.even]
    return {
        "nodes": placement.nodes,
        "tasks": placement.size,
        "tasks_per_node": ",".join(_run(*run) for run in placement.tasks_per_node()),
        "components": several and " ".join(str(group.nodes) for group in placement.groups),
        "uneven": " ".join(files),
        "hostfile": needs_hostfile(plan) and launch.hostfile_line,
        "threads": None if launch.starts_processes or launch.mode == "once" else _threads(plan),
        "processes": any(row.processes > 1 for row in placement.rows),
    }


def _run(nodes: int, tasks: int) -> str:
    """Return a number of nodes and their tasks in Slurm's notation, ``4(x2)`` (SLURM_TASKS_PER_NODE)."""
    return f"{tasks}(x{nodes})" if nodes > 1 else str(tasks)


def _threads(plan: Plan) -> str:
    """Return whether a task's own CPUs are its threads, or only by default."""
    sets = schedulers.get(plan.identity.scheduler).sets_threads
    named = any(item.name == "OMP_NUM_THREADS" for item in plan.environment.variables)
    return "own" if sets and not named else "default"


def _of_gpus(plan: Plan) -> Group:
    variable = plan.gpus.variable
    if not any(item.gpus for item in plan.placement.groups):
        hidden = devices.hidden(plan)
        return {"gpus": hidden and "hidden", "gpu_variable": (hidden or variable != _USUAL) and variable}
    lacks_gpu_assignment = devices.lacks_gpu_assignment(plan)
    return {
        "gpus": plan.gpus.visibility,
        "gpu_variable": variable,
        "gpu_devices": DEVICES[variable],
        "gpu_usage": plan.identity.tracking.gpu_usage_seconds,
        "shared_gpus": lacks_gpu_assignment,
        "gpu_hook": lacks_gpu_assignment and schedulers.get(plan.identity.scheduler).gpu_hook,
    }
