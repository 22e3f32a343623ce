#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site fir: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site fir: partitions.gpu
#SBATCH --cpus-per-task=12
# site fir: request_memory
#SBATCH --mem=1152000M
# site fir: gpus
#SBATCH --gpus-per-node=h100:4
# horovod: 8 tasks by srun, 2 nodes, 8 GPUs, for site fir. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 2 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-12}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=12 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# the command: horovod.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=12 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label bash -c "$(declare -f task); task"
