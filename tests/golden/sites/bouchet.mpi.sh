#!/bin/bash
#SBATCH --output=mpi-%j.out
#SBATCH --job-name=mpi
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=day
#SBATCH --time=01:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --mem=1013760M
# mpi: 8 tasks by mpirun, 2 nodes, for site bouchet. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.$SLURM_JOB_ID
printf '%s slots=4\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 8)) || fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks, and 8 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-16}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec 5>&2 # where failures are told
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec ./simulate) 5>&-
  code=$?
  if ((code != 0)) && [[ ! $over ]]; then
    echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" >&5
  fi
  return "$code"
}

type -P mpirun >/dev/null || fail "there is no mpirun on $(uname -n); load its module before"
((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # else mpirun refuses
# Tasks on other nodes get the variables that are named.
exports=()
for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV PYTHONUNBUFFERED "${!HPCDIST_@}" "${!POLYAXON_@}"; do
  [[ ! -v $name || $name == HPCDIST_TOKEN || $name == @(OMPI|PRTE)_MCA_* ]] || exports+=(-x "$name")
done

# Start the tasks.
exec mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" --map-by slot --bind-to none "${exports[@]}" \
  bash -c "$(declare -f task); task"
