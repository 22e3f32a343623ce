#!/bin/bash
# rule run directory
#SBATCH --output=pytorch-%j.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site aws-p5en: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site aws-p5en: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=1
# site aws-p5en: partitions.p5en
#SBATCH --cpus-per-task=192
# site aws-p5en: gpus
#SBATCH --gpus-per-node=8
# site aws-p5en: directives.mandatory
#SBATCH --wait-all-nodes=1
# pytorch: 2 tasks by srun, 2 nodes, 16 GPUs, 16 processes, for site aws-p5en. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default
# The settings of aws-p5en.
export FI_EFA_USE_HUGE_PAGE=0  # site aws-p5en: fabric.env.FI_EFA_USE_HUGE_PAGE
export NCCL_SOCKET_IFNAME='^docker,lo,veth'  # site aws-p5en: fabric.env.NCCL_SOCKET_IFNAME
# For pytorch.
export OMP_NUM_THREADS=24  # framework pytorch

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
  exec torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static \
    --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    python train.py
}

# srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=192 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site aws-p5en: launchers.srun.mpi
# --cpu-bind=none: site aws-p5en: launchers.srun.binding
# --container-image="$hpcdist_image": pytorch.yml build.image
# --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,FI_EFA_USE_HUGE_PAGE,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS: container pyxis
# torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
# the command: pytorch.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=192 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
  --cpu-bind=none --container-image="$hpcdist_image" \
  --container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR}" --container-workdir="$PWD" \
  --container-env=PYTHONUNBUFFERED,FI_EFA_USE_HUGE_PAGE,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS \
  bash -c "$(declare -f task); task"
