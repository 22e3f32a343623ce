"""What `check` warns of in users' own launches over the nodes of a plan, and the line that it gives."""

from __future__ import annotations

import pytest

from hpcdist.plan.model import Plan
from hpcdist.site.model import LauncherOptions, Site
from tests.experiments import environment, resources
from tests.plans import TESTBED, changed, planned, warnings_of
from tests.sites import shipped_site
from tests.wording import Wording

H = '"$HPCDIST_HOSTFILE"'
C10D = "--nproc_per_node 4 --rdzv_backend=c10d --rdzv_endpoint"
RANKED = "--nnodes=2 --nproc_per_node=4 --master_addr=$A --master_port=1"


def warned(*texts: str) -> tuple[str, ...]:
    """Return warnings of the command."""
    return tuple(f"run.cmd: {text}" for text in texts)


def of(command: str, replicas: int = 2, gpus: int = 4, site: Site = TESTBED, framework: str = "mpi") -> Plan:
    """Return the plan of replicas that fill a node each."""
    cpus = 4 * gpus if site.node_types else gpus
    section = environment(replicas - 1, each=resources(cpu=cpus, gpu=gpus))
    batch = {"walltime": "1h"}
    return planned(site, framework=framework, run={"cmd": command}, environment=section, batch=batch)


@pytest.mark.parametrize(
    "command",
    [
        "horovodrun -np 8 python t.py",
        "deepspeed t.py --deepspeed --config c",
        'deepspeed --hostfile="" --module m',
        "colossalai run --nproc_per_node 4 t.py",
        "mpirun_rsh -np 8 ./a",
        "horovodrun -np 8 -H localhost:8 python t.py",
        "mpirun -np 8 -H $(hostname) ./a",
        'deepspeed --hostfile="" --include localhost:0 t.py',
        "deepspeed --include localhost:0,1 t.py",
        f"deepspeed --hostfile {H} --master_addr 127.0.0.1 t.py",
        "mpirun -np 4 python t.py",
        "srun -n4 python t.py",
        "horovodrun --num-proc=1 -H $HOSTS python t.py",
        "horovodrun -np 4 -H localhost:4 python t.py",
        "mpirun -npernode 2 a",
        "mpiexec -ppn 2 a",
        "mpirun --map-by ppr:1:node a",
        "srun --ntasks-per-node=1 a",
        "srun --ntasks-per-node=8 a",
        "srun -N1 -n8 a",
        "mpirun -np $(nvidia-smi -L | wc -l) a",
        "mpirun -np $SLURM_NNODES a",
        f"deepspeed --hostfile {H} --num_nodes 3 t.py",
    ],
)
def test_launches_over_other_nodes_or_processes_than_the_jobs(command: str, wording: Wording) -> None:
    wording(warnings_of(of(command)))


@pytest.mark.parametrize(
    "command",
    [
        "srun -N 2 a",
        "mpirun -np 4 -npernode 2 a",
        "srun --ntasks-per-node=2 a",
        "srun -N 5 a",
        "mpirun -npernode 3 a",
        "mpirun -npernode 8 a",
    ],
)
def test_the_nodes_of_a_launch_can_be_those_of_the_job(command: str, wording: Wording) -> None:
    plan = planned(framework="mpi", run={"cmd": command}, environment=environment(3, each=resources(cpu=1)))
    wording(warnings_of(plan))


