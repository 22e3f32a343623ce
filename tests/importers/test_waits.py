"""Loops in which a command waits for the sshd of other pods, which no job of a batch system has."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.container import without_waits
from tests.importers.remarks import errors_of, remarks_of

SSH = "until ssh -p 2222 -o ConnectTimeout=1 $host true > /dev/null 2>&1; do sleep 1; done"
MPI = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - image: i
            command: [bash, -c]
            args:
            - |
%s
    Worker: {replicas: 2, template: {spec: {containers: [{image: i}]}}}
"""
V1 = """\
version: 1.1
kind: component
run:
  kind: mpijob
  launcher:
    container:
      command: [bash, -c]
      args:
      - |
%s
  worker: {replicas: 2, container: {}}
"""


def in_script(template: str, script: str) -> str:
    """Return a file with this script."""
    return template % "".join(f"              {line}\n" for line in script.splitlines()).rstrip("\n")


@pytest.mark.parametrize(
    ("script", "rest"),
    [
        (f"{SSH}; a b", "a b"),
        (f"{SSH}\na b", "a b"),
        (f"{SSH} && a b", "a b"),
        (f"set -e\n{SSH}\na b", "set -e\na b"),
        (f"x; {SSH}; a b", "x; a b"),
        (f"for host in w-0 w-1; do {SSH}; done; a b", "a b"),
        (f'for h in $(cut -d" " -f1 /etc/mpi/hostfile); do\n  echo "wait $h"\n  {SSH}\ndone\na b', "a b"),
        (f"while read -r host _; do\n  {SSH}\ndone < /etc/mpi/hostfile\na b", "a b"),
        (f"cut -d' ' -f1 /etc/mpi/hostfile | while read host; do {SSH}; done\na b", "a b"),
        ("until nslookup w-0; do\n  echo waiting\n  sleep 2\ndone\na b", "a b"),
        ("while ! ssh w &> /dev/null\ndo\n i=$((i + 1))\n if [ $i -gt 9 ]; then exit; fi\ndone\na b", "a b"),
        ("until ssh -p 2222 \\\n  -o BatchMode=yes w-0 true; do\n  sleep 1\ndone\na b", "a b"),
        ("while ! nc -z $MASTER_ADDR 22; do sleep 1; done; a b", "a b"),
        ("until getent hosts w-0 && ping -c1 w-0; do sleep 1; done; a b", "a b"),
        ("/usr/sbin/sshd -p 2222; a b", "a b"),
        ("service ssh start && a b", "a b"),
        (f"mkdir -p /run/sshd && /usr/sbin/sshd\n{SSH}\na b", "mkdir -p /run/sshd\na b"),
        (f"if [ $x ]; then {SSH}; fi; a b", "if [ $x ]; then :; fi; a b"),
    ],
)  # fmt: skip
def test_a_wait_is_dropped(script: str, rest: str) -> None:
    assert without_waits(script)[0] == rest


@pytest.mark.parametrize(
    "script",
    [
        "a b",
        "until test -e done; do sleep 1; done; a b",
        "for i in 1 2; do a $i; done",
        "while true; do a; done",
        "echo 'until ssh x; do sleep 1; done'x",
        "ssh-keygen -t rsa; a",
        "until python ssh.py; do sleep 1; done",
        "/usr/sbin/sshd -De",
    ],
)
def test_another_loop_is_kept(script: str) -> None:
    assert without_waits(script) == (script, "")


@pytest.mark.parametrize("template", [MPI, V1], ids=["kubeflow", "polyaxon_v1"])
def test_what_waits_and_starts_processes_starts_them(template: str) -> None:
    text = in_script(template, f"{SSH}\nmpirun -np 2 python t.py")
    data: Any = importers.read(source.parse(text, "f.yml").data).data
    assert (data["framework"], data["environment"], data["run"]) == (
        "mpi",
        {"replicas": {"n_workers": 1}},
        {"cmd": "python t.py"},
    )
    [remark] = [line for line in remarks_of(text) if "ssh" in line]
    assert remark.endswith(
        "`until ssh -p 2222 -o ConnectTimeout=1 $host true > /dev/null 2>&1` has no effect: "
        "all nodes are allocated before anything starts, and none has an sshd of the job"
    )


@pytest.mark.parametrize("template", [MPI, V1], ids=["kubeflow", "polyaxon_v1"])
def test_a_wait_that_does_more_is_refused(template: str) -> None:
    text = in_script(template, "until ssh w make; do sleep 1; prepare; done\nmpirun -np 2 python t.py")
    [error] = errors_of(text)
    assert "no node has an sshd of the job, so `until ssh w make` would wait until the time limit" in error


def test_an_init_container_that_waits_for_ssh_has_no_effect() -> None:
    wait = "[sh, -c, 'until ssh a-worker-0 true; do sleep 1; done']"
    pod = f"          initContainers: [{{name: w, image: i, command: {wait}}}]\n          containers:"
    text = in_script(MPI, "mpirun -np 2 python t.py").replace("          containers:", pod)
    assert errors_of(text) == []
