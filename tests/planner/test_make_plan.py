from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import (
    ArraySpec,
    AwaitedJob,
    Dependency,
    IndexRange,
    Mail,
    SignalSpec,
    WaitCondition,
)
from hpcdist.plan.model import Plan
from hpcdist.plan.trials import Sweep
from hpcdist.plan.values import DEFAULT, Origin, Variable, Word
from hpcdist.site.model import Site
from tests.experiments import environment, resources, where
from tests.plans import COMMAND, LOCAL, TESTBED, changed, planned, warnings_of, words
from tests.plug_in import plugged_in
from tests.sites import shipped_site, site, site_named
from tests.wording import Wording


def variable(plan: Plan, name: str) -> Variable | None:
    return next((found for found in plan.environment.variables if found.name == name), None)


def refused(machine: Site = TESTBED, **data: Any) -> str:
    with pytest.raises(PlanError) as caught:
        planned(machine, **data)
    return str(caught.value)


def test_a_command_alone() -> None:
    plan = planned(LOCAL, run={"cmd": "echo 'a b' && true"})
    assert (plan.launch.mode, plan.launch.launcher, plan.identity.framework) == ("tasks", "mpirun", None)
    assert plan.words[-1] == Word.raw(COMMAND, Origin("place", "exp.yml run.cmd"))
    assert (words(plan)[-1], plan.identity.command) == (COMMAND, "echo 'a b' && true")
    assert (plan.placement.size, plan.placement.nodes, warnings_of(plan)) == (1, 1, ())


# --- Who decides


def test_the_file_comes_before_the_site() -> None:
    machine = changed(TESTBED, whole_nodes=True)
    plan = planned(machine, batch={"walltime": "1h", "exclusive": False, "launcher": "mpirun", "qos": "high"})
    assert (plan.request.walltime, plan.request.exclusive, plan.launch.launcher, plan.request.qos) == (
        Walltime(3600),
        False,
        "mpirun",
        "high",
    )
    assert {name: plan.origins[name] for name in ("walltime", "exclusive", "launcher", "qos")} == {
        name: where(("batch", name)) for name in ("walltime", "exclusive", "launcher", "qos")
    }


def test_memory_that_the_site_asks_for() -> None:
    machine = changed(TESTBED, request_memory="share")
    assert planned(machine).origins["memory"] == Origin("site", "testbed", "request_memory")
    asked = planned(machine, environment={"resources": {"memory": {"requests": "1G"}}})
    assert "memory" not in asked.origins
    assert "memory" not in planned(TESTBED).origins


def test_site_settings_are_the_defaults() -> None:
    plan = planned(changed(TESTBED, whole_nodes=True))
    assert (plan.request.walltime, plan.request.exclusive, plan.launch.launcher) == (
        Walltime(600),
        True,
        "srun",
    )
    assert {
        name: plan.origins[name] for name in ("walltime", "exclusive", "launcher", "name", "command")
    } == {
        "walltime": Origin("site", "testbed", "walltime"),
        "exclusive": Origin("site", "testbed", "whole_nodes"),
        "launcher": Origin("site", "testbed", "launcher"),
        "name": DEFAULT,
        "command": Origin("place", "exp.yml run.cmd"),
    }


def test_settings_without_a_site_default() -> None:
    plan = planned(
        name="n",
        description="d",
        environment={"max_restarts": 3},
        batch={
            "dependency": "5",
            "array": "1-4%2",
            "signal": "USR1@60",
            "requeue": True,
            "mail": "me@here",
            "directives": ["--reservation=x"],
        },
    )
    assert (plan.identity.name, plan.identity.description, plan.completion.max_restarts) == ("n", "d", 3)
    assert (plan.request.dependency, plan.request.array, plan.request.signal, plan.request.requeue) == (
        (Dependency(((WaitCondition(None, (AwaitedJob("5"),)),),)),),
        ArraySpec((IndexRange(1, 4),), 2),
        SignalSpec("USR1", 60),
        True,
    )
    assert (plan.request.mail, plan.request.extra_directives) == (
        Mail("me@here", ("end", "fail")),
        ("--reservation=x",),
    )


