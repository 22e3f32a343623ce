#!/bin/bash
#SBATCH --output=parameter-servers-%j.out
#SBATCH --job-name=parameter-servers
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=10
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --gres=gpu:a100:2
#SBATCH hetjob
#SBATCH --partition=cpu
#SBATCH --time=00:10:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=500M
# parameter-servers: 4 tasks by srun, 2 nodes, 2 GPUs, for site testbed. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
mapfile -t nodes < <(
  scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0"
  scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1"
)
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
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
# Prints a host for each rank: the first node, how many, and tasks on each.
hosts() {
  local node slot
  for ((node = $1; node < $1 + $2; node++)); do
    for ((slot = 0; slot < $3; slot++)); do echo "${nodes[node]}"; done
  done
}

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
# shellcheck disable=SC2329 # the end of the script sends it
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  local -A tasks=([master]=1 [worker]=2 [ps]=1)
  ((SLURM_NTASKS == tasks[$1])) ||
    fail "srun started $SLURM_NTASKS tasks of $1, and ${tasks[$1]} are needed"
  export HPCDIST_ROLE=$1 HPCDIST_SIZE=4
  if [[ $1 == master ]]; then
    export HPCDIST_RANK=$SLURM_PROCID HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=2 gpu=0 count=0
  elif [[ $1 == worker ]]; then
    export HPCDIST_RANK=$((SLURM_PROCID + 1)) HPCDIST_INDEX=$SLURM_PROCID
    export HPCDIST_LOCAL_RANK=$HPCDIST_RANK HPCDIST_LOCAL_SIZE=3 HPCDIST_NODE=0
    cpus=4 gpu=$((HPCDIST_LOCAL_RANK - 1)) count=1
  elif [[ $1 == ps ]]; then
    export HPCDIST_RANK=$((SLURM_PROCID + 3)) HPCDIST_INDEX=0
    export HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=1
    cpus=1 gpu=0 count=0
  fi
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ $SLURMD_NODENAME == "${nodes[HPCDIST_NODE]}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= gpu + count)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and $((gpu + count)) are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:gpu:count}")
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export TF_CONFIG="{\"cluster\": {\"chief\": [${HPCDIST_PEERS_master#,}], \"worker\": [${HPCDIST_PEERS_worker#,}], \"ps\": [${HPCDIST_PEERS_ps#,}]}, \"task\": {\"type\": \"${HPCDIST_ROLE/master/chief}\", \"index\": $HPCDIST_INDEX}, \"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\"}"
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

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
set -m
begin master srun --overlap --het-group=0 --ntasks=1 --distribution=arbitrary --cpu-bind=none \
  --nodelist=<(hosts 0 1 1) --kill-on-bad-exit=1 --wait=0 --mpi=none bash -c "$(declare -f task); task master"
begin worker srun --overlap --het-group=0 --ntasks=2 --distribution=arbitrary --cpu-bind=none \
  --nodelist=<(hosts 0 1 2) --kill-on-bad-exit=1 --wait=0 --mpi=none bash -c "$(declare -f task); task worker"
begin ps srun --overlap --het-group=1 --ntasks=1 --distribution=arbitrary --cpu-bind=none --nodelist=<(hosts 1 1 1) \
  --kill-on-bad-exit=1 --wait=0 --mpi=none bash -c "$(declare -f task); task ps"
set +m
# The job is over when master ended well, or when one fails.
while :; do
  alive=$(kill -0 "${pids[@]}" 2>/dev/null && echo yes)
  echo - >&4
  while read -r role value <&4 && [[ $role != - ]]; do
    if ((value != 0 && code == 0)) && [[ ! $over ]]; then
      echo "hpcdist: a task of $role was the first to fail, with exit code $value" >&2
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
