#!/bin/bash
#SBATCH --output=unequal-%j.out
#SBATCH --job-name=unequal
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=16
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --gres=gpu:a100:3
# unequal: 6 tasks by hydra, 2 nodes, 6 GPUs, for site testbed. Written by hpcdist 0.1.0.

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
printf '%s:3\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 6)) || fail "hydra started $PMI_SIZE tasks, and 6 are needed"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=6
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=8 gpu=0 count=1
  elif ((HPCDIST_RANK < 3)); then
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=4 gpu=$HPCDIST_LOCAL_RANK count=1
  else
    export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK - 3)) HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=1
    cpus=4 gpu=$HPCDIST_LOCAL_RANK count=1
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  exec 5>&2 # where failures are told
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec python train.py) 5>&-
  code=$?
  if ((code != 0)) && [[ ! $over ]]; then
    echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" >&5
  fi
  return "$code"
}

type -P mpiexec.hydra >/dev/null || fail "there is no mpiexec.hydra on $(uname -n); load its module before"
# Intel MPI would place tasks by the scheduler's layout, or the login shell's, and bind each to a part of a node.
unset I_MPI_PERHOST
export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=off I_MPI_PIN=${I_MPI_PIN:-off}
# Tasks on other nodes get the variables that are named.
names=()
for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV PYTHONUNBUFFERED "${!HPCDIST_@}" "${!POLYAXON_@}"; do
  [[ ! -v $name || $name == HPCDIST_TOKEN ]] || names+=("$name")
done
exports=$(IFS=, && echo "${names[*]}")

# Start the tasks.
exec mpiexec.hydra -machinefile "$HPCDIST_HOSTFILE" -genvlist "$exports" -bind-to none -n 6 \
  bash -c "$(declare -f task); task"
