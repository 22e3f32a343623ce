"""What `check` warns of in users' own launches over the nodes of a plan, and the line that it gives."""

from __future__ import annotations

import pytest

from hpcdist.plan.model import Plan
from hpcdist.site.model import LauncherOptions, Site
from tests.experiments import environment, resources
from tests.plans import TESTBED, changed, planned, warnings_of
from tests.sites import shipped_site

H = '"$HPCDIST_HOSTFILE"'
MEET = (
    '--nnodes=2 --node_rank="$HPCDIST_NODE" --master_addr="$HPCDIST_HEAD_ADDRESS" '
    '--master_port="$HPCDIST_PORT"'
)
APART = "they train apart, or wait for each other"
MISSING = "the line does not say how many nodes there are, on which of them it is or where they meet"
BY_HPCDIST = ", or the script alone with `pytorch: {launch: torchrun}`, and hpcdist starts it"

PER_NODE = "`replicas: {per_node: 2}` in `environment`"
OTHERS = "ask for other `environment.replicas`"


def warned(*texts: str) -> tuple[str, ...]:
    """Return warnings of the command."""
    return tuple(f"run.cmd: {text}" for text in texts)


def of(command: str, replicas: int = 2, gpus: int = 4, site: Site = TESTBED, framework: str = "mpi") -> Plan:
    """Return the plan of replicas that fill a node each."""
    section = environment(replicas - 1, each=resources(cpu=gpus, gpu=gpus))
    batch = {"walltime": "1h"}
    return planned(site, framework=framework, run={"cmd": command}, environment=section, batch=batch)


@pytest.mark.parametrize(
    ("command", "why", "line"),
    [
        ("horovodrun -np 8 python t.py",
         "horovodrun without a list of hosts knows only the first of the 2 nodes",
         f"horovodrun -np 8 --hostfile {H} python t.py"),
        ("deepspeed t.py --deepspeed --config c",
         "deepspeed without a list of hosts trains on the first of the 2 nodes only, and still exits 0",
         f"deepspeed --hostfile {H} t.py --deepspeed --config ..."),
        ('deepspeed --hostfile="" --module m',
         "deepspeed without a list of hosts trains on the first of the 2 nodes only, and still exits 0",
         f"deepspeed --hostfile {H} --module m"),
        ("colossalai run --nproc_per_node 4 t.py",
         "colossalai run without a list of hosts trains on the first of the 2 nodes only, and still exits 0",
         f"colossalai run --nproc_per_node 4 --hostfile {H} t.py"),
        ("mpirun_rsh -np 8 ./a",
         "mpirun_rsh without a list of hosts knows only the first of the 2 nodes",
         f"mpirun_rsh -np 8 -hostfile {H} ./a"),
        ("horovodrun -np 8 -H localhost:8 python t.py",
         "horovodrun starts all processes on localhost, the first of the 2 nodes",
         f"horovodrun -np 8 --hostfile {H} python t.py"),
        ("mpirun -np 8 -H $(hostname) ./a",
         "mpirun starts all processes on $(hostname), the first of the 2 nodes",
         f"mpirun -np 8 --hostfile {H} ./a"),
        ('deepspeed --hostfile="" --include localhost:0 t.py',
         "deepspeed starts all processes on localhost, the first of the 2 nodes",
         f"deepspeed --hostfile {H} t.py"),
        ("deepspeed --include localhost:0,1 t.py",
         "deepspeed starts all processes on localhost, the first of the 2 nodes",
         f"deepspeed --hostfile {H} t.py"),
        ("mpirun -np 4 python t.py",
         "mpirun starts 4 processes, and the job has 8 tasks",
         "mpirun -np 8 python t.py`, or ask for other `environment.replicas"),
        ("srun -n4 python t.py",
         "srun starts 4 processes, and the job has 8 tasks",
         "srun -n 8 python t.py`, or ask for other `environment.replicas"),
        ("horovodrun --num-proc=1 -H $HOSTS python t.py",
         "horovodrun starts 1 process, and the job has 8 tasks",
         "horovodrun --num-proc=8 -H $HOSTS python t.py`, or ask for other `environment.replicas"),
    ],
)  # fmt: skip
def test_launch_with_another_number_of_processes_than_tasks(command: str, why: str, line: str) -> None:
    assert warnings_of(of(command)) == warned(f"{why}; write `{line}`")


