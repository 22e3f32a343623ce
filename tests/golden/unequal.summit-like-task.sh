#!/bin/bash
# bsub reads it by its name: bsub job.sh
#BSUB -o unequal-%J.out
#BSUB -J unequal
#BSUB -P proj
#BSUB -q batch
#BSUB -W 0:30
#BSUB -nnodes 1
#BSUB -alloc_flags "gpumps smt4"
#BSUB -rn
# unequal: 6 tasks by jsrun, 1 node, 6 GPUs, for site summit-like-task. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
# Each with its number of slots; of very many hosts LSF sets no variable.
read -ra nodes <<<"${LSB_MCPU_HOSTS:-$(awk '!seen[$1]++ {printf "%s 1 ", $1}' "$LSB_DJOB_HOSTFILE")}"
mapfile -t nodes < <(printf '%s %s\n' "${nodes[@]}" | awk 'NR > 1 {print $1}')
((${#nodes[@]} == 1)) || fail "this job has ${#nodes[@]} nodes, and 1 are needed"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${JSM_NAMESPACE_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((JSM_NAMESPACE_SIZE == 6)) || fail "jsrun started $JSM_NAMESPACE_SIZE tasks, and 6 are needed"
  export HPCDIST_RANK=$JSM_NAMESPACE_RANK HPCDIST_SIZE=6
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=6 HPCDIST_NODE=0
    cpus=8 gpu=0 count=1
  else
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=6 HPCDIST_NODE=0
    cpus=4 gpu=$HPCDIST_LOCAL_RANK count=1
  fi
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export OMP_NUM_THREADS=${HPCDIST_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

# Writes the tasks' resources for jsrun, a line each, by hardware threads ($1 a core); GPUs and CPUs overlap or not ($2).
resources() {
  local file=$HPCDIST_RUN_DIR/resources.$LSB_JOBID threads=$1
  {
    printf '%s\n' "cpu_index_using: logical" "launch_distribution: packed" "overlapping_rs: $2" \
      "oversubscribe_cpu: error" "oversubscribe_gpu: $2" "oversubscribe_mem: allow" \
      "skip_missing_cpu: error" "skip_missing_gpu: error" "skip_missing_mem: allow" ""
    equal 0 1 1 0 0 8 0 1 1
    equal 1 5 5 0 8 4 1 1 1
  } >"$file" || fail "cannot write $file; is the disk full?"
  echo "$file"
}
# Prints the lines of equal tasks: the first rank, how many, and on a node; the first node and CPU, and how many each has;
# the first GPU, how many each has, and how many tasks share it.
# shellcheck disable=SC2017 # tasks that share a GPU have the same whole number
equal() {
  local offset slot
  for ((offset = 0; offset < $2; offset++)); do
    slot=$((offset % $3))
    echo "rank: $(($1 + offset)): { hostname: ${nodes[$4 + offset / $3]}; $(
      numbers cpu "$((($5 + slot * $6) * threads))" "$(($6 * threads))"
    ); gpu: * }"
  done
}
numbers() { case $3 in 0) ;; 1) echo "$1: {$2}" ;; *) echo "$1: {$2-$(($2 + $3 - 1))}" ;; esac }
# jsrun sets OMP_NUM_THREADS to all hardware threads of a task's cores.
export HPCDIST_THREADS=${OMP_NUM_THREADS:-}
erf=$(resources 4 allow) || exit

# Start the tasks.
exec jsrun --erf_input="$erf" --exit_on_error=1 --smpiargs=-gpu bash -c "$(declare -f task); task"
