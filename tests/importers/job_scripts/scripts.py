"""Job scripts of the shapes that people write, each with the size of its job for the stand-ins."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """A script, and what the stand-in of srun knows: nodes, tasks and GPUs of a node, CPUs of a task."""

    text: str
    nodes: int = 2
    each: int = 1
    gpus: int = 4
    cpus: int = 8
    variables: tuple[str, ...] = ()
    """The variables that must be the same in each process."""


SHAPES = {
    "srun_python": Shape(
        """#!/bin/bash
#SBATCH --job-name=ddp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --mem=120G
#SBATCH --time=02:00:00

module purge
module load cuda/12.1 nccl
source venv/bin/activate   # torch is in it
export NCCL_DEBUG=INFO
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + RANDOM % 5000))
echo "the first node is $MASTER_ADDR"
srun python train.py --name "a b" --lr 0.1 --each=$SLURM_NTASKS
""",
        each=4,
        variables=("NCCL_DEBUG", "OMP_NUM_THREADS", "MASTER_ADDR", "VIRTUAL_ENV"),
    ),
    "srun_torchrun": Shape(
        """#!/bin/bash
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH -c 8
#SBATCH -t 90
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
echo Node IP: $head_node_ip
export LOGLEVEL=INFO
srun torchrun \\
  --nnodes $SLURM_NNODES \\
  --nproc_per_node $SLURM_GPUS_ON_NODE \\
  --rdzv_id $RANDOM \\
  --rdzv_backend c10d \\
  --rdzv_endpoint $head_node_ip:29500 \\
  train.py --epochs 2 '$x'
""",
        variables=("LOGLEVEL", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ),
    "settings_in_their_order": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
export A=of_the_script B=of_the_script C=of_the_script
source settings.sh
export B=again
source venv/bin/activate
export D='of the $script'
cd work
srun python ../train.py
""",
        each=4,
        variables=("A", "B", "C", "D", "VIRTUAL_ENV", "PWD"),
    ),
    "arrays": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
source venv/bin/activate
RATE=0.1
DISTRIBUTED_ARGS=(
    --nproc_per_node 4 # of the node
    --nnodes $SLURM_NNODES
    --rdzv_endpoint $(hostname):29500
)
MODEL_ARGS=(
    --layers 2
    --name "x y"
)
srun torchrun ${DISTRIBUTED_ARGS[@]} pretrain.py "${MODEL_ARGS[@]}" --lr $RATE
""",
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE", "VIRTUAL_ENV"),
    ),
    "loop_of_nodes": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
nodes=$(scontrol show hostnames $SLURM_JOB_NODELIST)
first=$(echo $nodes | cut -d' ' -f1)
rank=0
for node in $nodes; do
  echo "starting on $node"
  srun -N1 -n1 -w $node torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$rank --master_addr=$first t.py &
  rank=$((rank + 1))
done
wait
""",
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ),
    "loop_by_ssh": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
rank=0
for node in $(scontrol show hostnames); do
  ssh $node "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$rank --master_addr=n1 train.py b" &
  rank=$((rank + 1))
done
wait
""",
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ),
    "in_a_variable": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=8
GPUS=4
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
LAUNCHER="torchrun \\
  --nproc_per_node $GPUS \\
  --nnodes $SLURM_NNODES \\
  --node_rank \\$SLURM_PROCID \\
  --rdzv_endpoint $MASTER_ADDR:6000 \\
  --rdzv_backend c10d"
PROGRAM="`pwd`/train.py --kind 'a|b' --lr 0.1 --tag \\"a b\\""
export CMD="$LAUNCHER $PROGRAM"
SRUN_ARGS="--wait=60 --kill-on-bad-exit=1"
srun $SRUN_ARGS bash -c "$CMD" 2>&1 | tee -a log.txt
""",
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ),
    "bash_c": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
export DATA=/data
LR=0.5
export MASTER_ADDR=$(hostname)
srun --cpus-per-task=8 bash -c "
  export RANK=\\$SLURM_PROCID
  export LOCAL_RANK=\\$SLURM_LOCALID WORLD_SIZE=\\$SLURM_NTASKS
  cd work
  python train.py --lr $LR --data \\$DATA"