@pytest.mark.parametrize(
    ("command", "starts", "line"),
    [
        ("mpirun -npernode 2 a", "mpirun starts 2 processes", "mpirun -npernode 4 a"),
        ("mpiexec -ppn 2 a", "mpiexec starts 2 processes", "mpiexec -ppn 4 a"),
        ("mpirun --map-by ppr:1:node a", "mpirun starts 1 process", "mpirun --map-by ppr:4:node a"),
        ("srun --ntasks-per-node=1 a", "srun starts 1 process", "srun --ntasks-per-node=4 a"),
        ("srun --ntasks-per-node=8 a", "srun starts 8 processes", "srun --ntasks-per-node=4 a"),
    ],
)
def test_launch_with_another_number_of_processes_per_node(command: str, starts: str, line: str) -> None:
    why = f"{starts} on each node, where the job has 4"
    other = ", or ask for other `environment.replicas`"
    assert warnings_of(of(command)) == warned(f"{why}; write `{line}`{other}")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("srun -N1 -n8 a", "srun uses 1 node, and the job has 2; write `srun -N 2 -n8 a`"),
        (f"deepspeed --hostfile {H} --num_nodes 3 t.py",
         f"deepspeed uses 3 nodes, and the job has 2; write `deepspeed --hostfile {H} --num_nodes 2 t.py`"),
    ],
)  # fmt: skip
def test_launch_with_another_number_of_nodes(command: str, said: str) -> None:
    assert warnings_of(of(command)) == warned(f"{said}, or ask for other `environment.replicas`")


@pytest.mark.parametrize(
    ("command", "ours", "keys"),
    [
        ("srun -N 2 a", "srun -N 1 a", "`batch: {nodes: 2}`"),
        ("mpirun -np 4 -npernode 2 a", "mpirun -np 4 -npernode 4 a", PER_NODE),
        ("srun --ntasks-per-node=2 a", "srun --ntasks-per-node=4 a", PER_NODE),
        ("srun -N 5 a", "srun -N 1 a", OTHERS),
        ("mpirun -npernode 3 a", "mpirun -npernode 4 a", OTHERS),
        ("mpirun -npernode 8 a", "mpirun -npernode 4 a", OTHERS),
    ],
)
def test_the_nodes_of_a_launch_can_be_those_of_the_job(command: str, ours: str, keys: str) -> None:
    plan = planned(framework="mpi", run={"cmd": command}, environment=environment(3, each=resources(cpu=1)))
    (warning,) = warnings_of(plan)
    assert warning.endswith(f"write `{ours}`, or {keys}")


def test_a_process_for_each_gpu_without_a_framework() -> None:
    section = environment(each=resources(cpu=4, gpu=4))
    plan = planned(run={"cmd": "horovodrun -np 4 python t.py"}, environment=section)
    assert warnings_of(plan) == warned(
        "horovodrun starts 4 processes, and the job has 1 task; write `horovodrun -np 1 python t.py`, or "
        "`framework: horovod`, under which each GPU has a process"
    )


def test_missing_hosts_and_wrong_count_are_corrected_in_one_line() -> None:
    assert warnings_of(of("horovodrun -np 4 -H localhost:4 python t.py")) == warned(
        "horovodrun starts all processes on localhost, the first of the 2 nodes; "
        "horovodrun starts 4 processes, and the job has 8 tasks; "
        f"write `horovodrun -np 8 --hostfile {H} python t.py`, or ask for other `environment.replicas`"
    )