@pytest.mark.parametrize(
    ("mail", "expected"),
    [
        (None, None),
        ("me", Mail("me", ("end", "fail"))),
        ({"user": "me", "events": ["begin"]}, Mail("me", ("begin",))),
    ],
)
def test_mail(mail: object, expected: Mail | None) -> None:
    assert planned(batch={"mail": mail}).request.mail == expected


# --- Accounts, QOS, launchers, GPUs


@pytest.mark.parametrize(
    ("account", "batch"),
    [
        ({"required": True}, {}),
        ({"required": True, "hint": "ask Anna"}, {}),
        ({"pattern": "p[0-9]+"}, {"account": "p12x"}),
        ({"pattern": "p[0-9]+", "hint": "ask Anna"}, {"account": "x"}),
    ],
    ids=str,
)
def test_invalid_accounts_are_refused(
    account: dict[str, object], batch: dict[str, str], wording: Wording
) -> None:
    wording(refused(site(account=account), batch=batch))


def test_all_reasons_are_reported_at_once() -> None:
    machine = site(
        node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 1}}}, account={"required": True}
    )
    with pytest.raises(PlanError) as error:
        planned(
            machine,
            batch={"launcher": "srum"},
            environment=environment(each=resources(cpu=8)),
            build={"image": "x"},
        )
    assert [problem.path for problem in error.value.problems] == [
        ("batch", "launcher"),
        ("environment", "resources"),
        ("build", "image"),
        ("batch", "account"),
    ]


def test_launch_and_request_problems_are_reported_together() -> None:
    machine = site(
        node_types={"a": {"cpus": 8, "gpus": 2}, "b": {"cpus": 16, "gpus": 0}},
        partitions={"gpu": {"nodes": {"a": 2}, "qos": "g"}, "cpu": {"nodes": {"b": 2}, "qos": "c"}},
        launcher="mpirun",
        gpus={"bound_by": "launcher"},
        container={"runtime": "pyxis"},
    )
    worker = {"resources": resources(gpu=2)}
    with pytest.raises(PlanError) as error:
        planned(
            machine,
            framework="pytorch",
            batch={"gpu_visibility": "node"},
            environment={
                "resources": resources(cpu=16),
                "replicas": {"n_workers": 1, "default_worker": worker},
            },
            build={"image": "pytorch/pytorch:2.4.0"},
        )
    assert [problem.path for problem in error.value.problems] == [
        ("batch", "qos"),
        ("batch", "gpu_visibility"),
        ("build", "image"),
    ]


def test_valid_accounts() -> None:
    assert planned(site(account={"pattern": "p[0-9]+"}), batch={"account": "p12"}).request.account == "p12"
    assert planned(site(account={"pattern": "p[0-9]+"})).request.account is None


def test_the_qos_is_that_of_the_chosen_partition(wording: Wording) -> None:
    machine = site(
        node_types={"small": {"cpus": 2}, "big": {"cpus": 8}},
        partitions={"s": {"nodes": {"small": 9}, "qos": "low"}, "b": {"nodes": {"big": 9}, "qos": "high"}},
    )
    assert planned(machine, environment=environment(each=resources(cpu=2))).request.qos == "low"
    assert planned(machine, environment=environment(each=resources(cpu=8))).request.qos == "high"
    worker = {"node_selector": {"partition": "b"}}
    mixed = {"node_selector": {"partition": "s"}, "replicas": {"n_workers": 1, "default_worker": worker}}
    wording(refused(machine, framework="mpi", environment=mixed))
    assert planned(machine, framework="mpi", environment=mixed, batch={"qos": "any"}).request.qos == "any"


def test_unknown_launchers(wording: Wording) -> None:
    wording((refused(batch={"launcher": "srum"}), refused(LOCAL, batch={"launcher": "srun"})))


def test_a_scheduler_that_no_launcher_knows(tmp_path: Path, wording: Wording) -> None:
    plug_in = "from hpcdist.schedulers.slurm import Slurm\n\nQQ = Slurm()\n"
    with plugged_in(tmp_path, "scheduler", "qq", plug_in):
        wording(refused(changed(TESTBED, scheduler="qq")))


