#!/bin/bash
# quickstart: 2 tasks by mpirun, 1 node, for site local. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

export PYTHONUNBUFFERED=1
# The settings of local; `hpcdist render --annotate` shows where each comes from.
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

# The nodes, in the order of the ranks.
nodes=(localhost)
((${#nodes[@]} == 1)) || fail "this job has ${#nodes[@]} nodes, and 1 are needed"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.$$
printf '%s slots=2\n' "${nodes[@]:0:1}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 2)) || fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks, and 2 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=2
  export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_NODE=0
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec 5>&2 # where failures are told
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec python examples/quickstart.py --lr=0.1 --epochs=20) 5>&-
  code=$?
  if ((code != 0)) && [[ ! $over ]]; then
    echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" >&5
  fi
  return "$code"
}

type -P mpirun >/dev/null || fail "there is no mpirun on $(uname -n); load its module before"
((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # else mpirun refuses

# Start the tasks.
exec mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --map-by slot --bind-to none bash -c "$(declare -f task); task"