@pytest.mark.parametrize(
    "command",
    [
        "mpirun -np 8 a",
        f"mpirun -np 8 --hostfile {H} a",
        "mpirun --map-by ppr:4:node a",
        "mpiexec.hydra -n 8 a",
        f"horovodrun -np 8 --hostfile {H} a",
        "horovodrun -np $N -H $HOSTS a",
        "horovodrun -np 8 --host-discovery-script ./d a",
        f"deepspeed --hostfile {H} --num_gpus 4 t.py",
        "srun a",
        "srun -N 2 --ntasks-per-node 4 a",
        "flux run -N 2 -n 8 a",
    ],
)
def test_correct_launch_has_no_warning(command: str) -> None:
    assert warnings_of(of(command)) == ()


@pytest.mark.parametrize("value", ["localhost", "$(hostname)", "127.0.0.1", "`hostname -s`"])
def test_master_addr_that_differs_by_node_warns(value: str) -> None:
    said = warned(
        f"MASTER_ADDR is {value}, which is another machine on each node; "
        'write MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"'
    )
    command = f"export MASTER_ADDR={value}\npython t.py"
    assert warnings_of(of(command)) == said
    assert warnings_of(of(command, replicas=1)) == ()
    assert warnings_of(of(f"mpirun -np 8 bash -c 'MASTER_ADDR={value} python t.py'")) == ()


def test_common_master_addr_has_no_warning() -> None:
    for command in ("MASTER_ADDR=$A python t.py", "MASTER_ADDR=localhost; MASTER_ADDR=$A; python t.py"):
        assert warnings_of(of(command)) == ()


@pytest.mark.parametrize("command", ["horovodrun -np 4 a", "deepspeed t.py", "colossalai run t.py"])
def test_one_node_needs_no_hosts(command: str) -> None:
    assert warnings_of(of(command, replicas=1)) == ()


def test_open_mpi_without_scheduler_support_warns() -> None:
    line = f"mpirun -np 8 --hostfile {H} a"
    for name, system in (("pbs", "PBS"), ("sge", "Grid Engine"), ("lsf", "LSF")):
        generic = shipped_site(name)
        why = f"an Open MPI that was built without {system} starts all processes on the first of the 2 nodes"
        assert warned(f"{why}; write `{line}`")[0] in warnings_of(of("mpirun -np 8 a", site=generic))
        assert not any("Open MPI" in text for text in warnings_of(of(line, site=generic)))
        intel = changed(generic, launchers={"mpirun": LauncherOptions(flavour="intel")}, launcher="hydra")
        assert not any("Open MPI" in text for text in warnings_of(of("mpirun -np 8 a", site=intel)))


@pytest.mark.parametrize(
    ("command", "why", "line"),
    [
        ("torchrun --nproc_per_node=4 t.py", MISSING, f"torchrun --nproc_per_node=4 {MEET} t.py"),
        ("torchrun --nproc_per_node=4 --nnodes=2 t.py",
         "the line does not say on which of them it is or where they meet",
         f"torchrun --nproc_per_node=4 {MEET} t.py"),
        ("torchrun --standalone --nproc_per_node=4 t.py",
         "`--standalone` makes each a training of its own", f"torchrun --nproc_per_node=4 {MEET} t.py"),
        ("torchrun --nnodes 2 --node_rank 0 --master_addr $A --nproc_per_node 4 t.py",
         "each is given the number 0", f"torchrun --nproc_per_node 4 {MEET} t.py"),
        ("torchrun --nnodes 4 --node_rank $R --master_addr $A --nproc_per_node 4 t.py",
         "the line says that there are 4", f"torchrun --nproc_per_node 4 {MEET} t.py"),
        ("torchrun --nnodes 2 --node_rank $R --master_addr localhost --nproc_per_node 4 t.py",
         "localhost is another machine on each", f"torchrun --nproc_per_node 4 {MEET} t.py"),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv_endpoint=localhost:0 --nproc_per_node 4 t.py",
         "localhost is another machine on each", f"torchrun --nproc_per_node 4 {MEET} t.py"),
        (("MASTER_ADDR=$(hostname)\ntorchrun --nnodes 2 --node_rank $R --master_addr $MASTER_ADDR "
         "--nproc_per_node 4 t.py"),
         "$(hostname) is another machine on each", f"torchrun --nproc_per_node 4 {MEET} t.py"),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 4 t.py a b c", MISSING,
         f"python -m torch.distributed.launch --use_env --nproc_per_node 4 {MEET} t.py a b ..."),
    ],
)  # fmt: skip
def test_torchrun_without_rendezvous_warns(command: str, why: str, line: str) -> None:
    program = "torch.distributed.launch" if "launch" in command else "torchrun"
    said = f"{program} runs on each of the 2 nodes, and {why}: {APART}; write `{line}`{BY_HPCDIST}"
    assert warnings_of(of(command, framework="pytorch")) == warned(said)


