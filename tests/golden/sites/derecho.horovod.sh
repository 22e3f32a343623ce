#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# horovod.yml name
#PBS -N horovod
# horovod.yml batch.account
#PBS -A proj
# site derecho: partitions.main
#PBS -q main
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4:gpu_type=a100
# site derecho: whole_nodes
#PBS -l place=scatter
# horovod.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site derecho: pbs.keep
#PBS -k oed
# site derecho: environment
#PBS -V
# horovod: 8 tasks by pals, 2 nodes, 8 GPUs, for site derecho. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1  # default
# The settings of derecho.
export NCCL_SOCKET_IFNAME=hsn  # site derecho: fabric.env.NCCL_SOCKET_IFNAME (nccl)
export NCCL_IB_DISABLE=1  # site derecho: fabric.env.NCCL_IB_DISABLE (nccl)
export NCCL_CROSS_NIC=1  # site derecho: fabric.env.NCCL_CROSS_NIC (nccl)
export NCCL_NCHANNELS_PER_NET_PEER=4  # site derecho: fabric.env.NCCL_NCHANNELS_PER_NET_PEER (nccl)
export FI_MR_CACHE_MONITOR=userfaultfd  # site derecho: fabric.env.FI_MR_CACHE_MONITOR (nccl)
export FI_CXI_DISABLE_HOST_REGISTER=1  # site derecho: fabric.env.FI_CXI_DISABLE_HOST_REGISTER (nccl)
export FI_CXI_DEFAULT_CQ_SIZE=131072  # site derecho: fabric.env.FI_CXI_DEFAULT_CQ_SIZE (nccl)
export FI_CXI_OPTIMIZED_MRS=false  # site derecho: fabric.env.FI_CXI_OPTIMIZED_MRS (nccl)

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
  if [[ -n ${SCRATCH:-} ]]; then export TMPDIR="$SCRATCH/tmp"; mkdir -p "$TMPDIR"; fi  # site derecho: task_setup
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth: launcher pals
# the command: horovod.yml run.cmd
# Start the tasks.
exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
  bash -c "$(declare -f task); task"
