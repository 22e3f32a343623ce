#!/bin/bash
# rule run directory
#SBATCH --output=container-%j.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site gcp-a3-ultra: environment
#SBATCH --export=ALL
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --partition=a3ultra
# site gcp-a3-ultra: whole_nodes
#SBATCH --exclusive
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --nodes=2
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --ntasks-per-node=1
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --cpus-per-task=224
# site gcp-a3-ultra: gpus
#SBATCH --gpus-per-node=8
# site gcp-a3-ultra: directives.mandatory
#SBATCH --mem=0
# container: 2 tasks by srun, 2 nodes, 16 GPUs, 16 processes, for site gcp-a3-ultra. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

# shellcheck source=/dev/null # the site's own file
if [[ -r /usr/local/gib/scripts/set_nccl_env.sh ]]; then source /usr/local/gib/scripts/set_nccl_env.sh; else fail "there is no /usr/local/gib/scripts/set_nccl_env.sh on $(uname -n)"; fi  # site gcp-a3-ultra: source
export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a3-ultra: setup

export PYTHONUNBUFFERED=1  # default
# The settings of gcp-a3-ultra.
if compgen -G "/usr/local/gib/lib64/libnccl-net*" >/dev/null; then
  export NCCL_NET=gIB  # site gcp-a3-ultra: fabric.env.NCCL_NET (if /usr/local/gib/lib64/libnccl-net* is found)
fi
export NCCL_SOCKET_IFNAME=enp0s19,enp192s20  # site gcp-a3-ultra: fabric.env.NCCL_SOCKET_IFNAME
# For pytorch.
export OMP_NUM_THREADS=28  # framework pytorch
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

hpcdist_image=${HPCDIST_RUN_DIR:-$PWD}/pytorch-24-08-py3.sqsh
[[ -s $hpcdist_image ]] || { enroot import --output "$hpcdist_image.$$" 'docker://nvcr.io#nvidia/pytorch:24.08-py3' && mv "$hpcdist_image.$$" "$hpcdist_image"; } ||
  fail "enroot cannot fetch docker://nvcr.io#nvidia/pytorch:24.08-py3 on $(uname -n)"  # container pyxis
[[ $PWD${HPCDIST_RUN_DIR:-} != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis

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
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 8 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:0:8}")
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export PET_LOCAL_ADDR=$HPCDIST_ADDRESS  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK=$HPCDIST_NODE  # framework pytorch
  # shellcheck disable=SC2016 # what is behind expands it
  exec bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist \
    "/usr/local/gib/lib64:/usr/lib/x86_64-linux-gnu" torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=224 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmi2: site gcp-a3-ultra: launchers.srun.mpi
# --container-image="$hpcdist_image": container.yml build.image
# --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR},/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS,GREETING: container pyxis
# bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "/usr/local/gib/lib64:/usr/lib/x86_64-linux-gnu": site gcp-a3-ultra: container.library_path
# torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: container.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=224 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmi2 \
  --container-image="$hpcdist_image" \
  --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR},/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" \
  --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS,GREETING \
  bash -c "$(declare -f task); task"
