#!/bin/bash
#SBATCH --output=pytorch-torchrun-%j.out
#SBATCH --job-name=pytorch-torchrun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --mem=1000M
#SBATCH --gres=gpu:a100:4
# pytorch-torchrun: 2 tasks by srun, 2 nodes, 6 GPUs, 6 processes, for site testbed. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1
# The settings of testbed; `hpcdist render --annotate` shows where each comes from.
export GLOO_SOCKET_IFNAME=eth0
# For pytorch.
export OMP_NUM_THREADS=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
mkdir -p "$HPCDIST_RUN_DIR/logs"

# Prints a host for each rank: the first node, how many, and tasks on each.
hosts() {
  local node slot
  for ((node = $1; node < $1 + $2; node++)); do
    for ((slot = 0; slot < $3; slot++)); do echo "${nodes[node]}"; done
  done
}

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 2)) || fail "srun started $SLURM_NTASKS tasks, and 2 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=2
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_ROLE=master HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0
    export HPCDIST_PROCESSES=4
    gpu=0 count=4
  else
    export HPCDIST_ROLE=worker HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=1
    export HPCDIST_PROCESSES=2
    gpu=0 count=2
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ $SLURMD_NODENAME == "${nodes[HPCDIST_NODE]}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export HPCDIST_ADDRESS=${nodes[HPCDIST_NODE]}
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:gpu:count}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS PET_NPROC_PER_NODE=$HPCDIST_PROCESSES
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"
  [[ $HPCDIST_ROLE != master ]] || export PET_RDZV_CONF=is_host=1
  [[ $HPCDIST_ROLE != worker ]] || export PET_RDZV_CONF=is_host=0
  type torchrun >/dev/null 2>&1 || fail "there is no torchrun; load its module, or activate the environment that has it"
  exec torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" \
    --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=2 --no-python python train.py
}

# Start the tasks.
srun --ntasks=2 --distribution=arbitrary --cpu-bind=none --nodelist=<(hosts 0 2 1) --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