def test_a_process_for_each_gpu_without_a_framework(wording: Wording) -> None:
    section = environment(each=resources(cpu=16, gpu=4))
    wording(warnings_of(planned(run={"cmd": "horovodrun -np 4 python t.py"}, environment=section)))


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
def test_master_addr_that_differs_by_node_warns(value: str, wording: Wording) -> None:
    command = f"export MASTER_ADDR={value}\npython t.py"
    wording(warnings_of(of(command)))
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
    "command",
    [
        "torchrun --nproc_per_node=4 t.py",
        "torchrun --nproc_per_node=4 --nnodes=2 t.py",
        "torchrun --standalone --nproc_per_node=4 t.py",
        "torchrun --nnodes 2 --node_rank 0 --master_addr $A --nproc_per_node 4 t.py",
        "torchrun --nnodes 4 --node_rank $R --master_addr $A --nproc_per_node 4 t.py",
        "torchrun --nnodes 2 --node_rank $R --master_addr localhost --nproc_per_node 4 t.py",
        "torchrun --nnodes 2 --rdzv-backend c10d --rdzv_endpoint=localhost:0 --nproc_per_node 4 t.py",
        pytest.param(
            "MASTER_ADDR=$(hostname)\ntorchrun --nnodes 2 --node_rank $R --master_addr $MASTER_ADDR "
            "--nproc_per_node 4 t.py",
            id="torchrun --master_addr $MASTER_ADDR, which is $(hostname)",
        ),
        "python -m torch.distributed.launch --use_env --nproc_per_node 4 t.py a b c",
        "accelerate launch t.py",
        "uv run accelerate launch --config_file f.yaml --machine_rank 0 t.py",
        "accelerate launch --multi_gpu --num_processes 4 t.py",
        "fabric run --devices=4 t.py",
        "lightning run model --devices 4 t.py",
        "msrun --worker_num=8 --local_worker_num=4 --master_addr=127.0.0.1 t.py",
        "composer t.py",
        "fleetrun t.py",
        "deepspeed --no_ssh t.py",
        "srun torchrun --nproc_per_node=4 t.py",
        "srun -n 2 bash -c 'torchrun --standalone --nproc_per_node=4 t.py'",
        "srun -l accelerate launch --num_machines 2 --machine_rank $SLURM_NODEID --main_process_ip $A t",
        f"A=$((RANDOM%100)); P=$((29500 + A))\ntorchrun {RANKED} --node_rank=$R --master_port=$P t.py",
        f"srun torchrun --nnodes 2 {C10D} $A:1 --nproc_per_node=2 t.py",
        f"srun -n 1 torchrun --nnodes 2 {C10D} $A:1 t.py",
        f"$(which torchrun) {RANKED} t.py",
        "export PET_NNODES=1 PET_NODE_RANK=$R PET_MASTER_ADDR=$A PET_NPROC_PER_NODE=4\ntorchrun t.py",
        f"nsys profile -o x torchrun {RANKED} t.py",
        "axolotl train c.yml",
        "llamafactory-cli train a.yaml",
        "NPROC_PER_NODE=4 swift sft --model x",
        "NPROC_PER_NODE=4 NNODES=2 PORT=1 ADDR=$(hostname) NODE_RANK=$SLURM_NODEID xtuner train c",
        "bpslaunch python t.py",
        f"torchrun {RANKED} --node_rank=$R a.py\ntorchrun --nproc_per_node=4 b.py",
        "singularity run --nv i.sif torchrun --nproc_per_node 4 t.py",
        "sudo -E shifter --image=i torchrun --nproc_per_node 4 t.py",
        "ray start --head\npython t.py",
        'deepspeed --hostfile "$HPCDIST_HOSTFILE" t.py',
        "accelerate launch --num_machines=2 --machine_rank=$R --main_process_ip=$A t.py",
        "sbatch job.sh",
        "horovodrun -np 8 --hostfile h python t.py",
        "NNODES=2 NODE_RANK=$R MASTER_ADDR=$A lmf train a\nNNODES=2 NODE_RANK=1 MASTER_ADDR=$A lmf train a",
        'srun bash -c "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID --master_addr=$A t"',
        "xargs -a hosts -I {} ssh {} torchrun --nnodes 2 t.py",
        "for i in 0 1; do python t.py --seed $i & done",
    ],
)
def test_launchers_without_rendezvous_warn(command: str, wording: Wording) -> None:
    wording(warnings_of(of(command, framework="pytorch")))


