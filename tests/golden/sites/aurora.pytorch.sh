#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# pytorch.yml name
#PBS -N pytorch
# pytorch.yml batch.account
#PBS -A proj
# site aurora: partitions.debug
#PBS -q debug
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#PBS -l select=2:mpiprocs=12
# site aurora: whole_nodes
#PBS -l place=scatter
# pytorch.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site aurora: pbs.keep
#PBS -k doe
# site aurora: directives.mandatory
#PBS -l filesystems=home:flare
# pytorch: 24 tasks by pals, 2 nodes, 24 GPUs, for site aurora. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

# `module` is a function, which a script does not always inherit.
# shellcheck source=/dev/null # the site's own files
type module >/dev/null 2>&1 || for file in /etc/profile.d/*mod*.sh "${MODULESHOME:-}/init/bash"; do
  [[ ! -r $file ]] || . "$file"
done
module load frameworks || fail "'module load frameworks' failed (site aurora: modules) on $(uname -n)"  # site aurora: modules
export TMPDIR=/tmp  # site aurora: setup
export ZE_FLAT_DEVICE_HIERARCHY=FLAT ZE_AFFINITY_MASK=0,1,2,3,4,5,6,7,8,9,10,11  # site aurora: setup
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} || :${LOADEDMODULES:-}: == *:frameworks[:/]* ]] ||
  fail "module frameworks cannot be loaded on $(uname -n)"

export PYTHONUNBUFFERED=1  # default
# The settings of aurora.
export CCL_PROCESS_LAUNCHER=pmix  # site aurora: fabric.env.CCL_PROCESS_LAUNCHER
export CCL_ATL_TRANSPORT=mpi  # site aurora: fabric.env.CCL_ATL_TRANSPORT
export CCL_KVS_MODE=mpi  # site aurora: fabric.env.CCL_KVS_MODE
export CCL_BCAST=double_tree  # site aurora: fabric.env.CCL_BCAST (multi_node, oneccl)
export CCL_CONFIGURATION=cpu_gpu_dpcpp  # site aurora: fabric.env.CCL_CONFIGURATION (oneccl)
export CCL_CONFIGURATION_PATH=''  # site aurora: fabric.env.CCL_CONFIGURATION_PATH (oneccl)
export FI_PROVIDER=cxi  # site aurora: fabric.env.FI_PROVIDER
export PALS_PMI=pmix  # site aurora: fabric.env.PALS_PMI
export FI_MR_CACHE_MONITOR=userfaultfd  # site aurora: fabric.env.FI_MR_CACHE_MONITOR

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]%%.*}.hsn.cm.aurora.alcf.anl.gov
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + ${PBS_JOBID%%[!0-9]*} % 750 * 16))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

# The hosts.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}
printf '%s\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 24)) || fail "pals started $PMI_SIZE tasks, and 24 are needed"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=24 HPCDIST_LOCAL_SIZE=12
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 12)) HPCDIST_NODE=$((HPCDIST_RANK / 12))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/dri/renderD*") && gpus=("${!gpus[@]}")
  [[ ! -v ZE_AFFINITY_MASK ]] || IFS=, read -ra gpus <<<"$ZE_AFFINITY_MASK"
  ((${#gpus[@]} >= 12)) ||
    fail "it sees ${#gpus[@]} GPUs (ZE_AFFINITY_MASK), and 12 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=4
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=$HPCDIST_LOCAL_RANK  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 24 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
# --cpu-bind list:4-7:8-11:12-15:16-19:20-23:24-27:56-59:60-63:64-67:68-71:72-75:76-79: site aurora: node_types.max1550.gpu_cpus
# the command: pytorch.yml run.cmd
# Start the tasks.
exec mpiexec -n 24 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind \
  list:4-7:8-11:12-15:16-19:20-23:24-27:56-59:60-63:64-67:68-71:72-75:76-79 bash -c "$(declare -f task); task"
