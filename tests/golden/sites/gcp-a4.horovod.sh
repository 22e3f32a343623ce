#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site gcp-a4: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site gcp-a4: partitions.a4high
#SBATCH --partition=a4high
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site gcp-a4: whole_nodes
#SBATCH --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site gcp-a4: partitions.a4high
#SBATCH --cpus-per-task=28
# site gcp-a4: whole_nodes
#SBATCH --mem=0
# site gcp-a4: gpus
#SBATCH --gpus-per-node=8
# horovod: 16 tasks by srun, 2 nodes, 16 GPUs, for site gcp-a4. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

# shellcheck source=/dev/null # the site's own file
if [[ -r /usr/local/gib/scripts/set_nccl_env.sh ]]; then source /usr/local/gib/scripts/set_nccl_env.sh; else fail "there is no /usr/local/gib/scripts/set_nccl_env.sh on $(uname -n)"; fi  # site gcp-a4: source
export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a4: setup

export PYTHONUNBUFFERED=1  # default
# The settings of gcp-a4.
if compgen -G "/usr/local/gib/lib64/libnccl-net*" >/dev/null; then
  export NCCL_NET=gIB  # site gcp-a4: fabric.env.NCCL_NET (if /usr/local/gib/lib64/libnccl-net* is found)
fi
export NCCL_SOCKET_IFNAME=enp0s19,enp192s20  # site gcp-a4: fabric.env.NCCL_SOCKET_IFNAME
export OMPI_MCA_btl_tcp_if_include=enp0s19  # site gcp-a4: fabric.env.OMPI_MCA_btl_tcp_if_include
export PMIX_MCA_gds='^ds12'  # site gcp-a4: fabric.env.PMIX_MCA_gds

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 2 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 16)) || fail "srun started $SLURM_NTASKS tasks, and 16 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=8
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 8)) HPCDIST_NODE=$((HPCDIST_RANK / 8))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  [[ ${PMIX_RANK:-${PMI_RANK:-${PALS_RANKID:-}}} == "$HPCDIST_RANK" ]] ||
    fail "srun gave no PMI: each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 8)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 8 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-28}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec python train.py
}

# srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=28 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site gcp-a4: launchers.srun.mpi
# the command: horovod.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=28 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task"
