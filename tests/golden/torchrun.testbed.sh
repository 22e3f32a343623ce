#!/bin/bash
#SBATCH --output=torchrun-%j.out
#SBATCH --job-name=torchrun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=500M
#SBATCH --gres=gpu:a100:4
# torchrun: 2 tasks by srun, 2 nodes, 8 GPUs, for site testbed. Written by hpcdist 0.1.0.

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
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS MASTER_PORT=$HPCDIST_PORT

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 2)) || fail "srun started $SLURM_NTASKS tasks, and 2 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  export HPCDIST_NODES=2
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:4}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE RANK=$HPCDIST_RANK LOCAL_RANK=0 LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE
  export NODE_RANK=$HPCDIST_NODE
  exec torchrun --nnodes="$HPCDIST_NODES" --nproc-per-node=4 --node-rank="$HPCDIST_NODE" \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py
}

# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
  bash -c "$(declare -f task); task"
