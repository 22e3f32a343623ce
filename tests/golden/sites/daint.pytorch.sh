#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site daint: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site daint: partitions.normal
#SBATCH --partition=normal
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site daint: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site daint: partitions.normal
#SBATCH --cpus-per-task=72
# pytorch: 8 tasks by srun, 2 nodes, 8 GPUs, for site daint. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export CUDA_CACHE_DISABLE=1  # site daint: setup
ulimit -c 0  # site daint: setup (nccl, framework not mpi)

export PYTHONUNBUFFERED=1  # default
# The settings of daint.
export NCCL_NET='AWS Libfabric'  # site daint: fabric.env.NCCL_NET (nccl, outside containers)
export NCCL_NET_GDR_LEVEL=PHB  # site daint: fabric.env.NCCL_NET_GDR_LEVEL (nccl, outside containers)
export NCCL_CROSS_NIC=1  # site daint: fabric.env.NCCL_CROSS_NIC (nccl, outside containers)
export NCCL_PROTO='^LL128'  # site daint: fabric.env.NCCL_PROTO (nccl, outside containers)
export FI_CXI_DEFAULT_CQ_SIZE=131072  # site daint: fabric.env.FI_CXI_DEFAULT_CQ_SIZE (outside containers)
export FI_CXI_DEFAULT_TX_SIZE=16384  # site daint: fabric.env.FI_CXI_DEFAULT_TX_SIZE (outside containers)
export FI_CXI_DISABLE_HOST_REGISTER=1  # site daint: fabric.env.FI_CXI_DISABLE_HOST_REGISTER (outside containers)
export FI_CXI_RX_MATCH_MODE=software  # site daint: fabric.env.FI_CXI_RX_MATCH_MODE (outside containers)
export FI_MR_CACHE_MONITOR=userfaultfd  # site daint: fabric.env.FI_MR_CACHE_MONITOR (outside containers)
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1  # site daint: fabric.env.TORCH_NCCL_ASYNC_ERROR_HANDLING (nccl, framework pytorch/deepspeed/accelerate/lightning/none)
export TRITON_HOME=/dev/shm/  # site daint: fabric.env.TRITON_HOME (nccl, outside containers, framework pytorch/deepspeed/accelerate/lightning/none)
export MPICH_GPU_SUPPORT_ENABLED=0  # site daint: fabric.together.0: GPU-aware MPI beside NCCL can hang (CSCS) (nccl, framework not mpi/none)

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-72}
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

# srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=72 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --cpu-bind=mask_cpu:0xffffffffffffffffff,0xffffffffffffffffff000000000000000000,0xffffffffffffffffff000000000000000000000000000000000000,0xffffffffffffffffff000000000000000000000000000000000000000000000000000000: site daint: node_types.gh200.gpu_cpus
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=72 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label \
  --cpu-bind=mask_cpu:0xffffffffffffffffff,0xffffffffffffffffff000000000000000000,0xffffffffffffffffff000000000000000000000000000000000000,0xffffffffffffffffff000000000000000000000000000000000000000000000000000000 \
  bash -c "$(declare -f task); task"
