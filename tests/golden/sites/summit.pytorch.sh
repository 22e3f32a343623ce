#!/bin/bash
# site summit: lsf.submit
# bsub reads it by its name: bsub job.sh
# rule run directory
#BSUB -o pytorch-%J.out
# pytorch.yml name
#BSUB -J pytorch
# pytorch.yml batch.account
#BSUB -P proj
# site summit: partitions.batch
#BSUB -q batch
# pytorch.yml batch.walltime
#BSUB -W 1:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#BSUB -nnodes 2
# site summit: lsf.alloc_flags
#BSUB -alloc_flags "gpumps smt4"
# default
#BSUB -rn
# pytorch: 12 tasks by jsrun, 2 nodes, 12 GPUs, for site summit. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
# Ranks follow jsrun's own order of hosts.
# shellcheck disable=SC2016 # each task expands it
mapfile -t nodes < <(
  jsrun --nrs=2 --tasks_per_rs=1 --cpu_per_rs=1 --rs_per_host=1 \
    bash -c 'echo "$JSM_NAMESPACE_RANK $(uname -n)"' </dev/null | sort -n | cut -d " " -f 2
)
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + LSB_JOBID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

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
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=0  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

# jsrun sets OMP_NUM_THREADS to all hardware threads of a task's cores.
export HPCDIST_THREADS=${OMP_NUM_THREADS:-7}

# jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1: launcher jsrun
# --smpiargs=-gpu: site summit: launchers.jsrun.args
# the command: pytorch.yml run.cmd
# Start the tasks.
exec jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed \
  --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1 --smpiargs=-gpu bash -c "$(declare -f task); task"
