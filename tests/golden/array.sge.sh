#!/bin/bash
#$ -S /bin/bash
#$ -cwd
#$ -j y
#$ -o array-$JOB_ID-$TASK_ID.out
#$ -N array
#$ -t 1-8
#$ -tc 2
#$ -hold_jid 4711
#$ -r n
#$ -M me@example.org
#$ -m ae
#$ -V
#$ -pe mpi 4
#$ -l h_rt=36:00:00
# array: 2 tasks by mpirun, 2 nodes, for site sge. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${JOB_ID:-} ]] || fail "submit this script by qsub"
# Launchers start what runs on other hosts by ssh: deleting a job leaves behind what qrsh -inherit started.
export OMPI_MCA_plm_rsh_disable_qrsh=1 HYDRA_LAUNCHER=ssh I_MPI_HYDRA_BOOTSTRAP=ssh

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk -v here="$HOSTNAME" 'BEGIN {print here} $1 != here && !seen[$1]++ {print $1}' "$PE_HOSTFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# The hosts with their numbers of tasks.
export HPCDIST_HOSTFILE=$HPCDIST_RUN_DIR/hostfile.$JOB_ID.$SGE_TASK_ID
printf '%s slots=1\n' "${nodes[@]:0:2}" >"$HPCDIST_HOSTFILE" ||
  fail "cannot write $HPCDIST_HOSTFILE; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((OMPI_COMM_WORLD_SIZE == 2)) || fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks, and 2 are needed"
  export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
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

# Start the tasks.
exec mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot \
  --bind-to none "${exports[@]}" bash -c "$(declare -f task); task"
