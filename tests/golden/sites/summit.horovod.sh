#!/bin/bash
# site summit: lsf.submit
# bsub reads it by its name: bsub job.sh
# rule run directory
#BSUB -o horovod-%J.out
# horovod.yml name
#BSUB -J horovod
# horovod.yml batch.account
#BSUB -P proj
# site summit: partitions.batch
#BSUB -q batch
# horovod.yml batch.walltime
#BSUB -W 1:00
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#BSUB -nnodes 2
# site summit: lsf.alloc_flags
#BSUB -alloc_flags "gpumps smt4"
# default
#BSUB -rn
# horovod: 12 tasks by jsrun, 2 nodes, 12 GPUs, for site summit. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

export PYTHONUNBUFFERED=1  # default

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${JSM_NAMESPACE_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((JSM_NAMESPACE_SIZE == 12)) || fail "jsrun started $JSM_NAMESPACE_SIZE tasks, and 12 are needed"
  export HPCDIST_RANK=$JSM_NAMESPACE_RANK HPCDIST_SIZE=12 HPCDIST_LOCAL_SIZE=6
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 6)) HPCDIST_NODE=$((HPCDIST_RANK / 6))
  ((JSM_NAMESPACE_LOCAL_RANK == HPCDIST_LOCAL_RANK)) ||
    fail "it is number $JSM_NAMESPACE_LOCAL_RANK on its node, and should be $HPCDIST_LOCAL_RANK"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 1)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 1 are needed"
  export OMP_NUM_THREADS=$HPCDIST_THREADS
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

# jsrun sets OMP_NUM_THREADS to all hardware threads of a task's cores.
export HPCDIST_THREADS=${OMP_NUM_THREADS:-7}

# jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1: launcher jsrun
# --smpiargs=-gpu: site summit: launchers.jsrun.args
# the command: horovod.yml run.cmd
# Start the tasks.
exec jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed \
  --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1 --smpiargs=-gpu bash -c "$(declare -f task); task"
