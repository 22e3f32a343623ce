#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site karolina: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site karolina: partitions.qgpu
#SBATCH --partition=qgpu
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site karolina: partitions.qgpu
#SBATCH --cpus-per-task=16
# site karolina: gpus
#SBATCH --gpus-per-node=8
# horovod: 16 tasks by srun, 2 nodes, 16 GPUs, for site karolina. Written by hpcdist 0.1.0.

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
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, and 16 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 8 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-16}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=16 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --cpu-bind=mask_cpu:0xffff00000000,0xffff000000000000,0xffff,0xffff0000,0xffff000000000000000000000000,0xffff0000000000000000000000000000,0xffff0000000000000000,0xffff00000000000000000000: site karolina: node_types.a100.gpu_cpus
# the command: horovod.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=16 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label \
  --cpu-bind=mask_cpu:0xffff00000000,0xffff000000000000,0xffff,0xffff0000,0xffff000000000000000000000000,0xffff0000000000000000000000000000,0xffff0000000000000000,0xffff00000000000000000000 \
  bash -c "$(declare -f task); task"
