#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site nebius-soperator: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site nebius-soperator: partitions.main
#SBATCH --partition=main
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site nebius-soperator: partitions.main
#SBATCH --cpus-per-task=16
# site nebius-soperator: gpus
#SBATCH --gpus-per-node=8
# horovod: 16 tasks by srun, 2 nodes, 16 GPUs, for site nebius-soperator. Written by hpcdist 0.1.0.

set +efu +o pipefail # whatever the login shell has exported
fail() { echo "hpcdist: $*" >&2; exit 86; }

[[ ${SLURM_JOB_ID:-} ]] || fail "this script is for sbatch"
# What the submitting shell, or sbatch for the job, has set are no options of srun.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, the plan 2"

# Each task checks that it is where the plan has it, sets its variables, and becomes the program.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, the plan has 16"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "srun put it on node $SLURM_NODEID of the job, the plan on $HPCDIST_NODE"
  [[ ${PMIX_RANK:-${PMI_RANK:-}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI, so each task would be rank 0 of a world of its own; 'srun --mpi=list' shows the types"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) || fail "it sees ${#gpus[@]} GPUs, the plan has 8 on its node"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-16}
  # NCCL and InfiniBand need what the node allows of open files and pinned memory.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=16 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site nebius-soperator: launchers.srun.mpi
# the command: horovod.yml run.cmd
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=16 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
