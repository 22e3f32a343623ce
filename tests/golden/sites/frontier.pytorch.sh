#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site frontier: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site frontier: partitions.batch
#SBATCH --partition=batch
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site frontier: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site frontier: partitions.batch
#SBATCH --cpus-per-task=7
# site frontier: fabric.together.0: alt_read needs the driver's get protocol off
#SBATCH --network=disable_rdzv_get
# pytorch: 16 tasks by srun, 2 nodes, 16 GPUs, for site frontier. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

# `module` is a function, which a script does not always inherit.
# shellcheck source=/dev/null # the site's own files
type module >/dev/null 2>&1 || for file in /etc/profile.d/*mod*.sh "${MODULESHOME:-}/init/bash"; do
  [[ ! -r $file ]] || . "$file"
done
module load PrgEnv-gnu/8.7.0 || fail "'module load PrgEnv-gnu/8.7.0' failed (site frontier: modules) on $(uname -n)"  # site frontier: modules
module load cpe/26.03 || fail "'module load cpe/26.03' failed (site frontier: modules) on $(uname -n)"  # site frontier: modules
module load rocm/7.1.1 || fail "'module load rocm/7.1.1' failed (site frontier: modules) on $(uname -n)"  # site frontier: modules
module load rccl-net-plugin || fail "'module load rccl-net-plugin' failed (site frontier: modules (rccl)) on $(uname -n)"  # site frontier: modules (rccl)
module load craype-accel-amd-gfx90a || fail "'module load craype-accel-amd-gfx90a' failed (site frontier: modules) on $(uname -n)"  # site frontier: modules
export LD_LIBRARY_PATH="$CRAY_LD_LIBRARY_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site frontier: setup
export MIOPEN_USER_DB_PATH="/tmp/$USER-miopen-$SLURM_JOB_ID" MIOPEN_CUSTOM_CACHE_DIR="/tmp/$USER-miopen-$SLURM_JOB_ID"  # site frontier: setup
module load cray-mpich-abi || fail "'module load cray-mpich-abi' failed (site frontier: container.setup) on $(uname -n)"  # site frontier: container.setup
export APPTAINER_CONTAINLIBS=/usr/lib64/libcxi.so.1,/usr/lib64/libjson-c.so.5,/lib64/libtinfo.so.6,/usr/lib64/libnl-3.so.200,/usr/lib64/libgfortran.so.5,/usr/lib64/libjansson.so.4,/usr/lib64/libxpmem.so.0  # site frontier: container.setup
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} ]] || for name in PrgEnv-gnu/8.7.0 cpe/26.03 rocm/7.1.1 rccl-net-plugin craype-accel-amd-gfx90a; do
  [[ :${LOADEDMODULES:-}: == *":$name"[:/]* ]] || fail "module $name cannot be loaded on $(uname -n)"
done

export PYTHONUNBUFFERED=1  # default
# The settings of frontier.
export NCCL_NET=OFI  # site frontier: fabric.env.NCCL_NET (multi_node, rccl)
export NCCL_CROSS_NIC=1  # site frontier: fabric.env.NCCL_CROSS_NIC
export NCCL_NET_GDR_LEVEL=PHB  # site frontier: fabric.env.NCCL_NET_GDR_LEVEL
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # site frontier: fabric.env.NCCL_SOCKET_IFNAME
export HSA_FORCE_FINE_GRAIN_PCIE=1  # site frontier: fabric.env.HSA_FORCE_FINE_GRAIN_PCIE
export FI_MR_CACHE_MONITOR=kdreg2  # site frontier: fabric.env.FI_MR_CACHE_MONITOR
export FI_CXI_DISABLE_HOST_REGISTER=1  # site frontier: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
export FI_CXI_DEFAULT_CQ_SIZE=131072  # site frontier: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
export FI_CXI_DEFAULT_TX_SIZE=2048  # site frontier: fabric.env.FI_CXI_DEFAULT_TX_SIZE
export FI_CXI_RX_MATCH_MODE=hybrid  # site frontier: fabric.env.FI_CXI_RX_MATCH_MODE
export FI_CXI_RDZV_PROTO=alt_read  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_EAGER_SIZE=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_THRESHOLD=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_GET_MIN=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
HPCDIST_HEAD_ADDRESS=$(getent ahostsv4 "${nodes[0]}" | awk '!/^127/ {print $1; exit}')
[[ $HPCDIST_HEAD_ADDRESS ]] || fail "${nodes[0]} has no address that other nodes could reach"
export HPCDIST_HEAD_ADDRESS
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, and 16 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${ROCR_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 1)) ||
    fail "it sees ${#gpus[@]} GPUs (ROCR_VISIBLE_DEVICES), and 1 are needed"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-7}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  mkdir -p "$MIOPEN_USER_DB_PATH"  # site frontier: task_setup
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=0  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  # shellcheck disable=SC2016 # what is behind expands it
  exec apptainer exec --rocm --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --bind "/usr/share/libdrm:/usr/share/libdrm" --bind "/var/spool/slurmd:/var/spool/slurmd" \
    --bind "/opt/cray:/opt/cray" --pwd "$PWD" /images/torch.sif bash -c \
    'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist \
    "$CRAY_MPICH_ROOTDIR/gtl/lib:/opt/rocm/lib:/opt/rocm/lib64:$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/lib64" \
    python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --gpus-per-task=1: site frontier: gpus.bound_by
# --mpi=cray_shasta: site frontier: launchers.srun.mpi
# --gpu-bind=closest: site frontier: launchers.srun.binding
# apptainer exec --rocm: container apptainer
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --bind "/usr/share/libdrm:/usr/share/libdrm" --bind "/var/spool/slurmd:/var/spool/slurmd" --bind "/opt/cray:/opt/cray": site frontier: container.binds
# --pwd "$PWD": container apptainer
# /images/torch.sif: pytorch.yml build.image
# bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "$CRAY_MPICH_ROOTDIR/gtl/lib:/opt/rocm/lib:/opt/rocm/lib64:$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/lib64": site frontier: container.library_path
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --gpus-per-task=1 --mpi=cray_shasta --gpu-bind=closest bash -c "$(declare -f task); task"
