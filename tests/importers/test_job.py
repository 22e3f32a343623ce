# ruff: noqa: E501 - a message is compared as one line
"""The one form between the files of other systems and the experiment."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.importers.job import CloudMachine, ForeignJob, Role, Sourced, on_machine, put_name, take_image
from hpcdist.importers.launch_lines import RankCount, parse_launch_line, ranks_of
from hpcdist.importers.reading import Reading


def reading(text: str = "count: 3\nmachine: P4000\nline: mpirun\n") -> Reading:
    return Reading(source.parse(text, "f.yml").data)


def test_a_job_is_written_with_the_keys_that_it_comes_from() -> None:
    read, gpus = reading(), {"gpu": {"requests": 2}}
    role = Role(resources=gpus, resources_source=("machine",), nodes={"a": "b"}, nodes_source=("machine",))
    worker = role._replace(count=2, source=("count",))
    job = ForeignJob(roles={"master": role, "worker": worker, "evaluator": Role(source=("count",))})
    job.slots, job.nodes = Sourced(2, ("count",)), Sourced(3, ("count",))
    job.command, job.image = Sourced("x", ("line",)), Sourced("a/b", ("machine",))
    job.env["A.b"] = Sourced("1", ("line",))
    job.set("pytorch.launch", "env", "line")
    job.write(read)
    each = {"resources": gpus, "node_selector": {"a": "b"}}
    assert read.native == {
        "pytorch": {"launch": "env"},
        "environment": {
            **each,
            "replicas": {"n_workers": 2, "default_worker": each, "evaluator": {}},
            "processes_per_replica": 2,
            "env_vars": {"A.b": "1"},
        },
        "batch": {"nodes": 3},
        "build": {"image": "a/b"},
        "run": {"cmd": "x"},
    }
    assert read.origins["environment", "replicas", "n_workers"] == ("count",)
    assert read.origins["environment", "env_vars", "A.b"] == ("line",)
    assert (role.gpus, Role().gpus) == (2, 0)


def test_roles_of_no_replicas_request_nothing() -> None:
    read = reading()
    needs = {"cpu": {"requests": 1}}
    role = Role(0, ("count",), needs, ("machine",))
    ForeignJob(roles={"worker": role, "ps": role._replace(count=None)}).write(read)
    replicas = {"n_workers": 0, "default_ps": {"resources": needs}}
    assert read.native == {"environment": {"replicas": replicas}}


def test_a_machine_is_a_role_with_one_warning() -> None:
    read = reading()
    assert on_machine(read, None, "machine") == on_machine(read, CloudMachine(), "machine") == Role()
    assert on_machine(read, CloudMachine(cpus=2, gib=4), "machine").nodes is None
    first, second = (on_machine(read, CloudMachine(1, "P4000"), "machine") for _ in range(2))
    assert first == second
    assert (first.resources, first.nodes) == ({"gpu": {"requests": 1}}, {"gpu_type": "P4000"})
    assert len(read.remarks) == 1


def test_a_job_has_one_image_and_a_valid_name() -> None:
    read, job = reading(), ForeignJob()
    take_image(job, read, [Sourced("a", ("count",)), Sourced("a", ("line",)), Sourced("b", ("machine",))])
    put_name(read, "my job", "line")
    assert (job.image, read.native["name"]) == (Sourced("a", ("count",)), "my-job")
    assert [str(one) for one in read.remarks] == [
        "f.yml:2:10: machine: a job has one image, and a is the image of the other replicas; write the same one for all",
        "f.yml:3:7: line: the job is named 'my-job': 'my job' is not a valid job name",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "found", "said"),
    [
        ("mpirun x", (3, 2), ""),
        ("mpirun -np 6 x", (3, 2), ""),
        ("mpirun -npernode 4 x", (3, 4), ""),
        ("mpirun -np 12 -npernode 4 x", (3, 4), ""),
        ("mpirun -np 3 --map-by node x", (3, 1), ""),
        (
            "mpirun -np 4 x",
            (2, 2),
            "mpirun starts 4 processes (-np) on 2 of 3 workers: no other is requested",
        ),
        ("mpirun -np 1 x", (1, 1), "mpirun starts 1 process (-np) on 1 of 3 workers: no other is requested"),
        ("mpirun -np 3 x", (3, 2), "mpirun is to start 3 processes; 3 workers with 2 each are 6"),
        ("horovodrun -np 7 x", (3, 2), "horovodrun is to start 7 processes; 3 workers with 2 each are 6"),
        ("mpirun -np 0 x", (3, 2), "mpirun is to start 0 processes; 3 workers with 2 each are 6"),
        ("mpirun -npernode all x", (3, 2), "'all' is not a number of processes on each node"),
    ],
)
def test_what_a_line_starts_on_three_workers_with_two_slots(
    line: str, found: tuple[int, int], said: str
) -> None:
    read, parsed = reading(), parse_launch_line(line, {})
    assert parsed is not None
    assert ranks_of(read, parsed, RankCount(3, 2), ("line",), "`count`") == found
    assert [one.message for one in read.remarks] == ([said] if said else [])
