#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site setonix: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=abcd-delta-gpu
# site setonix: partitions.gpu
#SBATCH --partition=gpu
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# site setonix: gpus
#SBATCH --gres=gpu:8
# pytorch: 2 tasks by srun, 2 nodes, 16 GPUs, 16 processes, for site setonix. Written by hpcdist 0.1.0.

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
export MIOPEN_USER_DB_PATH="/tmp/$USER-miopen-$SLURM_JOB_ID" MIOPEN_CUSTOM_CACHE_DIR="/tmp/$USER-miopen-$SLURM_JOB_ID"  # site setonix: setup (rccl)
module load singularity/4.1.0-slurm || fail "'module load singularity/4.1.0-slurm' failed (site setonix: container.setup) on $(uname -n)"  # site setonix: container.setup

export PYTHONUNBUFFERED=1  # default
# For pytorch.
export OMP_NUM_THREADS=8  # framework pytorch

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

type singularity >/dev/null 2>&1 || fail "there is no singularity on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container singularity
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container singularity
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container singularity

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
  mapfile -t gpus < <(compgen -G "/dev/dri/renderD*") && gpus=("${!gpus[@]}")
  [[ ! -v ROCR_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$ROCR_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (ROCR_VISIBLE_DEVICES), and 8 are needed on its node"
  export ROCR_VISIBLE_DEVICES && ROCR_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:8}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  mkdir -p "$MIOPEN_USER_DB_PATH"  # site setonix: task_setup (rccl)
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK=$HPCDIST_NODE  # framework pytorch
  exec singularity exec --rocm --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --pwd "$PWD" /images/torch.sif torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# singularity exec --rocm: container singularity
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --pwd "$PWD": container singularity
# /images/torch.sif: pytorch.yml build.image
# torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task"
