"""The job as its plan has it: what the supervisor needs of RUN/plan.json, read once."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple


class Policy(NamedTuple):
    """After which ends of the program another attempt follows (`hpcdist.plan.model.Restarts`)."""

    by: Optional[str]  # "requeue" or "follow"; None where this allocation alone can have another
    on: Tuple[str, ...]  # failure, timeout, preempt, node_failure
    max: int
    notice: int  # seconds before the time limit
    signal: str  # which the program gets then
    no_progress: int
    stop_on_exit: Tuple[int, ...]
    stop_file: Optional[str]
    spare_nodes: int
    exclude_bad_nodes: bool
    rehearsal: str  # its seed, and how each attempt but the last is to be ended; empty for none


class Step(NamedTuple):
    """A command beside the program: before, beside or after it; on job, node, last_node or own_node."""

    time: str
    on: str
    command: str


class Row(NamedTuple):
    """Equal tasks on consecutive nodes, in the order of their ranks (`hpcdist.plan.placement.Row`)."""

    role: str
    rank: int
    tasks: int
    tasks_per_node: int
    node: int
    local_rank: int

    def place(self, rank: int) -> "Tuple[int, int]":
        """Return the node and the local rank of one of these tasks."""
        along, slot = divmod(rank - self.rank, self.tasks_per_node)
        return self.node + along, self.local_rank + slot


class Sweep(NamedTuple):
    """The search whose trials the job runs (`hpcdist.plan.model.Sweep`)."""

    max_failures: Optional[int]
    budget: Optional[int]  # GPU-seconds
    cost: int  # what a trial, or a job of packed trials, takes of them at most
    gpus: int  # of a trial, or a job of packed trials
    stop_at: str  # JSON; empty for none
    policies: str  # JSON; empty for none
    workers: int  # how many packed trials run at once; 0 where each trial is an element of an array


class Job(NamedTuple):
    """One job of a run."""

    run: str  # the run directory
    number: int  # which job of the run, from 1
    name: str
    scheduler: str
    launcher: str
    mode: str  # "tasks", or "once" where the command starts them itself
    by_launches: bool  # the script has a launch for each role, or each process of this machine
    remote_shell: Optional[str]
    nodes: int  # those of the tasks
    own_nodes: int  # those without tasks, behind them
    components: Tuple[int, ...]  # the nodes of each component of a heterogeneous job
    tasks: int
    rows: Tuple[Row, ...]
    walltime: Optional[int]  # seconds
    policy: Optional[Policy]
    max_restarts: int
    kill_on_failure: bool  # the launcher ends all other tasks when one fails
    elastic: bool
    steps: Tuple[Step, ...]
    gpus: int  # of all tasks
    gpu_variable: str
    gpu_visibility: str
    usage: Optional[int]  # seconds between samples
    output: Optional[str]
    error: Optional[str]
    sweep: Optional[Sweep]
    array: str  # the elements as they were submitted; the number alone of one, where PBS has no array
    follows_jsrun: bool  # the order of the nodes is jsrun's, which no file of resources tells by name
    launch_node: bool  # LSF: the first host of the job is none of the nodes
    slots: int  # Grid Engine: on each host; 0 where it is not asked for several
    inherits: bool  # the job has the variables of the shell that submitted it
    variables: Tuple[Tuple[str, str], ...]  # Polyaxon's; a value may name variables of ours
    shell: bool  # a shell of the user's runs in place of the program

    def file(self, *parts: str) -> str:
        """Return a path below the run directory."""
        return os.path.join(self.run, *parts)

    def own(self, name: str) -> str:
        """Return the path of a file that each job of the run has: ``job.sh``, of the second ``job.2.sh``."""
        stem, dot, suffix = name.partition(".")
        return self.file(name if self.number == 1 else f"{stem}.{self.number}{dot}{suffix}")

    def place(self, rank: int) -> "Optional[Tuple[int, int]]":
        """Return the node and the local rank of a task; None for one that the plan does not have."""
        found = (row for row in self.rows if 0 <= rank - row.rank < row.tasks)
        return next((row.place(rank) for row in found), None)


def read(run: str, number: int = 1) -> Job:
    """Return a job by the plan in its run directory.

    Raises:
        OSError, ValueError, KeyError, TypeError: if that cannot be read.
    """
    name = "plan.json" if number == 1 else f"plan.{number}.json"
    with open(os.path.join(run, name), encoding="utf-8") as file:
        plan = json.load(file)
    identity, request, launch, gpus = (plan[key] for key in ("identity", "request", "launch", "gpus"))
    placement = plan["placement"]
    groups = placement["groups"]
    walltime = request["walltime"] and request["walltime"]["seconds"]
    return Job(
        run=run,
        number=number,
        name=identity["name"],
        scheduler=identity["scheduler"],
        launcher=launch["launcher"],
        mode=launch["mode"],
        by_launches=bool(plan["role_launches"]) or launch["launcher"] == "processes",
        remote_shell=launch["remote_shell"],
        nodes=sum(group["nodes"] for group in groups),
        own_nodes=plan["own_nodes"],
        components=tuple(group["nodes"] for group in groups) if len(groups) > 1 else (),
        tasks=sum(row["tasks"] for row in placement["rows"]),
        rows=tuple(Row(*(row[name] for name in Row._fields)) for row in placement["rows"]),
        walltime=walltime,
        policy=_policy(plan["completion"]["restarts"]),
        max_restarts=plan["completion"]["max_restarts"],
        kill_on_failure=plan["completion"]["kill_on_failure"],
        elastic=plan["completion"]["elastic"],
        steps=tuple(Step(*(step[name] for name in Step._fields)) for step in plan["steps"]),
        gpus=sum(row["tasks"] * row["gpus"] // (row["tasks_per_gpu"] or 1) for row in placement["rows"]),
        gpu_variable=gpus["variable"],
        gpu_visibility=gpus["visibility"],
        usage=_usage(identity["tracking"]["gpu_usage"]),
        output=request["output"],
        error=request["error"],
        sweep=_sweep(plan["sweep"], walltime),
        array=_array(request["array"]),
        follows_jsrun=_follows_jsrun(plan),
        launch_node=request["lsf"]["launch_node"],
        slots=_slots(plan, groups),
        inherits=request["submit_environment"] == "inherit",
        variables=tuple(_polyaxon(plan["environment"]["variables"])),
        shell=bool(plan["shell"]),
    )


def _policy(restarts: "Optional[Dict[str, Any]]") -> Optional[Policy]:
    if restarts is None:
        return None
    rehearsal = restarts["rehearsal"]
    words = [str(rehearsal["seed"]), *rehearsal["ends"]] if rehearsal else []
    values = {name: restarts[name] for name in Policy._fields}
    values.update(
        on=tuple(restarts["on"]), stop_on_exit=tuple(restarts["stop_on_exit"]), rehearsal=" ".join(words)
    )
    return Policy(**values)


def _sweep(sweep: "Optional[Dict[str, Any]]", walltime: Optional[int]) -> Optional[Sweep]:
    if sweep is None:
        return None
    cost = sweep["cost"] or 0
    return Sweep(
        sweep["max_failures"],
        sweep["budget"],
        cost,
        cost // walltime if walltime else 0,
        json.dumps(sweep["stop_at"]) if sweep["stop_at"] else "",
        json.dumps(sweep["policies"]) if sweep["policies"] else "",
        sweep["pack"]["workers"] if sweep["pack"] else 0,
    )


def _usage(value: "Any") -> Optional[int]:
    return 30 if value is True else value or None


def _array(array: "Optional[Dict[str, Any]]") -> str:
    """Return the elements of an array as Slurm writes them, and of one element its number alone."""
    texts: List[str] = []
    for part in array["ranges"] if array else ():
        last = part["first"] if part["last"] is None else part["last"]
        several = last >= part["first"] + (part["step"] or 1)
        step = f":{part['step']}" if part["step"] else ""
        texts.append(f"{part['first']}-{last}{step}" if several else str(part["first"]))
    return ",".join(texts)


def _follows_jsrun(plan: "Dict[str, Any]") -> bool:
    by_name = any("$(resources " in word["text"] for word in plan["words"])
    several = sum(group["nodes"] for group in plan["placement"]["groups"]) > 1
    return plan["launch"]["launcher"] == "jsrun" and several and not by_name


def _slots(plan: "Dict[str, Any]", groups: "List[Dict[str, Any]]") -> int:
    asks = any(directive["flag"] == "-pe" for directive in plan["directives"])
    hosts = sum(group["nodes"] for group in groups) + plan["own_nodes"]
    several = plan["identity"]["scheduler"] == "sge" and hosts > 1
    return groups[0]["cpus"] if asks else int(several)


def _polyaxon(variables: "List[Dict[str, Any]]") -> "List[Tuple[str, str]]":
    return [(item["name"], item["value"]) for item in variables if item["origin"]["kind"] == "polyaxon"]
