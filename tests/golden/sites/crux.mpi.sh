#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -N mpi
#PBS -A proj
#PBS -q workq-route
#PBS -l select=2:mpiprocs=4:system=crux
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -r n
#PBS -k doe
#PBS -V
#PBS -l filesystems=home:eagle
# mpi: 8 tasks by pals, 2 nodes, for site crux. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}
printf '%s\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 8)) || fail "pals started $PMI_SIZE tasks, and 8 are needed"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export OMP_NUM_THREADS=64
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec ./simulate
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# Start the tasks.
exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 64 --cpu-bind=depth \
  bash -c "$(declare -f task); task"
