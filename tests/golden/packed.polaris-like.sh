#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# packed.yml name
#PBS -N packed
# packed.yml batch.account
#PBS -A proj
# site polaris-like: partitions.prod
#PBS -q prod
# site polaris-like: partitions.prod
#PBS -l select=1:mpiprocs=4:system=polaris
# site polaris-like: whole_nodes
#PBS -l place=scatter
# packed.yml batch.walltime
#PBS -l walltime=02:00:00
# packed.yml hptuning
#PBS -J 1-4
# default
#PBS -r y
# site polaris-like: pbs.keep
#PBS -k doe
# site polaris-like: environment
#PBS -V
# site polaris-like: directives.mandatory
#PBS -l filesystems=home:eagle
# packed: 200 trials, 16 at once by pals, 4 nodes, 16 GPUs, for site polaris-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
# Each trial has its program and variables of a table of the run.
[[ ${HPCDIST_PYTHON:-} ]] || fail "only 'hpcdist submit' starts a search; 'hpcdist render --trial N' prints the script of a trial"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 1)) || fail "this job has ${#nodes[@]} nodes, and 1 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + (${PBS_JOBID%%[!0-9]*} + 37 * PBS_ARRAY_INDEX) % 187 * 64))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}.$PBS_ARRAY_INDEX
printf '%s\n' "${nodes[@]:0:1}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# What a worker runs for each trial, which is a job of one task.
# shellcheck disable=SC2329 # the worker gets its text
trial() {
  fail() { echo "hpcdist: trial $HPCDIST_TRIAL on $(uname -n): $*" >&2; exit 86; }
  export HPCDIST_RANK=0 HPCDIST_SIZE=1 HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0
  export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
  export MASTER_PORT=$HPCDIST_PORT  # framework pytorch
  eval "${HPCDIST_VARIABLES:-}" # the trial's own
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=0  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec bash -c "$HPCDIST_PROGRAM"
}

# Each task checks its place, sets its variables, and execs a worker, which runs one trial after another.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 4)) || fail "pals started $PMI_SIZE tasks, and 4 are needed"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=4 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_NODE=0
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES=${gpus[HPCDIST_LOCAL_RANK]}
  export OMP_NUM_THREADS=16
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export HPCDIST_PORT=$((HPCDIST_PORT + 16 * HPCDIST_LOCAL_RANK))
  exec "$HPCDIST_PYTHON" -ISB "$HPCDIST_RUN_DIR/runtime/packed.py" "$1"
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 4 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16: launcher pals
# --cpu-bind depth: site polaris-like: launchers.pals.binding
# the command: packed.yml run.cmd
# Start the tasks.
exec mpiexec -n 4 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
  bash -c "$(declare -f task); task \"\$1\"" task "$(declare -f trial); trial"
