#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -N parameter-servers
#PBS -W group_list=proj
#PBS -q gpu_normal@pbspl4
#PBS -l select=1:ncpus=10:mpiprocs=3:ngpus=2:model=mil_a100+1:ncpus=1:mpiprocs=1:model=rom_ait
#PBS -l place=scatter:excl
#PBS -r n
#PBS -k oed
#PBS -W umask=027
# parameter-servers: 4 tasks by mpirun, 2 nodes, 2 GPUs, for site cabeus-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${PBS_JOBID:-} ]] || fail "submit this script by qsub"
cd "$PBS_O_WORKDIR" || fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?"
unset OMP_NUM_THREADS NCPUS # PBS's are those of a whole chunk

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(awk '!seen[$0]++' "$PBS_NODEFILE")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
for name in "${nodes[@]:0:1}"; do
  (($(grep -cxF -- "$name" "$PBS_NODEFILE") == 3)) || fail "PBS has not 3 tasks on $name, where the plan has them"
done
for name in "${nodes[@]:1:1}"; do
  (($(grep -cxF -- "$name" "$PBS_NODEFILE") == 1)) || fail "PBS has not 1 tasks on $name, where the plan has them"
done
export HPCDIST_HOSTS="${nodes[*]}"
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + ${PBS_JOBID%%[!0-9]*} % 750 * 16))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}
export HPCDIST_OUTPUTS=${HPCDIST_OUTPUTS:-$HPCDIST_RUN_DIR/outputs}
mkdir -p "$HPCDIST_OUTPUTS" || fail "cannot make $HPCDIST_OUTPUTS; is the disk full?"

# Prints "host:port" of tasks: their first node, nodes, tasks on a node, and the number of the first there.
peers() {
  local node slot
  for ((node = $1; node < $1 + $2; node++)); do
    for ((slot = $4; slot < $4 + $3; slot += ${5:-1})); do
      printf ',"%s:%s"' "${nodes[node]}" "$((HPCDIST_PORT + slot))"
    done
  done
}
export HPCDIST_PEERS_master && HPCDIST_PEERS_master=$(peers 0 1 1 0)
export HPCDIST_PEERS_worker && HPCDIST_PEERS_worker=$(peers 0 1 2 1)
export HPCDIST_PEERS_ps && HPCDIST_PEERS_ps=$(peers 1 1 1 0)
# The hosts with their numbers of tasks.
hostfile_master=$HPCDIST_RUN_DIR/hostfile.master.${PBS_JOBID%%[!0-9]*}
printf '%s slots=1\n' "${nodes[@]:0:1}" >"$hostfile_master" ||
  fail "cannot write $hostfile_master; is the disk full?"
# The hosts with their numbers of tasks of a role.
hostfile_worker=$HPCDIST_RUN_DIR/hostfile.worker.${PBS_JOBID%%[!0-9]*}
printf '%s slots=2\n' "${nodes[@]:0:1}" >"$hostfile_worker" ||
  fail "cannot write $hostfile_worker; is the disk full?"
# The hosts with their numbers of tasks of a role.
hostfile_ps=$HPCDIST_RUN_DIR/hostfile.ps.${PBS_JOBID%%[!0-9]*}
printf '%s slots=1\n' "${nodes[@]:1:1}" >"$hostfile_ps" ||
  fail "cannot write $hostfile_ps; is the disk full?"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
# shellcheck disable=SC2329 # the end of the script sends it
task() {
  fail() { echo "hpcdist: rank ${OMPI_COMM_WORLD_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  local -A tasks=([master]=1 [worker]=2 [ps]=1)
  ((OMPI_COMM_WORLD_SIZE == tasks[$1])) ||
    fail "mpirun started $OMPI_COMM_WORLD_SIZE tasks of $1, and ${tasks[$1]} are needed"
  export HPCDIST_ROLE=$1 HPCDIST_SIZE=4
  if [[ $1 == master ]]; then
    export HPCDIST_RANK=$OMPI_COMM_WORLD_RANK HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=2 gpu=0 count=0
  elif [[ $1 == worker ]]; then
    export HPCDIST_RANK=$((OMPI_COMM_WORLD_RANK + 1)) HPCDIST_INDEX=$OMPI_COMM_WORLD_RANK
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=4 gpu=$((HPCDIST_LOCAL_RANK - 1)) count=1
  elif [[ $1 == ps ]]; then
    export HPCDIST_RANK=$((OMPI_COMM_WORLD_RANK + 3)) HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=1
    cpus=1 gpu=0 count=0
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:gpu:count}")
  export OMP_NUM_THREADS=$cpus
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export TF_CONFIG="{\"cluster\": {\"chief\": [${HPCDIST_PEERS_master#,}], \"worker\": [${HPCDIST_PEERS_worker#,}], \"ps\": [${HPCDIST_PEERS_ps#,}]}, \"task\": {\"type\": \"${HPCDIST_ROLE/master/chief}\", \"index\": $HPCDIST_INDEX}, \"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\"}"
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
# Starts one role's tasks as a group of processes, whose role and exit code are told at its end.
begin() {
  (
    trap : TERM HUP USR1 USR2 # the program gets them, too
    "${@:2}" 4>&-
    echo "$1 $?" >&4
  ) <&0 &
  pids+=("$!")
}
end_all() { kill -s TERM -- "${pids[@]/#/-}" 2>/dev/null; }

pids=() code=0 over='' left=1
exec 4<> <(:) # bash itself may lose an exit code when a signal comes
for name in TERM HUP USR1 USR2; do
  # shellcheck disable=SC2064 # the signal's name is that of now
  trap "kill -s $name -- \${pids[*]/#/-} 2>/dev/null" "$name"
done
set -m
begin master mpirun -np 1 --hostfile "$hostfile_master" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" \
  --map-by slot --bind-to none "${exports[@]}" bash -c "$(declare -f task); task master"
begin worker mpirun -np 2 --hostfile "$hostfile_worker" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" \
  --map-by slot --bind-to none "${exports[@]}" bash -c "$(declare -f task); task worker"
begin ps mpirun -np 1 --hostfile "$hostfile_ps" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot \
  --bind-to none "${exports[@]}" bash -c "$(declare -f task); task ps"
set +m
# The job is over when master ended well, or when one fails.
while :; do
  alive=$(kill -0 "${pids[@]}" 2>/dev/null && echo yes)
  echo - >&4
  while read -r role value <&4 && [[ $role != - ]]; do
    if ((value != 0 && code == 0)) && [[ ! $over ]]; then
      code=$value over=1 && end_all
    fi
    if [[ $role == @(master) ]] && ((--left == 0)); then
      [[ $over ]] || echo "hpcdist: master ended well; ending those that served"
      over=1 && end_all
    fi
  done
  [[ $alive ]] || break
  wait -n
done
[[ $over ]] || code=1 # one was killed, and could not tell
exit "$code"
