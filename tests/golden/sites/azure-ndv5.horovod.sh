#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site azure-ndv5: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site azure-ndv5: partitions.gpu
#SBATCH --partition=gpu
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site azure-ndv5: whole_nodes
#SBATCH --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site azure-ndv5: partitions.gpu
#SBATCH --cpus-per-task=12
# site azure-ndv5: gpus
#SBATCH --gpus-per-node=8
# site azure-ndv5: directives.mandatory
#SBATCH --mem=0
# horovod: 16 tasks by srun, 2 nodes, 16 GPUs, for site azure-ndv5. Written by hpcdist 0.1.0.

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
# shellcheck source=/dev/null # the site's own file
if [[ -r /etc/profile.d/modules.sh ]]; then source /etc/profile.d/modules.sh; else fail "there is no /etc/profile.d/modules.sh on $(uname -n)"; fi  # site azure-ndv5: source
module load mpi/hpcx || fail "'module load mpi/hpcx' failed (site azure-ndv5: modules) on $(uname -n)"  # site azure-ndv5: modules
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} || :${LOADEDMODULES:-}: == *:mpi/hpcx[:/]* ]] ||
  fail "module mpi/hpcx cannot be loaded on $(uname -n)"

export PYTHONUNBUFFERED=1  # default
# The settings of azure-ndv5.
export CUDA_DEVICE_ORDER=PCI_BUS_ID  # site azure-ndv5: fabric.env.CUDA_DEVICE_ORDER
export NCCL_DEBUG=WARN  # site azure-ndv5: fabric.env.NCCL_DEBUG (nccl)
export NCCL_SOCKET_IFNAME=eth0  # site azure-ndv5: fabric.env.NCCL_SOCKET_IFNAME
if compgen -G "/opt/microsoft/ndv5-topo.xml" >/dev/null; then
  export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # site azure-ndv5: fabric.env.NCCL_TOPO_FILE (if /opt/microsoft/ndv5-topo.xml is found)
fi
export NCCL_IGNORE_CPU_AFFINITY=1  # site azure-ndv5: fabric.env.NCCL_IGNORE_CPU_AFFINITY
export NCCL_PXN_DISABLE=1  # site azure-ndv5: fabric.env.NCCL_PXN_DISABLE
export NCCL_MIN_NCHANNELS=32  # site azure-ndv5: fabric.env.NCCL_MIN_NCHANNELS
export NCCL_P2P_NET_CHUNKSIZE=2097152  # site azure-ndv5: fabric.env.NCCL_P2P_NET_CHUNKSIZE
export NCCL_IB_PCI_RELAXED_ORDERING=1  # site azure-ndv5: fabric.env.NCCL_IB_PCI_RELAXED_ORDERING
export NCCL_IB_QPS_PER_CONNECTION=4  # site azure-ndv5: fabric.env.NCCL_IB_QPS_PER_CONNECTION
export UCX_NET_DEVICES=mlx5_ib0:1  # site azure-ndv5: fabric.env.UCX_NET_DEVICES
export OMPI_MCA_coll_hcoll_enable=0  # site azure-ndv5: fabric.env.OMPI_MCA_coll_hcoll_enable
export NCCL_COLLNET_ENABLE=1  # site azure-ndv5: fabric.together.0: SHARP sums in the switches, which NCCL uses by CollNet only (multi_node)
export SHARP_SMX_UCX_INTERFACE=mlx5_ib0:1  # site azure-ndv5: fabric.together.0: SHARP sums in the switches, which NCCL uses by CollNet only (multi_node)
export SHARP_COLL_ENABLE_SAT=1  # site azure-ndv5: fabric.together.0: SHARP sums in the switches, which NCCL uses by CollNet only (multi_node)
export SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING=1  # site azure-ndv5: fabric.together.0: SHARP sums in the switches, which NCCL uses by CollNet only (multi_node)

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 2 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, and 16 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 8 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-12}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site azure-ndv5: launchers.srun.mpi
# --cpu-bind=mask_cpu:0xfff000000,0xfff000000000,0xfff,0xfff000,0xfff000000000000000000,0xfff000000000000000000000,0xfff000000000000,0xfff000000000000000: site azure-ndv5: node_types.h100.gpu_cpus
# the command: horovod.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix \
  --cpu-bind=mask_cpu:0xfff000000,0xfff000000000,0xfff,0xfff000,0xfff000000000000000000,0xfff000000000000000000000,0xfff000000000000,0xfff000000000000000 \
  bash -c "$(declare -f task); task"
