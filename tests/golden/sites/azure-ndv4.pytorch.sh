#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site azure-ndv4: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site azure-ndv4: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site azure-ndv4: partitions.gpu
#SBATCH --cpus-per-task=12
# site azure-ndv4: gpus
#SBATCH --gpus-per-node=8
# site azure-ndv4: directives.mandatory
#SBATCH --mem=0
# pytorch: 16 tasks by srun, 2 nodes, 16 GPUs, for site azure-ndv4. Written by hpcdist 0.1.0.

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
if [[ -r /etc/profile.d/modules.sh ]]; then source /etc/profile.d/modules.sh; else fail "there is no /etc/profile.d/modules.sh on $(uname -n)"; fi  # site azure-ndv4: source
module load mpi/hpcx || fail "'module load mpi/hpcx' failed (site azure-ndv4: modules) on $(uname -n)"  # site azure-ndv4: modules
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} || :${LOADEDMODULES:-}: == *:mpi/hpcx[:/]* ]] ||
  fail "module mpi/hpcx cannot be loaded on $(uname -n)"

export PYTHONUNBUFFERED=1  # default
# The settings of azure-ndv4.
export CUDA_DEVICE_ORDER=PCI_BUS_ID  # site azure-ndv4: fabric.env.CUDA_DEVICE_ORDER
export NCCL_SOCKET_IFNAME=eth0  # site azure-ndv4: fabric.env.NCCL_SOCKET_IFNAME
if compgen -G "/opt/microsoft/ndv4-topo.xml" >/dev/null; then
  export NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml  # site azure-ndv4: fabric.env.NCCL_TOPO_FILE (if /opt/microsoft/ndv4-topo.xml is found)
fi
export NCCL_IB_PCI_RELAXED_ORDERING=1  # site azure-ndv4: fabric.env.NCCL_IB_PCI_RELAXED_ORDERING
export UCX_IB_PCI_RELAXED_ORDERING=on  # site azure-ndv4: fabric.env.UCX_IB_PCI_RELAXED_ORDERING
export UCX_NET_DEVICES=eth0  # site azure-ndv4: fabric.env.UCX_NET_DEVICES (framework not mpi)
export OMPI_MCA_coll_hcoll_enable=0  # site azure-ndv4: fabric.env.OMPI_MCA_coll_hcoll_enable
export GLOO_SOCKET_IFNAME=eth0  # site azure-ndv4: fabric.interface

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

hpcdist_image=${HPCDIST_RUN_DIR:-$PWD}/pytorch-24-08-py3.sqsh
[[ -s $hpcdist_image ]] || { enroot import --output "$hpcdist_image.$$" 'docker://nvcr.io#nvidia/pytorch:24.08-py3' && mv "$hpcdist_image.$$" "$hpcdist_image"; } ||
  fail "enroot cannot fetch docker://nvcr.io#nvidia/pytorch:24.08-py3 on $(uname -n)"  # container pyxis
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, and 16 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 8 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-12}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=$HPCDIST_LOCAL_RANK  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site azure-ndv4: launchers.srun.mpi
# --cpu-bind=mask_cpu:0xfff000000,0xfff000000000,0xfff,0xfff000,0xfff000000000000000000,0xfff000000000000000000000,0xfff000000000000,0xfff000000000000000: site azure-ndv4: node_types.a100.gpu_cpus
# --container-image="$hpcdist_image": pytorch.yml build.image
# --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR},/opt/microsoft:/opt/microsoft" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME,NCCL_TOPO_FILE,NCCL_IB_PCI_RELAXED_ORDERING,UCX_IB_PCI_RELAXED_ORDERING,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix \
  --cpu-bind=mask_cpu:0xfff000000,0xfff000000000,0xfff,0xfff000,0xfff000000000000000000,0xfff000000000000000000000,0xfff000000000000,0xfff000000000000000 \
  --container-image="$hpcdist_image" \
  --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR},/opt/microsoft:/opt/microsoft" \
  --container-workdir="$PWD" \
  --container-env=PYTHONUNBUFFERED,CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME,NCCL_TOPO_FILE,NCCL_IB_PCI_RELAXED_ORDERING,UCX_IB_PCI_RELAXED_ORDERING,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
  bash -c "$(declare -f task); task"
