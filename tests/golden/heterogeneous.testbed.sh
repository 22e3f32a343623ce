#!/bin/bash
#SBATCH --output=heterogeneous-%j.out
#SBATCH --job-name=heterogeneous
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=cpu
#SBATCH --time=00:10:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=20
#SBATCH --mem=8192M
#SBATCH hetjob
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --mem=1000M
#SBATCH --gres=gpu:a100:4
# heterogeneous: 5 tasks by srun, 3 nodes, 8 GPUs, for site testbed. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1
# The settings of testbed; `hpcdist render --annotate` shows where each comes from.
export GLOO_SOCKET_IFNAME=eth0

# The nodes, in the order of the ranks.
mapfile -t nodes < <(
  scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0"
  scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1"
)
((${#nodes[@]} == 3)) || fail "this job has ${#nodes[@]} nodes, and 3 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS MASTER_PORT=$HPCDIST_PORT

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 5)) || fail "srun started $SLURM_NTASKS tasks, and 5 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=5
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0
    cpus=20 gpu=0 count=0
  else
    export HPCDIST_LOCAL_RANK=$(((HPCDIST_RANK - 1) % 2)) HPCDIST_LOCAL_SIZE=2 HPCDIST_NODE=$((1 + (HPCDIST_RANK - 1) / 2))
    cpus=4 gpu=$((HPCDIST_LOCAL_RANK * 2)) count=2
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ $SLURMD_NODENAME == "${nodes[HPCDIST_NODE]}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:gpu:count}")
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE RANK=$HPCDIST_RANK LOCAL_RANK=0 LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE
  export NODE_RANK=$HPCDIST_NODE
  exec python train.py
}

# Start the tasks.
srun --het-group=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=20 --kill-on-bad-exit=1 --wait=0 --label \
  --mpi=none : --het-group=1 --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=4 --distribution=plane=2 \
  --mpi=none bash -c "$(declare -f task); task"
