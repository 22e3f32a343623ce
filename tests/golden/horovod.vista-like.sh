#!/bin/bash
#SBATCH --output=horovod-digits-%j.out
#SBATCH --job-name=horovod-digits
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=gh
#SBATCH --time=00:10:00
#SBATCH --exclusive
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=72
# horovod-digits: 4 tasks by ibrun, 4 nodes, 4 GPUs, for site vista-like. Written by hpcdist 0.1.0.

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
module load gcc || fail "'module load gcc' failed (site vista-like: modules) on $(uname -n)"
module load cuda || fail "'module load cuda' failed (site vista-like: modules) on $(uname -n)"
module load python3 || fail "'module load python3' failed (site vista-like: modules) on $(uname -n)"
# Modules 3 returns 0 whatever happens.
[[ ${LMOD_CMD:-}${MODULES_CMD:-} ]] || for name in gcc cuda python3; do
  [[ :${LOADEDMODULES:-}: == *":$name"[:/]* ]] || fail "module $name cannot be loaded on $(uname -n)"
done

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 4)) || fail "this job has ${#nodes[@]} nodes, and 4 are needed"
export HPCDIST_HOSTS="${nodes[*]}"

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 4)) || fail "ibrun started $OMPI_COMM_WORLD_SIZE tasks, and 4 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=4 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 1)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 1 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-72}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python examples/horovod_digits.py --lr=0.02 --epochs=10
}

# Start the tasks.
exec ibrun -n 4 -o 0 bash -c "$(declare -f task); task"
