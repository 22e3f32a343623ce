#!/bin/bash
# bsub reads it by its name: bsub job.sh
#BSUB -o mpi-%J.out
#BSUB -J mpi
#BSUB -P proj
#BSUB -q batch
#BSUB -W 1:00
#BSUB -nnodes 2
#BSUB -alloc_flags "gpumps smt4"
#BSUB -rn
# mpi: 8 tasks by jsrun, 2 nodes, for site summit. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

export PYTHONUNBUFFERED=1

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${JSM_NAMESPACE_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((JSM_NAMESPACE_SIZE == 8)) || fail "jsrun started $JSM_NAMESPACE_SIZE tasks, and 8 are needed"
  export HPCDIST_RANK=$JSM_NAMESPACE_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((JSM_NAMESPACE_LOCAL_RANK == HPCDIST_LOCAL_RANK)) ||
    fail "it is number $JSM_NAMESPACE_LOCAL_RANK on its node, and should be $HPCDIST_LOCAL_RANK"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  export OMP_NUM_THREADS=$HPCDIST_THREADS
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec ./simulate
}

# jsrun sets OMP_NUM_THREADS to all hardware threads of a task's cores.
export HPCDIST_THREADS=${OMP_NUM_THREADS:-10}

# Start the tasks.
exec jsrun --nrs=8 --tasks_per_rs=1 --cpu_per_rs=10 --gpu_per_rs=0 --rs_per_host=4 --launch_distribution=packed \
  --bind=packed:10 --exit_on_error=1 --smpiargs=-gpu bash -c "$(declare -f task); task"
