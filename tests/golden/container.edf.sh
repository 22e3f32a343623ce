#!/bin/bash
# rule run directory
#SBATCH --output=container-%j.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site clariden: environment
#SBATCH --export=ALL
# site clariden: partitions.normal
#SBATCH --partition=normal
# site clariden: whole_nodes
#SBATCH --exclusive
# site clariden: partitions.normal
#SBATCH --nodes=2
# site clariden: partitions.normal
#SBATCH --ntasks-per-node=1
# site clariden: partitions.normal
#SBATCH --cpus-per-task=288
# container: 2 tasks by srun, 2 nodes, 8 GPUs, 8 processes, for site clariden. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export CUDA_CACHE_DISABLE=1  # site clariden: setup
ulimit -c 0  # site clariden: setup (nccl, framework not mpi)

export PYTHONUNBUFFERED=1  # default
# The settings of clariden.
export UCX_HANDLE_ERRORS=none  # site clariden: fabric.env.UCX_HANDLE_ERRORS (in a container)
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1  # site clariden: fabric.env.TORCH_NCCL_ASYNC_ERROR_HANDLING (nccl, framework pytorch/deepspeed/accelerate/lightning/none)
export MPICH_GPU_SUPPORT_ENABLED=0  # site clariden: fabric.together.0: GPU-aware MPI beside NCCL can hang (CSCS) (nccl, framework not mpi/none)
# For pytorch.
export OMP_NUM_THREADS=72  # framework pytorch
# The experiment's own variables.
export GREETING="it's \$HOME"  # container.yml environment.env_vars.GREETING

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
mkdir -p "$HPCDIST_RUN_DIR/logs"

[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container edf
environment=${HPCDIST_RUN_DIR:-$PWD}/environment.$SLURM_JOB_ID.toml
run=${HPCDIST_RUN_DIR:+", \"$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR\""}
{
  cat <<END
image = "nvcr.io#nvidia/pytorch:24.08-py3"
workdir = "$PWD"
mounts = ["$PWD:$PWD"$run]
[annotations]
com.hooks.aws_ofi_nccl.enabled = "true"
com.hooks.aws_ofi_nccl.variant = "cuda-dl"
[env]
NVIDIA_VISIBLE_DEVICES = "all"
END
  for name in PYTHONUNBUFFERED UCX_HANDLE_ERRORS TORCH_NCCL_ASYNC_ERROR_HANDLING MPICH_GPU_SUPPORT_ENABLED OMP_NUM_THREADS GREETING; do
    value=${!name//\\/\\\\} value=${value//\"/\\\"}
    value=${value//$'\n'/\\n} value=${value//\$\{/\$\$\{}
    [[ ! -v $name ]] || echo "$name = \"$value\""
  done
} >"$environment" || fail "cannot write $environment; is the disk full?"  # container edf

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 2)) || fail "srun started $SLURM_NTASKS tasks, and 2 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  export HPCDIST_ADDRESS=${nodes[HPCDIST_NODE]}
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:4}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec env 'PMIX_MCA_psec=^munge' torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=288 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site clariden: container.mpi
# --environment="$environment": container.yml build.image
# env: site clariden: container.env
# 'PMIX_MCA_psec=^munge': site clariden: container.env.PMIX_MCA_psec
# torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: container.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=288 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
  --environment="$environment" bash -c "$(declare -f task); task"
