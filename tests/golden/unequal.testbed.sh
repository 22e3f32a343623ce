#!/bin/bash
#SBATCH --output=unequal-%j.out
#SBATCH --job-name=unequal
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=16
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --gres=gpu:a100:3
# unequal: 6 tasks by srun, 2 nodes, 6 GPUs, for site testbed. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"

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
  ((SLURM_NTASKS == 6)) || fail "srun started $SLURM_NTASKS tasks, and 6 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=6
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=8 gpu=0 count=1
  elif ((HPCDIST_RANK < 3)); then
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=4 gpu=$HPCDIST_LOCAL_RANK count=1
  else
    export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK - 3)) HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=1
    cpus=4 gpu=$HPCDIST_LOCAL_RANK count=1
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ $SLURMD_NODENAME == "${nodes[HPCDIST_NODE]}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# Start the tasks.
srun --ntasks=6 --distribution=arbitrary --cpu-bind=none --nodelist=<(hosts 0 2 3) --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
