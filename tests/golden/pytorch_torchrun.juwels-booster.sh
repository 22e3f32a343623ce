#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-torchrun-%j.out
# pytorch_torchrun.yml name
#SBATCH --job-name=pytorch-torchrun
# default
#SBATCH --no-requeue
# site juwels-booster: environment
#SBATCH --export=ALL
# pytorch_torchrun.yml batch.account
#SBATCH --account=proj
# site juwels-booster: partitions.booster
#SBATCH --partition=booster
# site juwels-booster: whole_nodes
#SBATCH --exclusive
# site juwels-booster: partitions.booster
#SBATCH --nodes=3
# site juwels-booster: partitions.booster
#SBATCH --ntasks-per-node=1
# site juwels-booster: partitions.booster
#SBATCH --cpus-per-task=96
# site juwels-booster: gpus
#SBATCH --gres=gpu:4
# pytorch-torchrun: 3 tasks by srun, 3 nodes, 12 GPUs, 12 processes, for site juwels-booster. Written by hpcdist 0.1.0.

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
module load Stages/2025 || fail "'module load Stages/2025' failed (site juwels-booster: modules) on $(uname -n)"  # site juwels-booster: modules
module load GCC || fail "'module load GCC' failed (site juwels-booster: modules) on $(uname -n)"  # site juwels-booster: modules
module load OpenMPI || fail "'module load OpenMPI' failed (site juwels-booster: modules) on $(uname -n)"  # site juwels-booster: modules
export CUDA_VISIBLE_DEVICES=0,1,2,3  # site juwels-booster: setup
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} ]] || for name in Stages/2025 GCC OpenMPI; do
  [[ :${LOADEDMODULES:-}: == *":$name"[:/]* ]] || fail "module $name cannot be loaded on $(uname -n)"
done

export PYTHONUNBUFFERED=1  # default
# The settings of juwels-booster.
export HF_DATASETS_OFFLINE=1  # site juwels-booster: fabric.env.HF_DATASETS_OFFLINE
export NCCL_SOCKET_IFNAME=ib0  # site juwels-booster: fabric.env.NCCL_SOCKET_IFNAME
export UCX_RC_TIMEOUT=4s  # site juwels-booster: fabric.env.UCX_RC_TIMEOUT
export GLOO_SOCKET_IFNAME=ib0  # site juwels-booster: fabric.interface
# For pytorch.
export OMP_NUM_THREADS=24  # framework pytorch

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 3)) || fail "this job has ${#nodes[@]} nodes, and 3 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
HPCDIST_HEAD_ADDRESS=$(getent ahostsv4 "${nodes[0]%%.*}i" | awk '!/^127/ {print $1; exit}')
[[ $HPCDIST_HEAD_ADDRESS ]] || fail "${nodes[0]%%.*}i has no address that other nodes could reach"
export HPCDIST_HEAD_ADDRESS
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
mkdir -p "$HPCDIST_RUN_DIR/logs"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 3)) || fail "srun started $SLURM_NTASKS tasks, and 3 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=3 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_ROLE=master HPCDIST_INDEX=0
  else
    export HPCDIST_ROLE=worker HPCDIST_INDEX=$((HPCDIST_RANK - 1))
  fi
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  HPCDIST_ADDRESS=$(getent ahostsv4 "${nodes[HPCDIST_NODE]%%.*}i" | awk '!/^127/ {print $1; exit}')
  export HPCDIST_ADDRESS=${HPCDIST_ADDRESS:-${nodes[HPCDIST_NODE]%%.*}i}
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:4}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  [[ $HPCDIST_ROLE != master ]] || export PET_RDZV_CONF=is_host=1  # framework pytorch
  [[ $HPCDIST_ROLE != worker ]] || export PET_RDZV_CONF=is_host=0  # framework pytorch
  type torchrun_jsc >/dev/null 2>&1 || fail "there is no torchrun_jsc; load its module, or activate the environment that has it"
  exec torchrun_jsc --nnodes=3 --nproc-per-node=4 --rdzv-backend=c10d \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=2 --no-python \
    python train.py
}

# srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=96 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# torchrun_jsc: site juwels-booster: torchrun.program
# --nnodes=3 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=2 --no-python: framework pytorch
# the command: pytorch_torchrun.yml run.cmd
# Start the tasks.
srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=96 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task"
