#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site betzy: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site betzy: partitions.accel
#SBATCH --partition=accel
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site betzy: partitions.accel
#SBATCH --cpus-per-task=16
# site betzy: request_memory
#SBATCH --mem=506368M
# site betzy: gpus
#SBATCH --gpus-per-node=4
# pytorch: 8 tasks by srun, 2 nodes, 8 GPUs, for site betzy. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

type singularity >/dev/null 2>&1 || fail "there is no singularity on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container singularity
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container singularity
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container singularity

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-16}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=$HPCDIST_LOCAL_RANK  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec singularity exec --nv --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --pwd "$PWD" /images/torch.sif python train.py
}

# srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=16 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# singularity exec --nv: container singularity
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --pwd "$PWD": container singularity
# /images/torch.sif: pytorch.yml build.image
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=16 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label bash -c "$(declare -f task); task"
