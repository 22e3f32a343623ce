#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site gcp-a4x: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site gcp-a4x: partitions.a4x
#SBATCH --partition=a4x
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site gcp-a4x: whole_nodes
#SBATCH --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site gcp-a4x: partitions.a4x
#SBATCH --cpus-per-task=35
# site gcp-a4x: whole_nodes
#SBATCH --mem=0
# site gcp-a4x: gpus
#SBATCH --gpus-per-node=4
# horovod: 8 tasks by srun, 2 nodes, 8 GPUs, for site gcp-a4x. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

# shellcheck source=/dev/null # the site's own file
if [[ -r /usr/local/gib/scripts/set_nccl_env.sh ]]; then source /usr/local/gib/scripts/set_nccl_env.sh; else fail "there is no /usr/local/gib/scripts/set_nccl_env.sh on $(uname -n)"; fi  # site gcp-a4x: source
export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a4x: setup

export PYTHONUNBUFFERED=1  # default
# The settings of gcp-a4x.
if compgen -G "/usr/local/gib/lib64/libnccl-net*" >/dev/null; then
  export NCCL_NET=gIB  # site gcp-a4x: fabric.env.NCCL_NET (if /usr/local/gib/lib64/libnccl-net* is found)
fi
export NCCL_SOCKET_IFNAME=enp0s3,enp192s2  # site gcp-a4x: fabric.env.NCCL_SOCKET_IFNAME
export OMPI_MCA_btl_tcp_if_include=enp0s3,enp192s2  # site gcp-a4x: fabric.env.OMPI_MCA_btl_tcp_if_include
export PMIX_MCA_gds='^ds12'  # site gcp-a4x: fabric.env.PMIX_MCA_gds
export PMIX_MCA_psec=native  # site gcp-a4x: fabric.env.PMIX_MCA_psec
export UCX_NET_DEVICES=gpu0rdma0,gpu1rdma0,gpu2rdma0,gpu3rdma0  # site gcp-a4x: fabric.env.UCX_NET_DEVICES
export UCX_IB_FORK_INIT=n  # site gcp-a4x: fabric.env.UCX_IB_FORK_INIT

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 2 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-35}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=35 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site gcp-a4x: launchers.srun.mpi
# the command: horovod.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=35 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
