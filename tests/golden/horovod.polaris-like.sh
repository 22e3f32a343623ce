#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# horovod_digits.yml name
#PBS -N horovod-digits
# horovod_digits.yml batch.account
#PBS -A proj
# site polaris-like: partitions.prod
#PBS -q prod
# site polaris-like: partitions.prod
#PBS -l select=4:mpiprocs=4:system=polaris
# site polaris-like: whole_nodes
#PBS -l place=scatter
# horovod_digits.yml batch.walltime
#PBS -l walltime=00:10:00
# default
#PBS -r n
# site polaris-like: pbs.keep
#PBS -k doe
# site polaris-like: environment
#PBS -V
# site polaris-like: directives.mandatory
#PBS -l filesystems=home:eagle
# horovod-digits: 16 tasks by pals, 4 nodes, 16 GPUs, for site polaris-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 4)) || fail "this job has ${#nodes[@]} nodes, and 4 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}
printf '%s\n' "${nodes[@]:0:4}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 16)) || fail "pals started $PMI_SIZE tasks, and 16 are needed"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=16
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python examples/horovod_digits.py --lr=0.02 --epochs=10
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 16 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16: launcher pals
# --cpu-bind depth: site polaris-like: launchers.pals.binding
# the command: horovod_digits.yml run.cmd
# Start the tasks.
exec mpiexec -n 16 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
  bash -c "$(declare -f task); task"