def test_the_origin_of_a_replicas_own_constraint() -> None:
    worker = {"node_selector": {"constraint": "volta"}}
    section = {"replicas": {"n_workers": 1, "default_worker": worker}}
    plan = planned(framework="pytorch", batch={"constraint": "a100"}, environment=section)
    assert str(plan.origins["constraint"]) == (
        "exp.yml batch.constraint and exp.yml environment.replicas.default_worker.node_selector.constraint"
    )
    own = {"node_selector": {"constraint": "volta"}}
    alone = planned(batch={"constraint": "a100"}, environment=own)
    assert alone.origins["constraint"] == Origin("place", "exp.yml environment.node_selector.constraint")


@pytest.mark.parametrize(
    ("gpus", "batch", "visibility"),
    [
        ({}, {}, "task"),
        ({}, {"gpu_visibility": "node"}, "node"),
        ({"bound_by": "launcher"}, {}, "launcher"),
        ({"bound_by": "launcher"}, {"launcher": "mpirun"}, "task"),
        ({"bound_by": "launcher"}, {"launcher": "mpirun", "gpu_visibility": "node"}, "node"),
    ],
)
def test_who_chooses_the_gpus_of_a_task(gpus: dict[str, str], batch: dict[str, str], visibility: str) -> None:
    assert planned(site(gpus=gpus), batch=batch).gpus.visibility == visibility


def test_no_choice_where_the_launcher_binds(wording: Wording) -> None:
    wording(refused(site(gpus={"bound_by": "launcher"}), batch={"gpu_visibility": "node"}))


# --- Variables and setup


def test_last_source_of_a_variable_wins() -> None:
    machine = changed(TESTBED, fabric=site(fabric={"env": {"A": 1, "B": True, "NCCL_DEBUG": "WARN"}}).fabric)
    plan = planned(
        machine,
        framework="pytorch",
        build={"env_vars": [["B", False], ["C", "x y"]]},
        environment={"env_vars": {"MASTER_PORT": 5, "NCCL_DEBUG": "INFO"}},
    )
    found = {
        found.name: (found.value, found.origin)
        for found in plan.environment.variables
        if not found.name.startswith("POLYAXON_")
    }
    mine = ("environment", "env_vars")
    assert found == {
        "PYTHONUNBUFFERED": ("1", DEFAULT),
        "A": ("1", Origin("site", "testbed", "fabric.env.A")),
        "MASTER_ADDR": ("$HPCDIST_HEAD_ADDRESS", Origin("framework", "pytorch")),
        "B": ("false", where(("build", "env_vars", 0)).with_note("instead of site testbed: fabric.env.B")),
        "C": ("x y", Origin("place", "exp.yml build.env_vars[1]")),
        "MASTER_PORT": ("5", where((*mine, "MASTER_PORT")).with_note("instead of framework pytorch")),
        "NCCL_DEBUG": (
            "INFO",
            where((*mine, "NCCL_DEBUG")).with_note("instead of site testbed: fabric.env.NCCL_DEBUG"),
        ),
    }
    own = variable(plan, "MASTER_PORT")
    assert own
    assert not own.shell


@pytest.mark.parametrize(
    ("setting", "one", "several"),
    [
        ("x", "x", "x"),
        ({"value": "x"}, "x", "x"),
        ({"value": "x", "when": "multi_node"}, None, "x"),
        ({"value": "x", "when": "single_node"}, "x", None),
        ({"value": "x", "when": "multi_node", "otherwise": "y"}, "y", "x"),
    ],
)
def test_variables_under_a_condition(setting: object, one: str | None, several: str | None) -> None:
    machine = changed(TESTBED, fabric=site(fabric={"env": {"V": setting}}).fabric)
    for workers, value in ((0, one), (4, several)):
        plan = planned(machine, framework="mpi", environment=environment(workers, each=resources(cpu=8)))
        found = variable(plan, "V")
        assert (found.value if found else None) == value


@pytest.mark.parametrize(
    ("replicas", "value", "origin"),
    [
        (1, "Socket", Origin("site", "frontier", "fabric.env.NCCL_NET", notes=("not multi_node, rccl",))),
        (16, "OFI", Origin("site", "frontier", "fabric.env.NCCL_NET", notes=("multi_node, rccl",))),
    ],
)
def test_frontier_has_its_plug_in_on_several_nodes_only(replicas: int, value: str, origin: Origin) -> None:
    section = environment(replicas - 1, each=resources(gpu=1))
    plan = planned(shipped_site("frontier"), framework="horovod", batch={"account": "A"}, environment=section)
    assert variable(plan, "NCCL_NET") == Variable(name="NCCL_NET", value=value, origin=origin)