@pytest.mark.parametrize(
    ("command", "program", "why", "line"),
    [
        ("accelerate launch t.py", "accelerate launch", MISSING,
         ('accelerate launch --num_machines=2 --machine_rank="$HPCDIST_NODE" '
         '--main_process_ip="$HPCDIST_HEAD_ADDRESS" --main_process_port="$HPCDIST_PORT" t.py')),
        ("uv run accelerate launch --config_file f.yaml --machine_rank 0 t.py", "accelerate launch",
         "the line does not say how many nodes there are or where they meet",
         ('uv run accelerate launch --config_file f.yaml --num_machines=2 --machine_rank="$HPCDIST_NODE" '
         '--main_process_ip="$HPCDIST_HEAD_ADDRESS" --main_process_port="$HPCDIST_PORT" t.py')),
        ("fabric run --devices=4 t.py", "fabric run", MISSING,
         ('fabric run --devices=4 --num-nodes=2 --node-rank="$HPCDIST_NODE" '
         '--main-address="$HPCDIST_HEAD_ADDRESS" --main-port="$HPCDIST_PORT" t.py')),
        ("lightning run model --devices 4 t.py", "fabric run", MISSING,
         ('lightning run model --devices 4 --num-nodes=2 --node-rank="$HPCDIST_NODE" '
         '--main-address="$HPCDIST_HEAD_ADDRESS" --main-port="$HPCDIST_PORT" t.py')),
        ("msrun --worker_num=8 --local_worker_num=4 --master_addr=127.0.0.1 t.py", "msrun",
         "127.0.0.1 is another machine on each",
         ('msrun --worker_num=8 --local_worker_num=4 --node_rank="$HPCDIST_NODE" '
         '--master_addr="$HPCDIST_HEAD_ADDRESS" --master_port="$HPCDIST_PORT" t.py')),
        ("composer t.py", "composer",
         ("the line does not say how many processes there are in all, on which of them it is or "
         "where they meet"),
         ('composer --node_rank="$HPCDIST_NODE" --master_addr="$HPCDIST_HEAD_ADDRESS" '
         '--master_port="$HPCDIST_PORT" --world_size=8 t.py')),
        ("fleetrun t.py", "paddle.distributed.launch", "the line does not say where they meet",
         'fleetrun --nnodes=2 --rank="$HPCDIST_NODE" --master="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" t.py'),
        ("deepspeed --no_ssh t.py", "deepspeed",
         "the line does not say which they are, on which of them it is or where they meet",
         (f'deepspeed --no_ssh --hostfile {H} --node_rank="$HPCDIST_NODE" '
         '--master_addr="$HPCDIST_HEAD_ADDRESS" --master_port="$HPCDIST_PORT" t.py')),
    ],
)  # fmt: skip
def test_other_launchers_without_rendezvous_warn(command: str, program: str, why: str, line: str) -> None:
    by = {"accelerate launch": "accelerate", "fabric run": "lightning"}.get(program)
    instead = f", or the script alone with `framework: {by}`, and hpcdist starts it" if by else ""
    said = f"{program} runs on each of the 2 nodes, and {why}: {APART}; write `{line}`{instead}"
    assert warnings_of(of(command, framework="pytorch")) == warned(said)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("srun torchrun --nproc_per_node=4 t.py", MISSING),
        ("srun -n 2 bash -c 'torchrun --standalone --nproc_per_node=4 t.py'",
         "`--standalone` makes each a training of its own"),
    ],
)  # fmt: skip
def test_torchrun_started_by_srun_warns(command: str, why: str) -> None:
    line = f"torchrun --nproc_per_node=4 {MEET} t.py"
    said = (
        f"srun starts torchrun on 2 nodes, and {why}: {APART}; write `{line}`, which hpcdist starts on each"
    )
    assert warnings_of(of(command, framework="pytorch")) == warned(f"{said}{BY_HPCDIST}")


