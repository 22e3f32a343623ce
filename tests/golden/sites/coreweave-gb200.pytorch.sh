#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site coreweave-gb200: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site coreweave-gb200: partitions.gb200
#SBATCH --partition=gb200
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site coreweave-gb200: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site coreweave-gb200: partitions.gb200
#SBATCH --cpus-per-task=36
# site coreweave-gb200: whole_nodes
#SBATCH --mem=0
# site coreweave-gb200: gpus
#SBATCH --gpus-per-node=4
# site coreweave-gb200: directives.mandatory
#SBATCH --distribution=block:block
# pytorch: 8 tasks by srun, 2 nodes, 8 GPUs, for site coreweave-gb200. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default
# The settings of coreweave-gb200.
export NCCL_SOCKET_IFNAME=eth0  # site coreweave-gb200: fabric.env.NCCL_SOCKET_IFNAME (nccl)
export NCCL_IB_HCA=ibp  # site coreweave-gb200: fabric.env.NCCL_IB_HCA (nccl)
export NVIDIA_IMEX_CHANNELS=0  # site coreweave-gb200: fabric.env.NVIDIA_IMEX_CHANNELS (nccl)
export NCCL_NET_GDR_C2C=1  # site coreweave-gb200: fabric.env.NCCL_NET_GDR_C2C (nccl)
export NCCL_MNNVL_ENABLE=1  # site coreweave-gb200: fabric.env.NCCL_MNNVL_ENABLE (nccl)
export NCCL_CUMEM_ENABLE=1  # site coreweave-gb200: fabric.env.NCCL_CUMEM_ENABLE (nccl)
export NCCL_NET_PLUGIN=none  # site coreweave-gb200: fabric.env.NCCL_NET_PLUGIN (nccl)
export UCX_TLS=tcp  # site coreweave-gb200: fabric.env.UCX_TLS (nccl, framework not mpi)
export UCX_NET_DEVICES=eth0  # site coreweave-gb200: fabric.env.UCX_NET_DEVICES (nccl, framework not mpi)
export OMPI_MCA_coll_hcoll_enable=0  # site coreweave-gb200: fabric.env.OMPI_MCA_coll_hcoll_enable
export PMIX_MCA_gds='^ds12'  # site coreweave-gb200: fabric.env.PMIX_MCA_gds
export GLOO_SOCKET_IFNAME=eth0  # site coreweave-gb200: fabric.interface

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
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-36}
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

# srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=36 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site coreweave-gb200: launchers.srun.mpi
# --container-image="$hpcdist_image": pytorch.yml build.image
# --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_HCA,NVIDIA_IMEX_CHANNELS,NCCL_NET_GDR_C2C,NCCL_MNNVL_ENABLE,NCCL_CUMEM_ENABLE,NCCL_NET_PLUGIN,UCX_TLS,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,PMIX_MCA_gds,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
# --no-container-remap-root --no-container-mount-home: site coreweave-gb200: container.args
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=36 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix --container-image="$hpcdist_image" \
  --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" \
  --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_HCA,NVIDIA_IMEX_CHANNELS,NCCL_NET_GDR_C2C,NCCL_MNNVL_ENABLE,NCCL_CUMEM_ENABLE,NCCL_NET_PLUGIN,UCX_TLS,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,PMIX_MCA_gds,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
  --no-container-remap-root --no-container-mount-home bash -c "$(declare -f task); task"
