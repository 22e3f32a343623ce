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

set +efu +o pipefail # whatever the login shell has exported
fail() { echo "hpcdist: $*" >&2; exit 86; }

[[ ${SLURM_JOB_ID:-} ]] || fail "this script is for sbatch"
# What the submitting shell, or sbatch for the job, has set are no options of srun.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1

# The nodes, in the order of the plan.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, the plan 2"
export HPCDIST_HOSTS="${nodes[*]}"

# Prints a host for each rank: the first node, how many, and tasks on each.
hosts() {
  local node slot
  for ((node = $1; node < $1 + $2; node++)); do
    for ((slot = 0; slot < $3; slot++)); do echo "${nodes[node]}"; done
  done
}

# Each task checks that it is where the plan has it, sets its variables, and becomes the program.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 6)) || fail "srun started $SLURM_NTASKS tasks, the plan has 6"
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
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ $SLURMD_NODENAME == "${nodes[HPCDIST_NODE]}" ]] || fail "the plan has it on ${nodes[HPCDIST_NODE]}"
  [[ ${PMIX_RANK:-${PMI_RANK:-}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI, so each task would be rank 0 of a world of its own; 'srun --mpi=list' shows the types"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) || fail "it sees ${#gpus[@]} GPUs, the plan has $((gpu + count)) on its node"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
  # NCCL and InfiniBand need what the node allows of open files and pinned memory.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

srun --ntasks=6 --distribution=arbitrary --cpu-bind=none --nodelist=<(hosts 0 2 3) --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
