#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site bridges2: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site bridges2: partitions.GPU
#SBATCH --partition=GPU
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site bridges2: partitions.GPU.whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=1
# site bridges2: partitions.GPU
#SBATCH --cpus-per-task=40
# site bridges2: gpus
#SBATCH --gpus-per-node=v100-32:8
# pytorch: 2 tasks by srun, 2 nodes, 16 GPUs, for site bridges2. Written by hpcdist 0.1.0.

set +efu +o pipefail # whatever the login shell has exported
fail() { echo "hpcdist: $*" >&2; exit 86; }

[[ ${SLURM_JOB_ID:-} ]] || fail "this script is for sbatch"
# What the submitting shell, or sbatch for the job, has set are no options of srun.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

type singularity >/dev/null 2>&1 || fail "there is no singularity on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container singularity
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container singularity
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container singularity

export PYTHONUNBUFFERED=1  # default
# For pytorch.
export OMP_NUM_THREADS=5  # framework pytorch

# The nodes, in the order of the plan.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, the plan 2"
export HPCDIST_HOSTS="${nodes[*]}"
# Where the tasks meet: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
mkdir -p "$HPCDIST_RUN_DIR/logs"

# Each task checks that it is where the plan has it, sets its variables, and becomes the program.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 2)) || fail "srun started $SLURM_NTASKS tasks, the plan has 2"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "srun put it on node $SLURM_NODEID of the job, the plan on $HPCDIST_NODE"
  read -ra nodes <<<"$HPCDIST_HOSTS"
  export HPCDIST_ADDRESS=${nodes[HPCDIST_NODE]}
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) || fail "it sees ${#gpus[@]} GPUs, the plan has 8 on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:8}")
  # NCCL and InfiniBand need what the node allows of open files and pinned memory.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec singularity exec --nv --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --pwd "$PWD" /images/torch.sif torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=40 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# singularity exec --nv: container singularity
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --pwd "$PWD": container singularity
# /images/torch.sif: pytorch.yml build.image
# torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: pytorch.yml run.cmd
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=40 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task"