""",
        each=4,
        variables=("DATA", "RANK", "LOCAL_RANK", "WORLD_SIZE", "PWD"),
    ),
    "accelerate": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
export GPUS_PER_NODE=4
head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch \\
    --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \\
    --num_machines $SLURM_NNODES \\
    --rdzv_backend c10d \\
    --main_process_ip $head_node_ip \\
    --main_process_port 29500 \\
    "
export SCRIPT_ARGS=" \\
    --mixed_precision fp16 \\
    "
srun $LAUNCHER train.py $SCRIPT_ARGS
""",
        variables=("GPUS_PER_NODE",),
    ),
    "mpirun": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
module load openmpi
mpirun -np $SLURM_NTASKS -x NCCL_DEBUG=WARN --bind-to none solver -in file.txt
""",
        each=4,
        variables=("NCCL_DEBUG",),
    ),
    "horovodrun": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
HOSTS=$(scontrol show hostnames | sed 's/$/:4/' | paste -sd,)
horovodrun -np 8 -H $HOSTS python train.py --epochs 3
""",
        each=4,
    ),
    "deepspeed": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
HOSTFILE=hosts.txt
rm -f $HOSTFILE
for host in $(scontrol show hostnames $SLURM_JOB_NODELIST); do
  echo "$host slots=4" >> $HOSTFILE
done
deepspeed --hostfile $HOSTFILE --num_gpus 4 train.py --deepspeed ds.json --x "y z"
""",
        variables=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ),
    "array_of_one_gpu": Shape(
        """#!/bin/bash
#SBATCH --array=0-3%2
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --output=logs/%x_%A_%a.out
source venv/bin/activate
rates=(0.1 0.2 0.3 0.4)
python train.py --lr ${rates[$SLURM_ARRAY_TASK_ID]}
""",
        nodes=1,
        gpus=1,
        variables=("SLURM_ARRAY_TASK_ID", "VIRTUAL_ENV"),
    ),
    "several_on_one_node": Shape(
        """#!/bin/bash
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
for seed in 1 2; do
  python train.py --seed $seed
done
python evaluate.py
""",
        nodes=1,
        gpus=1,
    ),
    "several_launch_lines": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
run() {
  srun python "$@"
}
run prepare.py
srun -N 1 -n 2 python train.py
""",
        each=4,
    ),
    "its_own_nodes": Shape(
        """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
run() {
  mpirun -np 8 -H "$1" solver --hosts "$1" --cpus "$SRUN_CPUS_PER_TASK"
}
for h in $(scontrol show hostnames); do
  nodes+="$h,"
done
run "$nodes"
""",
        each=4,
        gpus=0,
    ),
    "pbs_mpiexec": Shape(
        """#!/bin/bash
#PBS -N solve
#PBS -l select=2:ncpus=32:ngpus=4:mpiprocs=4
#PBS -l walltime=02:00:00
#PBS -j oe
cd $PBS_O_WORKDIR
module load cuda
export A="of the script"
source settings.sh
NODES=$(sort -u $PBS_NODEFILE | wc -l)
RANKS=$((NODES * 4))
mpiexec -n $RANKS -ppn 4 -hostfile $PBS_NODEFILE solver --name "a b" $A
""",
        each=4,
        variables=("A", "B"),
    ),
    "torque_mpirun": Shape(
        """#!/bin/bash
#PBS -l nodes=2:ppn=4
#PBS -l walltime=02:00:00
cd $PBS_O_WORKDIR
mpirun -np 8 -machinefile $PBS_NODEFILE solver input.dat
""",
        each=4,
        gpus=0,
        cpus=1,
    ),
    "lsf_mpirun": Shape(
        """#!/bin/bash
#BSUB -J solve
#BSUB -n 8
#BSUB -R "span[ptile=4]"
#BSUB -gpu "num=4"
#BSUB -W 2:00
cd $LS_SUBCWD
export A='$x'
mpirun -np $LSB_DJOB_NUMPROC solver --a "$A"
""",
        each=4,
        cpus=1,
        variables=("A",),
    ),
    "sge_mpirun": Shape(
        """#!/bin/bash
#$ -N solve
#$ -cwd
#$ -pe mpi 8
#$ -l h_rt=02:00:00
mpirun -np $NSLOTS solver -i in.txt
""",
        nodes=1,
        each=8,
        gpus=0,
        cpus=1,
    ),
    "flux_run": Shape(
        """#!/bin/bash
# flux: -N 2
# flux: -n 8
# flux: --gpus-per-slot=1
# flux: -c 8
# flux: -t 2h
export OMP_NUM_THREADS=8
flux run -N 2 -n 8 python train.py --lr 0.1
""",
        each=4,
        variables=("OMP_NUM_THREADS",),
    ),
}
