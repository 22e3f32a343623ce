#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# pytorch.yml name
#PBS -N pytorch
# pytorch.yml batch.account
#PBS -A proj
# site polaris: partitions.debug
#PBS -q debug
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#PBS -l select=2:mpiprocs=4:system=polaris
# site polaris: whole_nodes
#PBS -l place=scatter
# pytorch.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site polaris: pbs.keep
#PBS -k doe
# site polaris: environment
#PBS -V
# site polaris: directives.mandatory
#PBS -l filesystems=home:eagle
# pytorch: 8 tasks by pals, 2 nodes, 8 GPUs, for site polaris. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

# `module` is a function, which a script does not always inherit.
# shellcheck source=/dev/null # the site's own files
type module >/dev/null 2>&1 || for file in /etc/profile.d/*mod*.sh "${MODULESHOME:-}/init/bash"; do
  [[ ! -r $file ]] || . "$file"
done
export TMPDIR=/tmp  # site polaris: setup
export LD_LIBRARY_PATH="/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site polaris: setup
module use /soft/modulefiles  # site polaris: container.setup
module load spack-pe-base/0.6.2 || fail "'module load spack-pe-base/0.6.2' failed (site polaris: container.setup) on $(uname -n)"  # site polaris: container.setup
module load apptainer || fail "'module load apptainer' failed (site polaris: container.setup) on $(uname -n)"  # site polaris: container.setup
module load cray-mpich-abi || fail "'module load cray-mpich-abi' failed (site polaris: container.setup) on $(uname -n)"  # site polaris: container.setup

export PYTHONUNBUFFERED=1  # default
# The settings of polaris.
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
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + ${PBS_JOBID%%[!0-9]*} % 750 * 16))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer

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
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=$HPCDIST_LOCAL_RANK  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  # shellcheck disable=SC2016 # what is behind expands it
  exec apptainer exec --nv --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --bind "/opt/cray:/opt/cray" --bind "/var/run/palsd:/var/run/palsd" --pwd "$PWD" --fakeroot /images/torch.sif bash \
    -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist \
    "$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/pals/1.2.12/lib" python train.py
}

type -P mpiexec >/dev/null || fail "there is no mpiexec on $(uname -n); load its module before"
unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR # they override the options

# mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
# --cpu-bind list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39: site polaris: node_types.a100.gpu_cpus
# apptainer exec --nv: container apptainer
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --bind "/opt/cray:/opt/cray" --bind "/var/run/palsd:/var/run/palsd": site polaris: container.binds
# --pwd "$PWD": container apptainer
# --fakeroot: site polaris: container.args
# /images/torch.sif: pytorch.yml build.image
# bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/pals/1.2.12/lib": site polaris: container.library_path
# the command: pytorch.yml run.cmd
# Start the tasks.
exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind \
  list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39 bash -c "$(declare -f task); task"