@pytest.mark.parametrize(
    "command",
    [
        f"srun torchrun --nnodes $SLURM_NNODES {C10D} $HEAD:29500 t.py",
        "accelerate launch --num_processes 8 --num_machines 2 --machine_rank $R --main_process_ip $A",
        'srun bash -c "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=\\$R --master_addr=$(hostname) t"',
        f"srun torchrun --nnodes 2 --rdzv_id $RANDOM {C10D} $(hostname):1 t.py",
        f"srun torchrun --nnodes 2 --node_rank=$SLURM_PROCID {C10D} $A:1 t.py",
        f'srun bash -c "torchrun {RANKED} --node_rank=\\$SLURM_PROCID t.py"',
        f'L="torchrun {RANKED} --node_rank=\\$SLURM_PROCID"\nsrun bash -c "$L t.py"',
        f'L="torchrun {RANKED} \\\n  --rdzv_backend=c10d --rdzv_endpoint=$A:1"\nsrun $L t.py',
        f"P=$((SLURM_NNODES * 4))\nsrun torchrun --nnodes 2 --tee $P {C10D} $A:1 t.py",
        f"torchrun -m {RANKED} --node_rank=$R pkg.train",
        f"if command -v torchrun; then torchrun {RANKED} --node_rank=$R t.py; fi",
        f"torchrun $EXTRA {RANKED} --node_rank=$R t.py",
        f"if [[ $N == 1 ]]; then torchrun --standalone t.py; else torchrun {RANKED} --node_rank=$R t.py; fi",
        f"for ((i=0;i<2;i++)); do srun torchrun --node_rank=$i {RANKED} t.py; done",
        "torchrun $DISTRIBUTED_ARGS t.py",
        'torchrun "${ARGS[@]}" t.py',
        "srun torchrun ${OPTIONS} -m pkg",
        "A='--nnodes 2 --nproc_per_node 4 --node_rank $R --master_addr $H'\ntorchrun $A t.py",
        "accelerate launch --num_processes $((N*4)) --num_machines $N --machine_rank $R --main_process_ip $A",
        f"$PY -m torch.distributed.run --nnodes 2 {C10D} $(head $(nodes)):1 t.py",
        f"axolotl train c.yml --launcher torchrun -- --nnodes 2 {C10D} $A:1",
        "NNODES=2 NODE_RANK=$R MASTER_ADDR=$A MASTER_PORT=1 llamafactory-cli train a.yaml",
        "swift sft --model x",
        "export NODE_RANK=$R WORLD_SIZE=8 MASTER_ADDR=$A MASTER_PORT=1\ncomposer -n 4 t.py",
    ],
)
def test_launches_with_rendezvous_have_no_warning(command: str) -> None:
    assert warnings_of(of(command, framework="pytorch")) == ()


@pytest.mark.parametrize(
    "options",
    [
        "--rdzv_id=$RANDOM --rdzv_backend=c10d --rdzv_endpoint=$A:29500",
        "--rdzv_id $(uuidgen) --rdzv_backend=c10d --rdzv_endpoint=$A:29500",
        "--rdzv_id=1 --rdzv_backend=c10d --rdzv_endpoint=$A:$(shuf -i 2000-3000 -n 1)",
        "--node_rank=$R --master_addr=$A --master_port=$((10000 + RANDOM % 20000))",
        "--node_rank=$R --master_addr=$A --master_port=$$",
        "--rdzv_backend=c10d --rdzv_endpoint=$SLURMD_NODENAME:29500",
        "--rdzv_backend=c10d --rdzv_endpoint=$(uname -n):29500",
        "--rdzv_backend=c10d --rdzv_endpoint=$SLURM_SUBMIT_HOST:29500",
        "--rdzv_backend=c10d --rdzv_endpoint=$PBS_O_HOST:29500",
        "--node_rank=$SLURM_LOCALID --master_addr=$A",
        "--node_rank=$LOCAL_RANK --master_addr=$A",
        "--nnodes=$NNODES --rdzv_backend=c10d --rdzv_endpoint=$A:29500",
        "--nnodes=$PBS_NUM_NODES --rdzv_backend=c10d --rdzv_endpoint=$A:29500",
        "--node_rank=$OMPI_COMM_WORLD_LOCAL_RANK --master_addr=$A",
        "--rdzv_backend=c10d --rdzv_endpoint=$HPCDIST_ADDRESS:29500",
        "--rdzv_endpoint=$A:29500",
        "--node_rank=$R --master_addr=$A --rdzv_backend=c10d",
        "--nnodes=${NNODES:-1} --node_rank=$R --master_addr=$A",
        "--node_rank=${OMPI_COMM_WORLD_RANK:-0} --master_addr=$A",
        "--node_rank=$R --master_addr=$A --master_port=$(( ((RANDOM<<15)|RANDOM) % 49152 + 10000 ))",
        "--node_rank=$R --master_addr=$(getent hosts $(hostname) | awk '{print $1}')",
    ],
)
def test_values_that_differ_between_nodes_warn(options: str, wording: Wording) -> None:
    command = f"torchrun --nnodes=2 --nproc_per_node=4 {options} t.py"
    wording(warnings_of(of(command, framework="pytorch")))


