#!/bin/bash
#SBATCH --output=mpi-%j.out
#SBATCH --job-name=mpi
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=batch
#SBATCH --time=01:00:00
#SBATCH --exclusive
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=14
# mpi: 8 tasks by srun, 2 nodes, for site frontier. Written by hpcdist 0.1.0.

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
module load PrgEnv-gnu/8.7.0 || fail "'module load PrgEnv-gnu/8.7.0' failed (site frontier: modules) on $(uname -n)"
module load cpe/26.03 || fail "'module load cpe/26.03' failed (site frontier: modules) on $(uname -n)"
module load rocm/7.1.1 || fail "'module load rocm/7.1.1' failed (site frontier: modules) on $(uname -n)"
module load craype-accel-amd-gfx90a || fail "'module load craype-accel-amd-gfx90a' failed (site frontier: modules) on $(uname -n)"
export LD_LIBRARY_PATH="$CRAY_LD_LIBRARY_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export MIOPEN_USER_DB_PATH="/tmp/$USER-miopen-$SLURM_JOB_ID" MIOPEN_CUSTOM_CACHE_DIR="/tmp/$USER-miopen-$SLURM_JOB_ID"
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} ]] || for name in PrgEnv-gnu/8.7.0 cpe/26.03 rocm/7.1.1 craype-accel-amd-gfx90a; do
  [[ :${LOADEDMODULES:-}: == *":$name"[:/]* ]] || fail "module $name cannot be loaded on $(uname -n)"
done

export PYTHONUNBUFFERED=1
# The settings of frontier; `hpcdist render --annotate` shows where each comes from.
export HSA_FORCE_FINE_GRAIN_PCIE=1 FI_MR_CACHE_MONITOR=kdreg2 FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_DEFAULT_CQ_SIZE=131072 FI_CXI_DEFAULT_TX_SIZE=2048 FI_CXI_RX_MATCH_MODE=hybrid

((SLURM_JOB_NUM_NODES == 2)) || fail "this job has $SLURM_JOB_NUM_NODES nodes, and 2 are needed"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 8)) || fail "srun started $SLURM_NTASKS tasks, and 8 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-14}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  mkdir -p "$MIOPEN_USER_DB_PATH"
  exec ./simulate
}

# Start the tasks.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=14 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=cray_shasta --gpu-bind=closest bash -c "$(declare -f task); task"
