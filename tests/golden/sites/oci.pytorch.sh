#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site oci: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site oci: partitions.compute
#SBATCH --partition=compute
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site oci: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site oci: partitions.compute
#SBATCH --cpus-per-task=28
# site oci: gpus
#SBATCH --gpus-per-node=8
# pytorch: 16 tasks by srun, 2 nodes, 16 GPUs, for site oci. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

# shellcheck source=/dev/null # the site's own file
for mpivars in /usr/mpi/gcc/openmpi-*/bin/mpivars.sh /opt/openmpi-*/bin/mpivars.sh; do if [[ -e $mpivars ]]; then source "$mpivars"; break; fi; done  # site oci: setup

export PYTHONUNBUFFERED=1  # default
# The settings of oci.
export NCCL_SOCKET_IFNAME=eth0  # site oci: fabric.env.NCCL_SOCKET_IFNAME (nccl)
export NCCL_IB_GID_INDEX=3  # site oci: fabric.env.NCCL_IB_GID_INDEX (nccl)
export NCCL_IB_TC=41  # site oci: fabric.env.NCCL_IB_TC (nccl)
export NCCL_IB_SL=0  # site oci: fabric.env.NCCL_IB_SL (nccl)
export NCCL_IB_TIMEOUT=22  # site oci: fabric.env.NCCL_IB_TIMEOUT (nccl)
export NCCL_IB_QPS_PER_CONNECTION=1  # site oci: fabric.env.NCCL_IB_QPS_PER_CONNECTION (nccl)
export NCCL_IB_SPLIT_DATA_ON_QPS=0  # site oci: fabric.env.NCCL_IB_SPLIT_DATA_ON_QPS (nccl)
export NCCL_CUMEM_ENABLE=0  # site oci: fabric.env.NCCL_CUMEM_ENABLE (nccl)
export NCCL_IGNORE_CPU_AFFINITY=1  # site oci: fabric.env.NCCL_IGNORE_CPU_AFFINITY (nccl)
export UCX_TLS=tcp  # site oci: fabric.env.UCX_TLS (nccl, framework not mpi)
export UCX_NET_DEVICES=eth0  # site oci: fabric.env.UCX_NET_DEVICES (nccl, framework not mpi)
export RX_QUEUE_LEN=8192  # site oci: fabric.env.RX_QUEUE_LEN (nccl)
export IB_RX_QUEUE_LEN=8192  # site oci: fabric.env.IB_RX_QUEUE_LEN (nccl)
export HCOLL_ENABLE_MCAST_ALL=0  # site oci: fabric.env.HCOLL_ENABLE_MCAST_ALL (nccl)
export OMPI_MCA_coll='^hcoll'  # site oci: fabric.env.OMPI_MCA_coll (nccl)
export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,mlx5_14,mlx5_15,mlx5_16,mlx5_17'  # site oci: fabric.together.0: the network cards of the H100 machines (nccl, nodes h100)
export GLOO_SOCKET_IFNAME=eth0  # site oci: fabric.interface

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
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-28}
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

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=28 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix_v3: site oci: launchers.srun.mpi
# --container-image="$hpcdist_image": pytorch.yml build.image
# --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_GID_INDEX,NCCL_IB_TC,NCCL_IB_SL,NCCL_IB_TIMEOUT,NCCL_IB_QPS_PER_CONNECTION,NCCL_IB_SPLIT_DATA_ON_QPS,NCCL_CUMEM_ENABLE,NCCL_IGNORE_CPU_AFFINITY,UCX_TLS,UCX_NET_DEVICES,RX_QUEUE_LEN,IB_RX_QUEUE_LEN,HCOLL_ENABLE_MCAST_ALL,OMPI_MCA_coll,NCCL_IB_HCA,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=28 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix_v3 --container-image="$hpcdist_image" \
  --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" \
  --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_GID_INDEX,NCCL_IB_TC,NCCL_IB_SL,NCCL_IB_TIMEOUT,NCCL_IB_QPS_PER_CONNECTION,NCCL_IB_SPLIT_DATA_ON_QPS,NCCL_CUMEM_ENABLE,NCCL_IGNORE_CPU_AFFINITY,UCX_TLS,UCX_NET_DEVICES,RX_QUEUE_LEN,IB_RX_QUEUE_LEN,HCOLL_ENABLE_MCAST_ALL,OMPI_MCA_coll,NCCL_IB_HCA,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
  bash -c "$(declare -f task); task"
