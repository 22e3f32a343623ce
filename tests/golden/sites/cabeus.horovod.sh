#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# horovod.yml name
#PBS -N horovod
# horovod.yml batch.account
#PBS -W group_list=proj
# site cabeus: partitions.gpu_normal@pbspl4
#PBS -q gpu_normal@pbspl4
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4:model=mil_a100
# site cabeus: whole_nodes
#PBS -l place=scatter:excl
# horovod.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site cabeus: pbs.keep
#PBS -k oed
# site cabeus: environment
#PBS -V
# horovod: 8 tasks by mpirun, 2 nodes, 8 GPUs, for site cabeus. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
export PATH=${PBS_O_PATH:+$PBS_O_PATH:}$PATH # login files of the node reset it, even with -V
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.${PBS_JOBID%%[!0-9]*}
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
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  # Each rank sees all GPUs of its node; its own has the number of its rank there.
  export OMP_NUM_THREADS=16
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

type -P mpirun >/dev/null || fail "there is no mpirun on $(uname -n); load its module before"
((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # else mpirun refuses
# Tasks on other nodes get the variables that are named.
exports=()
for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV PYTHONUNBUFFERED "${!HPCDIST_@}" "${!POLYAXON_@}"; do
  [[ ! -v $name || $name == HPCDIST_TOKEN || $name == @(OMPI|PRTE)_MCA_* ]] || exports+=(-x "$name")
done

# mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE": launcher mpirun
# --prefix "$(dirname "$(dirname "$(type -P mpirun)")")": rule mpirun over ssh
# --map-by slot --bind-to none: launcher mpirun
# "${exports[@]}": variables of the plan
# the command: horovod.yml run.cmd
# Start the tasks.
exec mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot \
  --bind-to none "${exports[@]}" bash -c "$(declare -f task); task"
