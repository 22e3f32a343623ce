"""What a plan asks of qsub; the plans are whole ones, made of experiments and of sites in ``tests/sites``."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import ArraySpec, Dependency
from hpcdist.plan.model import Plan
from hpcdist.plan.values import DEFAULT, Directive, Origin
from hpcdist.planner.make_plan import make_plan
from hpcdist.schedulers.directives import directive_text, mail_points
from hpcdist.schedulers.pbs import PBS
from hpcdist.schedulers.pbs.directives import HEADER, array, dependency
from hpcdist.site.model import Site
from tests.experiments import experiment, where
from tests.sites import site, site_named
from tests.wording import Wording

NODES = {"gpu": {"cpus": 32, "memory": 64000, "gpus": 4, "gpu_type": "a100"}, "cpu": {"cpus": 16, "gpus": 0}}


def pbs(**data: Any) -> Site:
    base = {
        "scheduler": "pbs",
        "launcher": "mpirun",
        "node_types": NODES,
        "partitions": {"workq": {"nodes": {"gpu": 100}}, "cpuq": {"nodes": {"cpu": 100}}},
    }
    return site(**base | data)


def planned(machine: Site | None = None, workers: int = 0, **data: Any) -> Plan:
    gpu = {"gpu": {"requests": 1}}
    base: dict[str, Any] = {
        "name": "mnist",
        "framework": "mpi",
        "environment": {
            "resources": gpu,
            "replicas": {"n_workers": workers, "default_worker": {"resources": gpu}},
        },
    }
    return make_plan(experiment(**base | data), machine or pbs(), where)


def lines(plan: Plan) -> list[str]:
    return [directive_text(HEADER, line) for line in plan.directives]


def select(plan: Plan) -> str:
    return next(line.value or "" for line in plan.directives if line.flag == "-l select")


def refusal(machine: Site | None = None, **data: Any) -> str:
    with pytest.raises(PlanError) as error:
        planned(machine, **data)
    return str(error.value)


def test_a_plain_job() -> None:
    assert lines(planned(workers=7)) == [
        "-N mnist",
        "-q workq",
        "-l select=2:ncpus=32:mpiprocs=4:ngpus=4",
        "-l place=scatter",
        "-r n",
        "-k oed",
        "-V",
    ]


def test_everything_at_once() -> None:
    batch = {
        "account": "proj",
        "walltime": "1-12:00:00",
        "array": "0-9%2",
        "dependency": ["12", "afterany:3:4"],
        "requeue": True,
        "exclusive": True,
        "mail": {"user": "me@example.org", "events": ["begin", "fail"]},
        "directives": ["-l software=1,disk=2gb", "-W group_list=x", "-p 10", "-h"],
    }
    machine = pbs(
        pbs={"umask": "027", "chunk": {"big": True}},
        environment="clean",
        directives={"mandatory": ["-l filesystems=home:eagle", "-k oed", "-l wd"]},
    )
    assert lines(planned(machine, workers=1, batch=batch)) == [
        "-N mnist",
        "-A proj",
        "-q workq",
        "-l select=1:ncpus=16:mpiprocs=2:ngpus=2:big=true",
        "-l place=scatter:excl",
        "-l walltime=36:00:00",
        "-J 0-9%2",
        "-W depend=afterok:12,afterany:3:4",
        "-r y",
        "-M me@example.org",
        "-m abe",
        "-k oed",
        "-W umask=027",
        "-l filesystems=home:eagle",
        "-l wd",
        "-l software=1",
        "-l disk=2gb",
        "-W group_list=x",
        "-p 10",
        "-h",
    ]


def test_unequal_nodes_are_chunks_of_their_own_in_rank_order() -> None:
    assert select(planned(workers=8)) == "3:ncpus=24:mpiprocs=3:ngpus=3"
    assert select(planned(workers=9)) == ("1:ncpus=32:mpiprocs=4:ngpus=4+2:ncpus=24:mpiprocs=3:ngpus=3")


def test_memory_and_the_type_of_gpus_are_in_the_chunk() -> None:
    machine = pbs(pbs={"gpu_type": "gpu_type", "gpus": "ngpus"}, replica={"memory": "16G"})
    assert select(planned(machine)) == "1:ncpus=8:mpiprocs=1:ngpus=1:gpu_type=a100:mem=16384mb"
    silent = pbs(replica={"memory": "16G"}, request_memory=False, gpus={"request": "none"})
    assert select(planned(silent)) == "1:ncpus=8:mpiprocs=1"


def test_threads_are_said_where_no_task_wrapper_sets_them() -> None:
    own: dict[str, Any] = {"framework": "mpi", "backend": "mpi", "run": {"cmd": "mpirun -np 2 ./a.out"}}
    assert select(planned(**own)) == "1:ncpus=8:mpiprocs=1:ompthreads=8:ngpus=1"


def test_a_constraint_is_a_resource_of_the_chunk() -> None:
    plan = planned(batch={"constraint": "model=mil_a100&disk=ssd"})
    assert select(plan) == "1:ncpus=8:mpiprocs=1:ngpus=1:model=mil_a100:disk=ssd"


@pytest.mark.parametrize("option", ["-A", "-P", "-W group_list"])
def test_the_option_that_takes_the_account(option: str, wording: Wording) -> None:
    machine = pbs(pbs={"account": option})
    plan = planned(machine, batch={"account": "proj"})
    assert f"{option}{'=' if ' ' in option else ' '}proj" in lines(plan)
    said = refusal(machine, batch={"directives": [f"{option}{'=' if ' ' in option else ' '}x"]})
    wording(said)


@pytest.mark.parametrize(
    ("place", "exclusive", "text"),
    [
        ("scatter", "excl", "-l place=scatter:excl"),
        ("pack", "exclhost", "-l place=pack:exclhost"),
        ("none", "excl", "-l place=excl"),
        ("free", "none", "-l place=free"),
    ],
)
def test_place(place: str, exclusive: str, text: str) -> None:
    plan = planned(pbs(whole_nodes=True, pbs={"place": place, "exclusive": exclusive}))
    assert [line for line in lines(plan) if "place" in line] == [text]


@pytest.mark.parametrize("element", ["3", "0-0", "5-6:4"])
def test_one_element_is_no_array(element: str) -> None:
    assert not any(line.startswith("-J") for line in lines(planned(batch={"array": element})))


@pytest.mark.parametrize(
    ("text", "value"),
    [("0-7", "0-7"), ("0-7%2", "0-7%2"), ("1-10:3%2", "1-10:3%2"), ("0-9:3", "0-9:3"), ("1,3,5", "1-5:2"),
     ("0-2,3-5", "0-5"), ("0-9999", "0-9999"), ("7", None)],
)  # fmt: skip
def test_arrays(text: str, value: str | None) -> None:
    assert array(ArraySpec.parse(text)) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(90, "00:01:30"), (3600, "01:00:00"), (7 * 86400, "168:00:00"), (86399, "23:59:59")],
)
def test_walltime_never_has_days(seconds: int, text: str) -> None:
    assert Walltime(seconds).clock == text


def test_dependencies_and_mail() -> None:
    waits = [Dependency.parse(text) for text in ("12", "afterany:3:4,afternotok:5")]
    assert dependency(waits) == "afterok:12,afterany:3:4,afternotok:5"
    assert [
        mail_points(events) for events in (("begin",), ("end", "fail"), ("fail",), ("all",), ("none",))
    ] == [
        "b",
        "ae",
        "ae",
        "abe",
        "n",
    ]


GADI = site_named("gadi-like")


def test_totals_of_the_job() -> None:
    four = {"resources": {"gpu": {"requests": 4}, "memory": {"requests": "190G"}}}
    plan = planned(GADI, environment=four, batch={"account": "ab12", "walltime": "1h"})
    assert lines(plan) == [
        "-N mnist",
        "-P ab12",
        "-q gpuvolta",
        "-l ncpus=48",
        "-l ngpus=4",
        "-l mem=194560mb",
        "-l walltime=01:00:00",
        "-r n",
        "-V",
        "-l wd",
    ]


def test_cpus_are_rounded_up_to_what_the_site_gives_with_its_gpus() -> None:
    two = {"resources": {"gpu": {"requests": 2}, "cpu": {"requests": 4}}}
    plan = planned(GADI, environment=two, batch={"account": "ab12"})
    found = {line.flag: (line.value, line.origin) for line in plan.directives}
    rule = "12 CPUs a GPU: site gadi-like: node_types.v100.cpus_per_gpu"
    assert found["-l ncpus"] == ("24", Origin("site", "gadi-like", "partitions.gpuvolta", notes=(f"{rule}",)))
    assert [(row.tasks, row.cpus) for row in plan.placement.rows] == [(2, 2)]


def test_chunks_are_rounded_up_as_well() -> None:
    rule = {"gpu": {"cpus": 32, "gpus": 4, "cpus_per_gpu": 8}}
    machine = pbs(node_types=rule, partitions={"workq": {"nodes": {"gpu": 9}}})
    two = {"resources": {"gpu": {"requests": 2}, "cpu": {"requests": 3}}}
    assert select(planned(machine, environment=two)) == "1:ncpus=16:mpiprocs=2:ngpus=2"


@pytest.mark.parametrize(
    ("machine", "data"),
    [
        (None, {"batch": {"signal": "B:USR1@60"}}),
        (None, {"batch": {"qos": "high"}}),
        (None, {"batch": {"array": "1,2,4"}}),
        (None, {"batch": {"array": "0-10000"}}),
        (None, {"batch": {"dependency": "singleton"}}),
        (None, {"batch": {"dependency": "after:3+5"}}),
        (None, {"batch": {"mail": {"user": "me", "events": ["requeue"]}}}),
        (None, {"batch": {"constraint": "nvlink"}}),
        (None, {"name": "x" * 231}),
        (None, {"name": "_" * 230}),
        (None, {"batch": {"dependency": "1234[5].srv"}}),
        (None, {"batch": {"dependency": "1234_5"}}),
        (None, {"batch": {"mail": "me and you"}}),
        (None, {"batch": {"mail": "a@b@c"}}),
        pytest.param(
            pbs(partitions={}), {"batch": {"partition": "a b"}}, id="partitions= batch:partition:a b"
        ),
        pytest.param(
            pbs(pbs={"account": "-W group_list"}),
            {"batch": {"account": "a,b"}},
            id="account:-W group_list batch:account:a,b",
        ),
        pytest.param(pbs(pbs={"umask": "rwx"}), {}, id="umask:rwx"),
        (None, {"batch": {"directives": ["-p 1024"]}}),
        (None, {"batch": {"directives": ["-c u"]}}),
        (None, {"batch": {"directives": ["-a tomorrow"]}}),
        (None, {"batch": {"directives": ["-R oex"]}}),
        (None, {"batch": {"directives": ["-u a@b@c"]}}),
        (None, {"batch": {"directives": ["-W run_count=x"]}}),
        (None, {"batch": {"directives": ["-l 'software=a b'"]}}),
        (None, {"batch": {"directives": [f"-A {'x' * 4001}"]}}),
        (None, {"batch": {"account": "x" * 4001}}),
        (None, {"batch": {"constraint": "ncpus=4"}}),
        (None, {"batch": {"constraint": "disk=a+2"}}),
        pytest.param(pbs(pbs={"chunk": {"disk": "a,b"}}), {}, id="chunk:disk:a,b"),
        pytest.param(
            GADI, {"batch": {"account": "a", "exclusive": True}}, id="gadi batch:account:a exclusive:True"
        ),
        pytest.param(
            GADI,
            {"batch": {"account": "a"}, "environment": {"resources": {"cpu": {"requests": 4}}}},
            id="gadi batch:account:a environment:resources:cpu:requests:4",
        ),
        pytest.param(pbs(pbs={"place": "pack"}), {"workers": 7}, id="place:pack workers:7"),
        pytest.param(pbs(gpus={"request": "gpus_per_task"}), {}, id="gpus=request:gpus_per_task"),
        (None, {"batch": {"directives": ["-l select=1"]}}),
        (None, {"batch": {"directives": ["-lwalltime=1:30"]}}),
        (None, {"batch": {"directives": ["-l ncpus=0"]}}),
        (None, {"batch": {"directives": ["-o x"]}}),
        (None, {"batch": {"directives": ["-t 0-3"]}}),
        (None, {"batch": {"directives": ["-d /tmp"]}}),
        (None, {"batch": {"directives": ["--mem=4"]}}),
        (None, {"batch": {"directives": ["-W"]}}),
        (None, {"batch": {"directives": ["-l 'a"]}}),
        pytest.param(pbs(directives={"forbidden": ["-l place"]}), {}, id="forbidden:-l place"),
        pytest.param(pbs(directives={"mandatory": ["-k doe"]}), {}, id="mandatory:-k doe"),
        pytest.param(pbs(directives={"mandatory": ["-l place=free"]}), {}, id="mandatory:-l place=free"),
        pytest.param(GADI, {"workers": 8, "batch": {"account": "a"}}, id="gadi workers:8 batch:account:a"),
    ],
    ids=lambda value: str(value or "pbs")[:80],
)
def test_refusals(machine: Site | None, data: dict[str, Any], wording: Wording) -> None:
    wording(refusal(machine, **data))


def test_elastic_jobs_are_refused(wording: Wording) -> None:
    wording(refusal(framework="horovod", horovod={"elastic": {"min_np": 1}}))


def test_replicas_in_different_queues_are_refused(wording: Wording) -> None:
    many = {"resources": {"cpu": {"requests": 16}}, "node_selector": {"partition": "cpuq"}}
    gpu = {"resources": {"gpu": {"requests": 1}}}
    said = refusal(
        environment={"resources": gpu["resources"], "replicas": {"n_workers": 1, "default_worker": many}}
    )
    wording(said)


@pytest.mark.parametrize(
    ("flag", "value", "text"),
    [
        ("-h", None, "-h"),
        ("-q", "workq", "-q workq"),
        ("-l wd", None, "-l wd"),
        ("-W umask", "077", "-W umask=077"),
        ("-o", "/runs/my run/job.out", '-o "/runs/my run/job.out"'),
        ("-o", "/runs/a#b", '-o "/runs/a#b"'),
        ("-o", "/runs/a-1/logs/job-^array_index^.out", "-o /runs/a-1/logs/job-^array_index^.out"),
    ],
)
def test_quoting_as_qsub_reads_it(flag: str, value: str | None, text: str) -> None:
    assert directive_text(HEADER, Directive(flag=flag, value=value, origin=DEFAULT)) == text


@pytest.mark.parametrize("value", ["a\nb", "a\rb", 'a"b', "a\\b", "ünï"])
def test_values_that_no_directive_can_hold(value: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        directive_text(HEADER, Directive(flag="-o", value=value, origin=Origin("place", "exp.yml:3")))
    wording(str(error.value))


def test_the_output_is_in_the_run_directory() -> None:
    plain, several = planned(), planned(batch={"array": "0-3"})
    assert [text for text, _ in PBS.header(plain, "/runs/a-1")][:3] == [
        "#PBS -S /bin/bash",
        "#PBS -j oe",
        "#PBS -o /runs/a-1/logs/job.out",
    ]
    assert "#PBS -o /runs/a-1/logs/job-^array_index^.out" in [
        text for text, _ in PBS.header(several, "/runs/a-1")
    ]
    assert not any(text.startswith("#PBS -o") for text, _ in PBS.header(plain, None))


@pytest.mark.parametrize(("name", "text"), [("a-1_B", "-N a-1_B"), ("1st", "-N j1st"), ("_x", "-N j_x")])
def test_names_of_jobs_begin_with_a_letter(name: str, text: str) -> None:
    assert lines(planned(name=name))[0] == text


def test_origins() -> None:
    origins = {line.flag: line.origin for line in planned(batch={"walltime": "1h"}).directives}
    assert origins["-l walltime"] == Origin("place", "exp.yml batch.walltime")
    assert origins["-k"] == Origin("site", "x", "pbs.keep")
    assert origins["-l place"] == Origin("site", "x", "pbs.place")