@pytest.mark.parametrize(
    "command",
    [
        "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_endpoint $HEAD:29500 t.py",
        "srun -l accelerate launch --num_machines 2 --machine_rank $SLURM_NODEID --main_process_ip $A t",
        "torchrun $DISTRIBUTED_ARGS t.py",
        'torchrun "${ARGS[@]}" t.py',
        "srun torchrun ${OPTIONS} -m pkg",
        "A='--nnodes 2 --nproc_per_node 4 --node_rank $R --master_addr $H'\ntorchrun $A t.py",
        "accelerate launch --num_processes $((N*4)) --num_machines $N --machine_rank $R --main_process_ip $A",
        "$PY -m torch.distributed.run --nnodes 2 --nproc_per_node 4 --rdzv-endpoint $(head $(nodes)):1 t.py",
    ],
)
def test_launches_with_rendezvous_have_no_warning(command: str) -> None:
    assert warnings_of(of(command, framework="pytorch")) == ()


def test_missing_rendezvous_and_wrong_count_are_corrected_in_one_line() -> None:
    plan = of("accelerate launch --multi_gpu --num_processes 4 t.py", framework="pytorch")
    assert warnings_of(plan) == warned(
        (
            f"accelerate launch runs on each of the 2 nodes, and {MISSING}: {APART}; accelerate launch "
            "starts 4 processes in all, and the job has 8 GPUs; write `accelerate launch --multi_gpu "
            '--num_machines=2 --machine_rank="$HPCDIST_NODE" --main_process_ip="$HPCDIST_HEAD_ADDRESS" '
            '--main_process_port="$HPCDIST_PORT" --num_processes=8 t.py`, or the script alone with '
            "`framework: accelerate`, and hpcdist starts it"
        ),
    )


@pytest.mark.parametrize(
    ("command", "why", "line"),
    [
        ("torchrun t.py", "torchrun starts 1 process on each node, where it has 4 GPUs",
         "torchrun --nproc_per_node=4 t.py"),
        ("torchrun --nproc-per-node 8 t.py", "torchrun starts 8 processes on each node, where it has 4 GPUs",
         "torchrun --nproc-per-node=4 t.py"),
    ],
)  # fmt: skip
def test_number_of_processes_differs_from_gpus(command: str, why: str, line: str) -> None:
    plan = of(command, replicas=1, framework="pytorch")
    assert warnings_of(plan) == warned(f"{why}; write `{line}`{BY_HPCDIST}")


@pytest.mark.parametrize("command", ["torchrun --nproc_per_node=gpu t.py", "accelerate launch t.py"])
def test_a_process_for_each_gpu(command: str) -> None:
    assert warnings_of(of(command, replicas=1, framework="pytorch")) == ()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("deepspeed t.py", "%s slots=%s"),
        ("mpiexec.hydra a", "%s:%s"),
        ("colossalai run t.py", "%s%.0s"),
        ("mpirun a", "%s slots=%s"),
    ],
)
def test_the_hostfile_is_in_the_form_that_the_users_launcher_reads(command: str, line: str) -> None:
    assert of(command).launch.hostfile_line == line
