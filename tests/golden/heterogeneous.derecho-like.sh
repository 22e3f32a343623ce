#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -N heterogeneous
#PBS -A proj
#PBS -q main
#PBS -l select=1:ncpus=28:mpiprocs=3:ngpus=4:gpu_type=a100:mem=65792mb+1:ncpus=8:mpiprocs=2:ngpus=4:gpu_type=a100:mem=57600mb
#PBS -l place=scatter
#PBS -r n
#PBS -k oed
#PBS -V
# heterogeneous: 5 tasks by mpirun, 2 nodes, 8 GPUs, for site derecho-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
for name in "${nodes[@]:0:1}"; do
  (($(grep -cxF -- "$name" "$PBS_NODEFILE") == 3)) || fail "PBS has not 3 tasks on $name, where the plan has them"
done
for name in "${nodes[@]:1:1}"; do
  (($(grep -cxF -- "$name" "$PBS_NODEFILE") == 2)) || fail "PBS has not 2 tasks on $name, where the plan has them"
done
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + ${PBS_JOBID%%[!0-9]*} % 750 * 16))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS MASTER_PORT=$HPCDIST_PORT

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}
{
  printf '%s slots=3\n' "${nodes[@]:0:1}"
  printf '%s slots=2\n' "${nodes[@]:1:1}"
} >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 5)) || fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks, and 5 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=5
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=20 gpu=0 count=0
  elif ((HPCDIST_RANK < 3)); then
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=4 gpu=$(((HPCDIST_LOCAL_RANK - 1) * 2)) count=2
  else
    export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK - 3)) HPCDIST_LOCAL_SIZE=2 HPCDIST_NODE=1
    cpus=4 gpu=$((HPCDIST_LOCAL_RANK * 2)) count=2
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  [[ -v CUDA_VISIBLE_DEVICES ]] || ((${#gpus[@]} == gpu + count)) ||
    fail "the job has $((gpu + count)) of ${#gpus[@]} GPUs here, and nothing says which: ask for all, or for whole nodes"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:gpu:count}")
  export OMP_NUM_THREADS=$cpus
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE RANK=$HPCDIST_RANK LOCAL_RANK=0 LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE
  export NODE_RANK=$HPCDIST_NODE
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

type -P mpirun >/dev/null || fail "there is no mpirun on $(uname -n); load its module before"
((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # else mpirun refuses
# Tasks on other nodes get the variables that are named.
exports=()
for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV PYTHONUNBUFFERED MASTER_ADDR MASTER_PORT "${!HPCDIST_@}" "${!POLYAXON_@}"; do
  [[ ! -v $name || $name == HPCDIST_TOKEN || $name == @(OMPI|PRTE)_MCA_* ]] || exports+=(-x "$name")
done

# Start the tasks.
exec mpirun -np 5 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot \
  --bind-to none "${exports[@]}" bash -c "$(declare -f task); task"