# --- The user's own launch


def test_the_users_own_launch_runs_once() -> None:
    plan = planned(
        framework="horovod",
        run={"cmd": "mpirun -np 4 python train.py"},
        environment=environment(3, each=resources(cpu=4)),
    )
    assert (plan.launch.mode, plan.launch.launcher, plan.launch.rank_variables) == ("once", "once", None)
    assert (words(plan), plan.identity.command) == ([COMMAND], "mpirun -np 4 python train.py")
    assert plan.placement.size == 4
    assert not plan.launch.needs_pmi
    assert warnings_of(plan) == ()


def test_a_count_that_differs_from_the_allocation(wording: Wording) -> None:
    plan = planned(
        framework="mpi", run={"cmd": "mpirun -np 2 a"}, environment=environment(3, each=resources(cpu=4))
    )
    wording(warnings_of(plan))


def test_a_command_under_backend_mpi_is_a_launch() -> None:
    plan = planned(backend="mpi", run={"cmd": "./start"}, environment=environment(2, each=resources(cpu=4)))
    assert (plan.launch.mode, plan.placement.size, words(plan)) == ("once", 2, [COMMAND])


def test_a_role_on_nodes_of_two_kinds_has_no_launch_of_its_own() -> None:
    machine = site(
        node_types={"a": {"cpus": 8}, "b": {"cpus": 16}},
        partitions={"gpu": {"nodes": {"a": 4}}, "cpu": {"nodes": {"b": 4}}},
        launcher="srun",
    )
    on_gpu, on_cpu = ({"node_selector": {"partition": name}} for name in ("gpu", "cpu"))
    replicas = {"n_workers": 2, "n_ps": 1, "default_worker": on_gpu, "default_ps": on_cpu}
    both = {"worker": [{"index": 1, **on_cpu}]}
    plans = [
        planned(machine, framework="tensorflow", environment={"replicas": replicas | more, **on_gpu})
        for more in ({}, both)
    ]
    assert [[one.role for one in plan.role_launches] for plan in plans] == [["master", "worker", "ps"], []]


# --- Warnings


def test_a_site_that_does_not_say_how_large_its_nodes_are(wording: Wording) -> None:
    plan = planned(site(), framework="mpi", environment=environment(1), batch={"walltime": "1h"})
    wording(warnings_of(plan))
    assert warnings_of(planned(site(), batch={"walltime": "1h"})) == ()


def test_further_warnings(wording: Wording) -> None:
    section = {
        "processes_per_replica": 4,
        "resources": {"cpu": {"limits": 6}},
        "persistence": {"data": ["imagenet"]},
    }
    wording(warnings_of(planned(site(), environment=section)))


def test_memory_that_only_some_ask_for_is_one_warning(wording: Wording) -> None:
    asking = {"resources": resources(cpu=1, memory=3000)}
    replicas = {"n_workers": 2, "n_ps": 2, "default_ps": asking}
    plan = planned(site(), framework="tensorflow", environment=asking | {"replicas": replicas})
    (note,) = [note for note in plan.notes if "memory" in note.message]
    wording(str(note))
    assert not [line for line in plan.directives if line.flag == "--mem"]


