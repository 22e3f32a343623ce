#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# horovod.yml name
#PBS -N horovod
# horovod.yml batch.account
#PBS -A proj
# site polaris: partitions.debug
#PBS -q debug
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#PBS -l select=2:mpiprocs=4:system=polaris
# site polaris: whole_nodes
#PBS -l place=scatter
# horovod.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site polaris: pbs.keep
#PBS -k doe
# site polaris: environment
#PBS -V
# site polaris: directives.mandatory
#PBS -l filesystems=home:eagle
# horovod: 8 tasks by pals, 2 nodes, 8 GPUs, for site polaris. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export TMPDIR=/tmp  # site polaris: setup
export LD_LIBRARY_PATH="/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site polaris: setup

export PYTHONUNBUFFERED=1  # default
# The settings of polaris.
if compgen -G "/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so" >/dev/null; then
  export NCCL_NET='AWS Libfabric'  # site polaris: fabric.env.NCCL_NET (outside containers, if /soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so is found)
fi
export NCCL_NET_GDR_LEVEL=PHB  # site polaris: fabric.env.NCCL_NET_GDR_LEVEL
export NCCL_CROSS_NIC=1  # site polaris: fabric.env.NCCL_CROSS_NIC
export NCCL_COLLNET_ENABLE=1  # site polaris: fabric.env.NCCL_COLLNET_ENABLE
export FI_MR_CACHE_MONITOR=userfaultfd  # site polaris: fabric.env.FI_MR_CACHE_MONITOR
export FI_CXI_DISABLE_HOST_REGISTER=1  # site polaris: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
export FI_CXI_DEFAULT_CQ_SIZE=131072  # site polaris: fabric.env.FI_CXI_DEFAULT_CQ_SIZE

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
  exec python train.py
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
# --cpu-bind list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39: site polaris: node_types.a100.gpu_cpus
# the command: horovod.yml run.cmd
# Start the tasks.
exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind \
  list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39 bash -c "$(declare -f task); task"
