#!/bin/bash
# bsub reads it by its name: bsub job.sh
#BSUB -o modules-%J.out
#BSUB -J modules
#BSUB -P proj
#BSUB -q batch
#BSUB -W 0:30
#BSUB -nnodes 2
#BSUB -alloc_flags "gpumps smt4"
#BSUB -rn
# modules: 2 tasks by jsrun, 2 nodes, for site summit-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

# `module` is a function, which a script does not always inherit.
# shellcheck source=/dev/null # the site's own files
type module >/dev/null 2>&1 || for file in /etc/profile.d/*mod*.sh "${MODULESHOME:-}/init/bash"; do
  [[ ! -r $file ]] || . "$file"
done
module load cuda/12.4 || fail "'module load cuda/12.4' failed (modules.yml batch.modules.0) on $(uname -n)"
module load nccl/2.22.3 || fail "'module load nccl/2.22.3' failed (modules.yml batch.modules.1) on $(uname -n)"
# shellcheck source=/dev/null # the site's own file
[[ $(type -t spack) == function ]] || source "${SPACK_ROOT:-$(spack location --spack-root)}/share/spack/setup-env.sh" ||
  fail "there is no Spack on $(uname -n); load its module, or set SPACK_ROOT"
spack env activate --dir '/projects/it'"'"'s mine/torch' || fail "'spack env activate --dir '/projects/it'\"'\"'s mine/torch'' failed (modules.yml batch.spack_env) on $(uname -n)"
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} ]] || for name in cuda/12.4 nccl/2.22.3; do
  [[ :${LOADEDMODULES:-}: == *":$name"[:/]* ]] || fail "module $name cannot be loaded on $(uname -n)"
done

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
# Each with its number of slots; of very many hosts LSF sets no variable.
read -ra nodes <<<"${LSB_MCPU_HOSTS:-$(awk '!seen[$1]++ {printf "%s 1 ", $1}' "$LSB_DJOB_HOSTFILE")}"
mapfile -t nodes < <(printf '%s %s\n' "${nodes[@]}" | awk 'NR > 1 {print $1}')
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${JSM_NAMESPACE_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((JSM_NAMESPACE_SIZE == 2)) || fail "jsrun started $JSM_NAMESPACE_SIZE tasks, and 2 are needed"
  export HPCDIST_RANK=$JSM_NAMESPACE_RANK HPCDIST_SIZE=2
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0
    cpus=2
  else
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=1
    cpus=42
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export OMP_NUM_THREADS=${HPCDIST_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec ./train
}

# Writes the tasks' resources for jsrun, a line each, by hardware threads ($1 a core); GPUs and CPUs overlap or not ($2).
resources() {
  local file=$HPCDIST_RUN_DIR/resources.$LSB_JOBID threads=$1
  {
    printf '%s\n' "cpu_index_using: logical" "launch_distribution: packed" "overlapping_rs: $2" \
      "oversubscribe_cpu: error" "oversubscribe_gpu: $2" "oversubscribe_mem: allow" \
      "skip_missing_cpu: error" "skip_missing_gpu: error" "skip_missing_mem: allow" ""
    equal 0 1 1 0 0 2
    equal 1 1 1 1 0 42
  } >"$file" || fail "cannot write $file; is the disk full?"
  echo "$file"
}
# Prints the lines of equal tasks: the first rank, how many, and on a node; the first node and CPU, and how many each has.
equal() {
  local offset slot
  for ((offset = 0; offset < $2; offset++)); do
    slot=$((offset % $3))
    echo "rank: $(($1 + offset)): { hostname: ${nodes[$4 + offset / $3]}; $(
      numbers cpu "$((($5 + slot * $6) * threads))" "$(($6 * threads))"
    ) }"
  done
}
numbers() { case $3 in 0) ;; 1) echo "$1: {$2}" ;; *) echo "$1: {$2-$(($2 + $3 - 1))}" ;; esac }
# jsrun sets OMP_NUM_THREADS to all hardware threads of a task's cores.
export HPCDIST_THREADS=${OMP_NUM_THREADS:-}
erf=$(resources 4 error) || exit

# Start the tasks.
exec jsrun --erf_input="$erf" --exit_on_error=1 --smpiargs=-gpu bash -c "$(declare -f task); task"