@pytest.mark.parametrize(
    ("scheduler", "size", "flag", "value"),
    [
        ("slurm", "job_memory", "--mem", "0"),
        ("pbs", "job_memory", "-l select", "ncpus=8:mpiprocs=2:mem=64000mb"),
        # Jobs never get all that is built in: the batch system would refuse it, or never start the job.
        ("pbs", "memory", "-l select", "ncpus=8:mpiprocs=2:mem=60000mb"),
    ],
)
def test_all_memory_of_the_nodes(scheduler: str, size: str, flag: str, value: str) -> None:
    nodes = {"node_types": {"n": {"cpus": 8, size: 64000}}, "partitions": {"p": {"nodes": {"n": 4}}}}
    machine = site(scheduler=scheduler, launcher="mpirun", **nodes)
    each = resources(cpu=4, memory="all")
    plan = planned(machine, framework="mpi", environment=environment(1, each=each))
    [line] = [line for line in plan.directives if line.flag == flag]
    assert str(line.value).endswith(value)
    [group] = plan.placement.groups
    assert group.memory
    assert {row.memory for row in plan.placement.rows} == {group.memory // 2}
    assert not [note for note in plan.notes if "memory" in note.message]


def test_all_memory_of_nodes_of_unknown_size_is_a_warning_where_it_needs_a_number(wording: Wording) -> None:
    each = resources(memory="all")
    assert not [
        text for text in warnings_of(planned(site(), environment=environment(each=each))) if "mem" in text
    ]
    pbs = site(scheduler="pbs", launcher="mpirun")
    [text] = [text for text in warnings_of(planned(pbs, environment=environment(each=each))) if "mem" in text]
    wording(text)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"nodes": 1},
    ],
    ids=str,
)
def test_a_partition_that_the_file_lacks_is_a_warning(more: dict[str, Any], wording: Wording) -> None:
    batch = {"partition": "gup", "walltime": "1h", **more}
    plan = planned(framework="pytorch", environment=environment(1), batch=batch)
    assert [line.value for line in plan.directives if line.flag == "--partition"] == ["gup"]
    wording(warnings_of(plan))


def test_gpus_of_a_partition_that_the_file_lacks_have_one_cpu_a_task(wording: Wording) -> None:
    machine = site(node_types={}, partitions={})
    for more in ({}, {"cpu": 8}):
        wording(warnings_of(planned(machine, environment=environment(each=resources(gpu=2, **more)))))


def test_nodes_of_a_partition_that_the_file_lacks_are_of_the_only_type(wording: Wording) -> None:
    nodes = {
        "node_types": {"n": {"cpus": 8, "gpus": 4}},
        "partitions": {"p": {"nodes": {"n": 8}, "max_nodes": 1}},
    }
    plan = planned(site(**nodes), environment=environment(7, each=resources(gpu=1)), batch={"partition": "q"})
    [group] = plan.placement.groups
    assert (group.partition, group.node_type, group.nodes) == ("q", "n", 2)
    wording(warnings_of(plan))


def test_another_qos_may_allow_more_than_the_partition(wording: Wording) -> None:
    limits = {"nodes": {"n": 8}, "max_nodes": 1, "max_walltime": "1h", "qos": "normal"}
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": limits})
    batch = {"walltime": "2h"}
    asked: dict[str, Any] = {"environment": environment(1, each=resources(cpu=4)), "batch": batch}
    no_other = refused(machine, **asked)
    batch["qos"] = "long"
    wording((no_other, *warnings_of(planned(machine, **asked))))
    batch["qos"] = "normal"
    assert refused(machine, **asked) == no_other


OWN_NODE = {"cmd": "x", "beside": [{"cmd": "serve", "on": "own_node"}]}


def test_a_program_beside_the_tasks_has_a_node_of_its_own(wording: Wording) -> None:
    machine = site(node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 2}}})
    plan = planned(
        machine, run=OWN_NODE, framework="pytorch", environment=environment(1, each=resources(cpu=2))
    )
    assert (plan.placement.nodes, plan.own_nodes) == (1, 1)
    assert [line.value for line in plan.directives if line.flag == "--nodes"] == ["2"]
    assert '--nodelist="$HPCDIST_TASK_NODES"' in words(plan)
    wording(refused(machine, run=OWN_NODE, environment=environment(1, each=resources(cpu=4))))


@pytest.mark.parametrize(
    ("machine", "more"),
    [
        ({"scheduler": "flux", "launcher": "flux"}, {}),
        ({}, {"run": {**OWN_NODE, "cmd": "srun python t.py"}}),
        ({}, {"hptuning": {"matrix": {"x": {"values": [1, 2]}}}}),
    ],
    ids=str,
)
def test_what_a_node_of_its_own_cannot_go_with(machine: Any, more: Any, wording: Wording) -> None:
    wording(refused(site(**machine), **{"run": OWN_NODE, **more}))


