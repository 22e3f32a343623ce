#!/bin/bash
# rule run directory
#SBATCH --output=container-%j.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site podman-like: environment
#SBATCH --export=ALL
# site podman-like: partitions.gpu
#SBATCH --constraint=gpu
# site podman-like: partitions.gpu
#SBATCH --nodes=2
# site podman-like: partitions.gpu
#SBATCH --ntasks-per-node=1
# site podman-like: partitions.gpu
#SBATCH --cpus-per-task=128
# site podman-like: gpus
#SBATCH --gpus-per-node=4
# container: 2 tasks by srun, 2 nodes, 8 GPUs, 8 processes, for site podman-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default
# For pytorch.
export OMP_NUM_THREADS=32  # framework pytorch
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

type podman-hpc >/dev/null 2>&1 || fail "there is no podman-hpc on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container podman-hpc
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container podman-hpc

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
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:4}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec podman-hpc run --rm --net=host --ipc=host --pid=host --gpu --volume="$PWD:$PWD" \
    ${HPCDIST_RUN_DIR:+--volume="$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --volume="/global/data/imagenet:/global/data/imagenet" --volume="/var/spool/slurmd:/var/spool/slurmd" \
    --volume="/opt/fabric:/opt/fabric:ro" --volume="/run/job-$SLURM_JOB_ID:/run/job-$SLURM_JOB_ID" --workdir="$PWD" \
    '--env=HPCDIST_*' '--env=SLURM_*' '--env=PMI_*' '--env=PMIX_*' '--env=PALS_*' '--env=OMPI_*' '--env=HOROVOD_*' \
    '--env=POLYAXON_*' --env=PYTHONUNBUFFERED --env=OMP_NUM_THREADS --env=GREETING --env=PET_LOCAL_ADDR \
    --env=TORCHELASTIC_ERROR_FILE --env=PET_NODE_RANK --env=CUDA_VISIBLE_DEVICES --nccl \
    nvcr.io/nvidia/pytorch:24.08-py3 env 'NCCL_NET=AWS Libfabric' FLAG=true torchrun --nnodes=2 --nproc-per-node=4 \
    --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" \
    --max-restarts=0 --no-python python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# podman-hpc run --rm --net=host --ipc=host --pid=host --gpu: container podman-hpc
# --volume="$PWD:$PWD" ${HPCDIST_RUN_DIR:+--volume="$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --volume="/global/data/imagenet:/global/data/imagenet": site podman-like: volumes.imagenet
# --volume="/var/spool/slurmd:/var/spool/slurmd" --volume="/opt/fabric:/opt/fabric:ro" --volume="/run/job-$SLURM_JOB_ID:/run/job-$SLURM_JOB_ID": site podman-like: container.binds
# --workdir="$PWD" '--env=HPCDIST_*' '--env=SLURM_*' '--env=PMI_*' '--env=PMIX_*' '--env=PALS_*' '--env=OMPI_*' '--env=HOROVOD_*' '--env=POLYAXON_*' --env=PYTHONUNBUFFERED --env=OMP_NUM_THREADS --env=GREETING --env=PET_LOCAL_ADDR --env=TORCHELASTIC_ERROR_FILE --env=PET_NODE_RANK --env=CUDA_VISIBLE_DEVICES: container podman-hpc
# --nccl: site podman-like: container.gpu_args
# nvcr.io/nvidia/pytorch:24.08-py3: container.yml build.image
# env: site podman-like: container.env
# 'NCCL_NET=AWS Libfabric': site podman-like: container.env.NCCL_NET
# FLAG=true: site podman-like: container.env.FLAG
# torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: container.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task"
