#!/bin/bash
# rule run directory
#SBATCH --output=quickstart-%j.out
# quickstart.yml name
#SBATCH --job-name=quickstart
# default
#SBATCH --no-requeue
# site testbed: environment
#SBATCH --export=ALL
# site testbed: partitions.gpu
#SBATCH --partition=gpu
# quickstart.yml batch.walltime
#SBATCH --time=00:10:00
# site testbed: partitions.gpu
#SBATCH --nodes=1
# site testbed: partitions.gpu
#SBATCH --ntasks-per-node=2
# site testbed: partitions.gpu
#SBATCH --cpus-per-task=1
# site testbed: partitions.gpu
#SBATCH --mem=1024M
# quickstart: 2 tasks by srun, 1 node, for site testbed. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default

((SLURM_JOB_NUM_NODES == 1)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 1 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 2)) || fail "srun started $SLURM_NTASKS tasks, and 2 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=2
  export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_NODE=0
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python examples/quickstart.py --lr=0.1 --epochs=20
}

# srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site testbed: launchers.srun.mpi
# the command: quickstart.yml run.cmd
# Start the tasks.
srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
  bash -c "$(declare -f task); task"