def test_a_node_of_its_own_is_like_those_of_the_tasks() -> None:
    asked = {"run": OWN_NODE, "framework": "pytorch", "environment": environment(2, each=resources(cpu=2))}
    machine = {"node_types": {"n": {"cpus": 4}}, "partitions": {"p": {"nodes": {"n": 9}}}}
    pbs = planned(site(scheduler="pbs", launcher="mpirun", **machine), **asked)
    assert [line.value for line in pbs.directives if line.flag == "-l select"] == [
        "1:ncpus=4:mpiprocs=2+1:ncpus=2:mpiprocs=1+1:ncpus=4:mpiprocs=2"
    ]
    assert (pbs.placement.nodes, pbs.own_nodes) == (2, 1)


def test_a_spare_node_that_the_command_could_take(wording: Wording) -> None:
    section = {"restart": {"spare_nodes": 1}}
    wording(refused(site(), environment=section, run={"cmd": "srun python t.py"}))


@pytest.mark.parametrize("name", ["HPCDIST_HOSTFILE", "HPCDIST_TASK_NODES"])
def test_a_command_that_is_given_the_nodes_of_its_tasks(name: str) -> None:
    command = f'srun --nodelist="${name}" python t.py'
    assert planned(site(), run={**OWN_NODE, "cmd": command}).own_nodes == 1


@pytest.mark.parametrize("launcher", ["srun", "processes"])
def test_the_other_tasks_may_go_on(launcher: str) -> None:
    machine = TESTBED if launcher == "srun" else changed(LOCAL, launcher="processes")
    section = {"framework": "pytorch", "environment": environment(1)}
    plan = planned(machine, **section, batch={"kill_on_failure": False})
    assert not plan.completion.kill_on_failure
    assert ("--kill-on-bad-exit=0" in words(plan)) == (launcher == "srun")
    assert "--kill-on-bad-exit=0" not in words(planned(machine, **section))


def test_a_launcher_that_ends_all_tasks_says_so(wording: Wording) -> None:
    wording(refused(framework="mpi", batch={"kill_on_failure": False, "launcher": "mpirun"}))
    wording(refused(run={"cmd": "mpirun -n 1 x"}, batch={"kill_on_failure": False}))


def test_a_node_selector_without_a_meaning(wording: Wording) -> None:
    machine = site(
        node_types={"n": {"cpus": 4}},
        partitions={"p": {"nodes": {"n": 4}}},
        node_selectors={"disk": {"ssd": {"constraint": "ssd"}}},
    )
    section = {
        "node_selector": {"disk": "ssd", "zone": 1},
        "replicas": {"n_workers": 2, "default_worker": {"node_selector": {"disk": "tape"}}},
    }
    wording(warnings_of(planned(machine, framework="pytorch", environment=section, batch={"walltime": "1h"})))


def of_gpu_type(wanted: str, partition: str) -> Plan:
    """Return the plan of a job that asks for GPUs of this type, in a partition or on unknown nodes."""
    kinds = {
        "a": {"cpus": 4, "gpus": 2, "gpu_type": "a100"},
        "v": {"cpus": 4, "gpus": 2, "gpu_type": "v100"},
        "p": {"cpus": 4, "gpus": 2},
        "p100x2": {"cpus": 4, "gpus": 2},
    }
    nodes: dict[str, Any] = {
        "gpu": {"nodes": {"a": 4}},
        "mixed": {"nodes": {"a": 1, "v": 1}},
        "plain": {"nodes": {"p": 1}},
        "named": {"nodes": {"p100x2": 1}},
    }
    machine = site(node_types=kinds, partitions=nodes) if partition else site()
    return planned(
        machine,
        environment={
            "resources": resources(cpu=None if partition else 1, gpu=1),
            "node_selector": {"gpu_type": wanted},
        },
        batch={"walltime": "1h"} | ({"partition": partition} if partition else {}),
    )


@pytest.mark.parametrize(("wanted", "partition"), [("A100", "gpu"), ("v100", "mixed"), ("p100", "named")])
def test_a_gpu_type_that_a_replica_gets(wanted: str, partition: str) -> None:
    assert warnings_of(of_gpu_type(wanted, partition)) == ()


