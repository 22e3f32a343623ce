#!/bin/bash
#SBATCH --output=operations-%A_%a.out
#SBATCH --job-name=operations
#SBATCH --array=0-7%2
#SBATCH --dependency=afterok:4711
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --mail-user=me@example.org
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --time=1-12:00:00
#SBATCH --constraint="a100&nvlink"
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=500M
#SBATCH --gres=gpu:a100:1
#SBATCH --reservation="winter school"
# operations: 1 task by srun, 1 node, 1 GPU, for site testbed. Written by hpcdist 0.1.0.
# This is one attempt: only `hpcdist submit` starts another.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1
# The settings of testbed; `hpcdist render --annotate` shows where each comes from.
export GLOO_SOCKET_IFNAME=eth0
# The experiment's own variables.
export MESSAGE="it's \$5 & \`more\`" DEBUG=true

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 1)) || fail "this job has ${#nodes[@]} nodes, and 1 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS MASTER_PORT=$HPCDIST_PORT

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 1)) || fail "srun started $SLURM_NTASKS tasks, and 1 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=1 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_NODE=0
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 1)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 1 are needed on its node"
  export CUDA_VISIBLE_DEVICES=${gpus[0]}
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE RANK=$HPCDIST_RANK LOCAL_RANK=0 LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE
  export NODE_RANK=$HPCDIST_NODE
  mkdir -p "$HPCDIST_RUN_DIR/outputs/$SLURM_ARRAY_TASK_ID" && exec python train.py --element="$SLURM_ARRAY_TASK_ID"
}

# Start the tasks.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --kill-on-bad-exit=1 --wait=0 --mpi=pmix \
  bash -c "$(declare -f task); task"
