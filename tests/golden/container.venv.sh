#!/bin/bash
# rule run directory
#SBATCH --output=container-%j.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site snellius: environment
#SBATCH --export=ALL
# site snellius: partitions.gpu_h100
#SBATCH --partition=gpu_h100
# site snellius: partitions.gpu_h100
#SBATCH --nodes=2
# site snellius: partitions.gpu_h100
#SBATCH --ntasks-per-node=1
# site snellius: partitions.gpu_h100
#SBATCH --cpus-per-task=64
# site snellius: gpus
#SBATCH --gpus-per-node=4
# container: 2 tasks by srun, 2 nodes, 8 GPUs, 8 processes, for site snellius. Written by hpcdist 0.1.0.

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
module load 2024 || fail "'module load 2024' failed (site snellius: container.setup (multi_node, nccl)) on $(uname -n)"  # site snellius: container.setup (multi_node, nccl)
module load NCCL/2.22.3-GCCcore-13.3.0-CUDA-12.6.0 || fail "'module load NCCL/2.22.3-GCCcore-13.3.0-CUDA-12.6.0' failed (site snellius: container.setup (multi_node, nccl)) on $(uname -n)"  # site snellius: container.setup (multi_node, nccl)

export PYTHONUNBUFFERED=1  # default
# For pytorch.
export OMP_NUM_THREADS=16  # framework pytorch
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

type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
[[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer

# The experiment's commands.
IFS= read -rd '' commands <<'COMMAND'
trap 'exit $(($? ? $? : 143))' TERM INT HUP
trap : USR1 USR2
source venv/bin/activate && exec torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python python train.py
COMMAND
[[ $commands ]] || fail "bash cannot write them to ${TMPDIR:-/tmp}; is the disk full?" # before 5.1

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
  exec apptainer exec --nv --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --pwd "$PWD" /images/torch.sif bash -c "$1"
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# apptainer exec --nv: container apptainer
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --pwd "$PWD": container apptainer
# /images/torch.sif: container.yml build.image
# the command: container.yml run.cmd
# torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: container.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task \"\$1\"" task "$commands"