@pytest.mark.parametrize(
    ("wanted", "partition"),
    [
        ("A100-80G", "gpu"),
        ("K80", "mixed"),
        ("K80", ""),
        ("K80", "plain"),
    ],
)
def test_a_gpu_type_that_a_replica_does_not_get_is_a_warning(
    wanted: str, partition: str, wording: Wording
) -> None:
    wording(warnings_of(of_gpu_type(wanted, partition)))


def test_labels_of_kubernetes_ask_for_a_gpu_type(wording: Wording) -> None:
    kinds = {
        "a": {"cpus": 4, "gpus": 2, "gpu_type": "a100"},
        "v": {"cpus": 4, "gpus": 2, "gpu_type": "v100"},
    }
    machine = site(node_types=kinds, partitions={"a": {"nodes": {"a": 4}}, "v": {"nodes": {"v": 4}}})
    batch = {"walltime": "1h"}
    label = {"cloud.google.com/gke-accelerator": "nvidia-tesla-v100"}
    section: dict[str, Any] = {"resources": resources(gpu=1), "node_selector": label}
    plan = planned(machine, environment=section, batch=batch)
    assert (plan.placement.groups[0].node_type, warnings_of(plan)) == ("v", ())
    section["node_selector"] = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB", "accelerator": "nvidia"}
    plan = planned(machine, environment=section, batch=batch)
    assert plan.placement.groups[0].node_type == "v"
    wording(warnings_of(plan))
    plan = planned(machine, environment={"node_selector": label}, batch=batch)
    wording(warnings_of(plan))


def test_a_label_of_the_site_named_as_the_gpu_type_means_what_the_site_says() -> None:
    machine = site(
        node_types={"n": {"cpus": 4, "gpus": 2, "gpu_type": "a100", "constraint": "fast"}},
        partitions={"p": {"nodes": {"n": 4}}},
        node_selectors={"gpu_type": {"K80": {"constraint": "fast"}}},
    )
    section = {"resources": resources(gpu=1), "node_selector": {"gpu_type": "K80"}}
    plan = planned(machine, environment=section, batch={"walltime": "1h"})
    assert (warnings_of(plan), plan.placement.groups[0].constraint) == ((), "fast")


def test_mpi_over_several_components(wording: Wording) -> None:
    section = {
        "resources": resources(cpu=20),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(gpu=1)}},
    }
    wording(warnings_of(planned(framework="mpi", environment=section)))
    assert warnings_of(planned(framework="pytorch", environment=section)) == ()


def test_all_scheduler_problems_are_reported(wording: Wording) -> None:
    wording(refused(LOCAL, batch={"account": "a", "qos": "q"}))


# --- Words for the launcher that nobody foresaw


TWO = environment(1, each=resources(cpu=1))


@pytest.mark.parametrize(
    ("launcher", "name"),
    [({"args": ["--a=b d", "c"]}, "srun"), ({"name": "mpirun", "args": ["--a=b d", "c"]}, "mpirun")],
)
def test_launcher_args_of_the_experiment(launcher: dict[str, Any], name: str) -> None:
    plan = planned(framework="mpi", environment=TWO, batch={"launcher": launcher})
    assert plan.launch.launcher == name
    given = [word for word in plan.words if word.text in ("--a=b d", "c")]
    assert given == [
        Word(text="--a=b d", origin=Origin("place", "exp.yml batch.launcher.args[0]")),
        Word(text="c", origin=Origin("place", "exp.yml batch.launcher.args[1]")),
    ]


@pytest.mark.parametrize(
    ("name", "batch", "command"),
    [
        ("testbed", {"args": ["--ntasks=3", "-u", "-n4"]}, "a"),
        ("testbed", {"args": ["x"]}, "a"),
        ("testbed", {"args": ["-n 3"]}, "a"),
        ("testbed", {"args": ["-u", "--comment seven"]}, "a"),
        ("local", {"name": "processes", "args": ["-x"]}, "a"),
        ("testbed", {"args": ["-x"]}, "mpirun a"),
    ],
    ids=str,
)
def test_reserved_launcher_options_are_refused(
    name: str, batch: dict[str, Any], command: str, wording: Wording
) -> None:
    wording(refused(shipped_site(name), environment=TWO, batch={"launcher": batch}, run={"cmd": command}))


