#!/bin/bash
# horovod-digits: 4 tasks by horovodrun, 1 node, for site local. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

export PYTHONUNBUFFERED=1
# The settings of local; `hpcdist render --annotate` shows where each comes from.
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
# For horovod.
export HOROVOD_START_TIMEOUT=300

# The nodes, in the order of the ranks.
nodes=(localhost)
((${#nodes[@]} == 1)) || fail "this job has ${#nodes[@]} nodes, and 1 are needed"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.$$
printf '%s slots=4\n' "${nodes[@]:0:1}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${HOROVOD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((HOROVOD_SIZE == 4)) || fail "horovodrun started $HOROVOD_SIZE tasks, and 4 are needed"
  export HPCDIST_RANK=$HOROVOD_RANK HPCDIST_SIZE=4 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_NODE=0
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python examples/horovod_digits.py --lr=0.02 --epochs=10
}

type -P horovodrun >/dev/null || fail "there is no horovodrun on $(uname -n); load its module before"

# Start the tasks.
exec horovodrun --gloo -np 4 --hostfile "$HPCDIST_HOSTFILE" bash -c "$(declare -f task); task"
