#!/bin/bash
# bsub reads it from its standard input: bsub <job.sh
#BSUB -o mpi-%J.out
#BSUB -J mpi
#BSUB -P proj
#BSUB -W 1:00
#BSUB -n 8
#BSUB -R "span[ptile=4]"
#BSUB -rn
# mpi: 8 tasks by mpirun, 2 nodes, for site lsf. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${LSB_JOBID:-} ]] || fail "submit this script by bsub"
cd "$LS_SUBCWD" || fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
# Each with its number of slots; of very many hosts LSF sets no variable.
read -ra nodes <<<"${LSB_MCPU_HOSTS:-$(awk '!seen[$1]++ {printf "%s 1 ", $1}' "$LSB_DJOB_HOSTFILE")}"
mapfile -t nodes < <(printf '%s %s\n' "${nodes[@]}" | awk '{print $1}')
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.$LSB_JOBID
printf '%s slots=4\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 8)) || fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks, and 8 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec 5>&2 # where failures are told
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec ./simulate) 5>&-
  code=$?
  if ((code != 0)) && [[ ! $over ]]; then
    echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" >&5
  fi
  return "$code"
}

type -P mpirun >/dev/null || fail "there is no mpirun on $(uname -n); load its module before"
((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # else mpirun refuses
# Tasks on other nodes get the variables that are named.
exports=()
for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV PYTHONUNBUFFERED "${!HPCDIST_@}" "${!POLYAXON_@}"; do
  [[ ! -v $name || $name == HPCDIST_TOKEN || $name == @(OMPI|PRTE)_MCA_* ]] || exports+=(-x "$name")
done

# Start the tasks.
exec mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot \
  --bind-to none "${exports[@]}" bash -c "$(declare -f task); task"