def test_an_array_within_the_default_limit() -> None:
    plan = planned(TESTBED, batch={"array": "0-1000", "walltime": "1h"})
    assert not [text for text in warnings_of(plan) if "indices" in text]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("testbed", "0-1001"),
        ("sge-like", "1-75001"),
    ],
)
def test_an_array_beyond_the_default_limit_is_a_warning(name: str, array: str, wording: Wording) -> None:
    plan = planned(site_named(name), batch={"array": array, "walltime": "1h"})
    wording(text for text in warnings_of(plan) if "indices" in text)


SEARCH: dict[str, Any] = {"matrix": {"lr": {"range": [0, 3000, 1]}}, "concurrency": 4}


def test_a_search_is_an_array_from_1_on_with_as_many_at_once_as_it_says() -> None:
    plan = planned(hptuning=SEARCH, run={"cmd": "x {{ lr }}"})
    assert plan.request.array == ArraySpec((IndexRange(1, 1000),), 4)
    assert plan.sweep == Sweep(3000, ("lr",), 4, jobs=3)
    assert plan.sweep.summary == "3000 trials of lr, 4 at once, in 3 job arrays"
    assert plan.summary == "3000 trials, each of 1 task by srun, 1 node"
    assert [str(note) for note in plan.notes if "MaxArraySize" in note.message] == []


def test_a_metric_may_have_several_values_at_which_a_search_stops() -> None:
    both = [
        {"metric": "loss", "value": value, "optimization": way}
        for value, way in ((0.1, "minimize"), (9, "maximize"))
    ]
    search = {
        "matrix": {"lr": {"values": [1]}},
        "early_stopping": [*both, {"metric": "accuracy", "value": 1}],
    }
    plan = planned(hptuning=search, run={"cmd": "x {{ lr }}"})
    assert plan.sweep
    assert plan.sweep.stop_at == {"loss": ((-1, 0.1), (1, 9)), "accuracy": ((1, 1),)}


def test_an_adaptive_search_has_as_many_trials_as_all_its_generations() -> None:
    algorithm = {"n_initial_trials": 8, "n_iterations": 7, "metric": {"name": "loss"}}
    search = {"matrix": {"lr": {"uniform": [0, 1]}}, "bo": algorithm, "concurrency": 3}
    plan = planned(hptuning=search, run={"cmd": "x {{ lr }}"})
    assert plan.sweep
    assert plan.sweep.summary == "at most 15 trials of lr in 4 generations, 8 of them in the first, 3 at once"
    assert plan.summary == "at most 15 trials, each of 1 task by srun, 1 node"


def test_no_more_trials_run_at_once_than_there_are() -> None:
    search = {"matrix": {"lr": {"values": [1]}}, "concurrency": 99_999_999_999}
    plan = planned(hptuning=search, run={"cmd": "x {{ lr }}"})
    assert plan.request.array == ArraySpec((IndexRange(1, 1),), 1)
    assert plan.summary == "1 trial, each of 1 task by srun, 1 node"


def test_a_search_where_there_are_no_arrays_is_refused_as_one(wording: Wording) -> None:
    wording(refused(LOCAL, hptuning=SEARCH, run={"cmd": "x {{ lr }}"}, batch={"pack": False}))


@pytest.mark.parametrize(
    "data",
    [
        {"framework": "pytorch", "pytorch": {"launch": "torchrun"}},
        {"framework": "mpi", "run": {"cmd": "mpirun -n 2 x"}},
    ],
    ids=str,
)
def test_a_replica_that_is_no_task_has_no_command_of_its_own(data: dict[str, Any], wording: Wording) -> None:
    section = {"replicas": {"n_workers": 1, "default_worker": {"cmd": "x"}}}
    wording(refused(environment=section, **data))


def test_steps_on_nodes_of_several_kinds_are_refused(wording: Wording) -> None:
    section = {
        "resources": resources(cpu=20),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(cpu=4, gpu=1)}},
    }
    job: dict[str, Any] = {"framework": "pytorch", "environment": section}
    wording(refused(**job, stage=[{"from": "x"}]))
    assert planned(**job, run={"cmd": "x", "prepare": {"cmd": "y"}}).steps