@pytest.mark.parametrize(
    "options",
    [
        "--rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$A:$((20000 + SLURM_JOB_ID % 10000))",
        "--node_rank=$SLURM_NODEID --master_addr=$HPCDIST_HEAD_ADDRESS --master_port=29500",
        "--node_rank=$SLURM_PROCID --master_addr=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        "--rdzv_backend=c10d --rdzv_endpoint=$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT",
        "--rdzv_id=$(date +%F) --rdzv_backend=c10d --rdzv_endpoint=$A:29500",
    ],
)
def test_values_that_are_equal_have_no_warning(options: str) -> None:
    command = f"torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE {options} t.py"
    assert warnings_of(of(command, framework="pytorch")) == ()


@pytest.mark.parametrize(
    "command",
    [
        "export MASTER_PORT=$(shuf -i 20000-30000 -n 1); python t.py",
        "MASTER_ADDR=$SLURM_SUBMIT_HOST python t.py",
        "export MASTER_ADDR=$SLURMD_NODENAME MASTER_PORT=$RANDOM\npython t.py",
    ],
)
def test_each_task_sets_another_rendezvous(command: str, wording: Wording) -> None:
    wording(warnings_of(of(command)))
    assert warnings_of(of(command, replicas=1)) == ()


def test_a_program_in_the_background_ends_with_the_command(wording: Wording) -> None:
    wording(warnings_of(of("nohup python t.py > log 2>&1 &")))
    for command in ("python t.py &\nwait", "python t.py & wait $!", "a && b"):
        assert warnings_of(of(command)) == ()


@pytest.mark.parametrize(
    "command",
    ["CUDA_VISIBLE_DEVICES=0,1 python t.py", "export HIP_VISIBLE_DEVICES=0\npython t.py"],
)
def test_fixed_numbers_of_gpus_warn(command: str, wording: Wording) -> None:
    wording(warnings_of(of(command)))


@pytest.mark.parametrize(
    "command",
    [
        "CUDA_VISIBLE_DEVICES=0,1,2,3 python t.py",
        "CUDA_VISIBLE_DEVICES= python t.py",
        "CUDA_VISIBLE_DEVICES=$LOCAL_RANK python t.py",
    ],
)
def test_all_gpus_or_another_choice_have_no_warning(command: str) -> None:
    assert warnings_of(of(command)) == ()


@pytest.mark.parametrize(
    "command",
    [
        "torchrun t.py",
        "torchrun --nproc-per-node 8 t.py",
        "torchrun --nproc-per-node $SLURM_NTASKS_PER_NODE t.py",
        "torchrun --nproc-per-node $SLURM_GPUS_PER_NODE t.py",
    ],
)
def test_number_of_processes_differs_from_gpus(command: str, wording: Wording) -> None:
    wording(warnings_of(of(command, replicas=1, framework="pytorch")))


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node=gpu t.py",
        "accelerate launch t.py",
        "deepspeed --num_gpus 4 t.py",
        "colossalai run --nproc_per_node 4 --master_port 29800 t.py",
        "composer -n 4 t.py",
    ],
)
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


def test_variables_of_libraries_that_the_command_sets(wording: Wording) -> None:
    command = "export NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=$D\nmpirun -np 8 -x NCCL_CROSS_NIC=yes -x NCCL_X a"
    found = of(command)
    wording([f"{one.path}: {one}" for one in found.notes if "NCCL" in one.message])
    assert warnings_of(of("HOROVOD_FLAG=-hvd\npython t.py $HOROVOD_FLAG")) == ()


def test_variables_of_another_batch_system(wording: Wording) -> None:
    command = (
        "cd $PBS_O_WORKDIR\n./a --index ${PBS_ARRAY_INDEX} --job '$LSB_JOBID' --of ${NSLOTS:-8}\n"
        "cat $LSB_MCPU_HOSTS $SLURM_JOB_ID $FLUX_URI"
    )
    wording(warnings_of(of(command, replicas=1)))


def test_variables_that_the_command_sets_itself() -> None:
    own = "NSLOTS=4\nexport PBS_ARRAY_INDEX=$SLURM_ARRAY_TASK_ID\n./a $NSLOTS $PBS_ARRAY_INDEX"
    assert warnings_of(of(own, replicas=1)) == ()


def test_a_command_that_starts_everything_runs_once_whatever_it_holds() -> None:
    command = "go() {\n  torchrun --nproc_per_node 4 t.py\n}\ngo"
    plan = planned(
        TESTBED, framework="mpi", backend="mpi", run={"cmd": command},
        environment=environment(1, each=resources(cpu=16, gpu=4)), batch={"walltime": "1h"},
    )  # fmt: skip
    assert (plan.launch.mode, plan.launch.by_user) == ("once", True)
