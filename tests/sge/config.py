"""What the Grid Engine of the tests is made of, as qconf(1) reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.slurm.config import Node

NODES: Final = (
    *(Node(name, gpu_type="a100", gpus=4) for name in ("n1", "n2")),
    Node("n3"),
)

ALLOCATION_RULES: Final[Mapping[str, str]] = {
    "smp": "$pe_slots",
    "fill": "$fill_up",
    "robin": "$round_robin",
    **{f"mpi-{slots}": str(slots) for slots in (1, 2, 4, 8, 16)},
}
"""Parallel environments; those with a number give so many slots on each host, or do not start the job."""

COMPLEXES: Final = """\
gpu       gpu       DOUBLE  <=  YES  YES  0  0
hostgpu   hostgpu   INT     <=  YES  NO   0  0
jobgpu    jobgpu    INT     <=  YES  JOB  0  0
exclusive excl      BOOL  EXCL YES YES  0  1000
"""

GLOBAL: Final[Mapping[str, str]] = {
    # A job that is deleted ends in an instant; the default is to look every 40 s.
    "load_report_time": "00:00:02",
    "mailer": "/bin/true",
    "reporting_params": (
        "accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false "
        "sharelog=00:00:00"
    ),
    "gid_range": "30000-30100",
}

SCHEDULER: Final[Mapping[str, str]] = {
    "schedule_interval": "0:0:2",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "schedd_job_info": "true",
    "default_duration": "INFINITY",
}


def environment(name: str, rule: str) -> str:
    """The text of a parallel environment: sge_pe(5)."""
    return f"""\
pe_name            {name}
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    {rule}
control_slaves     TRUE
job_is_first_task  FALSE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
"""


def host(node: Node) -> str:
    """The text of an execution host: host_conf(5)."""
    gpus = f",gpu={node.gpus},hostgpu={node.gpus},jobgpu={node.gpus}" if node.gpus else ""
    return f"""\
hostname           {node.name}
load_scaling       NONE
complex_values     slots={node.cpus},exclusive=true{gpus}
user_lists         NONE
xuser_lists        NONE
projects           NONE
xprojects          NONE
usage_scaling      NONE
report_variables   NONE
"""


def changed(text: str, values: Mapping[str, str]) -> str:
    """A text of `attribute value` lines, as qconf shows it, with other values."""
    lines = text.replace("\\\n", " ").splitlines()
    kept = [line for line in lines if line and not line.startswith("#") and line.split()[0] not in values]
    return "\n".join([*kept, *(f"{name} {value}" for name, value in values.items()), ""])


def queue(name: str, nodes: Sequence[Node]) -> Mapping[str, str]:
    """What is different from the default in a queue over these nodes: queue_conf(5)."""
    return {
        "qname": name,
        "hostlist": " ".join(node.name for node in nodes),
        "slots": str(max(node.cpus for node in nodes)),
        "pe_list": " ".join(ALLOCATION_RULES),
        # The login environment of the nodes is nobody's business.
        "shell_start_mode": "unix_behavior",
        "shell": "/bin/bash",
        "rerun": "FALSE",
        "load_thresholds": "NONE",
        "notify": "00:00:05",
    }
