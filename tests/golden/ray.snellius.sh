#!/bin/bash
# rule run directory
#SBATCH --output=ray-%j.out
# ray.yml name
#SBATCH --job-name=ray
# default
#SBATCH --no-requeue
# site snellius: environment
#SBATCH --export=ALL
# site snellius: partitions.gpu_h100
#SBATCH --partition=gpu_h100
# site snellius: partitions.gpu_h100
#SBATCH --nodes=3
# site snellius: partitions.gpu_h100
#SBATCH --ntasks-per-node=1
# site snellius: partitions.gpu_h100
#SBATCH --cpus-per-task=16
# site snellius: gpus
#SBATCH --gpus-per-node=4
# ray: 3 tasks by srun, 3 nodes, 12 GPUs, 12 processes, for site snellius. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# It needs files of a run, which `hpcdist submit` writes.
[[ -d ${HPCDIST_RUN_DIR:-}/runtime ]] || fail "only 'hpcdist submit' makes the run directory that this script needs, HPCDIST_RUN_DIR"
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
# For ray.
export RAY_USAGE_STATS_ENABLED=0  # framework ray

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 3)) || fail "this job has ${#nodes[@]} nodes, and 3 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
HPCDIST_HEAD_ADDRESS=$(getent ahostsv4 "${nodes[0]}" | awk '!/^127/ {print $1; exit}')
[[ $HPCDIST_HEAD_ADDRESS ]] || fail "${nodes[0]} has no address that other nodes could reach"
export HPCDIST_HEAD_ADDRESS
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export HPCDIST_JOB_DIR=${HPCDIST_JOB_DIR:-$HPCDIST_RUN_DIR}
export HPCDIST_FAILURE=${HPCDIST_FAILURE:-$HPCDIST_JOB_DIR/failure.$HPCDIST_JOB_ID}
export RAY_ADDRESS="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"  # framework ray

type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
[[ -e /images/ray.sif ]] || fail there is no image /images/ray.sif on "$(uname -n)"  # container apptainer
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 3)) || fail "srun started $SLURM_NTASKS tasks, and 3 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=3 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  export HPCDIST_CPUS=16
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  HPCDIST_ADDRESS=$(getent ahostsv4 "${nodes[HPCDIST_NODE]}" | awk '!/^127/ {print $1; exit}')
  export HPCDIST_ADDRESS=${HPCDIST_ADDRESS:-${nodes[HPCDIST_NODE]}}
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:4}")
  export HPCDIST_GPUS=0,1,2,3
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  # Slurm's proctrack/cgroup signals this process alone, in the group of a job: it passes TERM and HUP on.
  HPCDIST_PASS_ON=$(grep -E '^[0-9]+:(freezer)?:.*/job_' /proc/self/cgroup) && export HPCDIST_PASS_ON
  exec apptainer exec --nv --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} \
    --pwd "$PWD" /images/ray.sif python3 "$HPCDIST_RUN_DIR/runtime/python/hpcdist_ray.py" --nodes=3 --wait=300 \
    --start=--object-store-memory=21474836480 --head=--include-dashboard=true --head=--dashboard-port=8265 \
    '--start=--resources={"fast": 1}' --head=--log-style=record -- python train.py
}

# srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# apptainer exec --nv: container apptainer
# --bind "$PWD:$PWD" ${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}: what every task reads and writes
# --pwd "$PWD": container apptainer
# /images/ray.sif: ray.yml build.image
# python3 "$HPCDIST_RUN_DIR/runtime/python/hpcdist_ray.py" --nodes=3 --wait=300 --start=--object-store-memory=21474836480 --head=--include-dashboard=true --head=--dashboard-port=8265: framework ray
# '--start=--resources={"fast": 1}': ray.yml ray.args
# --head=--log-style=record: ray.yml ray.head_args
# --: framework ray
# the command: ray.yml run.cmd
# Start the tasks.
srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label \
  bash -c "$(declare -f task); task"
