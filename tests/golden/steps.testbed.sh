#!/bin/bash
# rule run directory
#SBATCH --output=steps-%j.out
# steps.yml name
#SBATCH --job-name=steps
# default
#SBATCH --no-requeue
# site testbed: environment
#SBATCH --export=ALL
# steps.yml batch.account
#SBATCH --account=proj
# site testbed: partitions.gpu
#SBATCH --partition=gpu
# steps.yml batch.walltime
#SBATCH --time=01:00:00
# site testbed: partitions.gpu
#SBATCH --constraint=a100
# site testbed: partitions.gpu
#SBATCH --nodes=2
# site testbed: partitions.gpu
#SBATCH --ntasks-per-node=2
# site testbed: partitions.gpu
#SBATCH --cpus-per-task=4
# site testbed: partitions.gpu
#SBATCH --mem=1000M
# site testbed: gpus
#SBATCH --gres=gpu:a100:4
# steps: 4 tasks by srun, 2 nodes, 8 GPUs, for site testbed. Written by hpcdist 0.1.0.
# Only `hpcdist submit` also runs rm -rf -- "${HPCDIST_STAGE:?}" && mkdir -p -m 700 -- "${HPCDIST_STAGE:?}" (before,
# node).
# Only `hpcdist submit` also runs stage_broadcast /proj/data/imagenet.tar "${HPCDIST_STAGE:?}"/.hpcdist.imagenet.tar
# (before, job).
# Only `hpcdist submit` also runs stage_unpack /proj/data/imagenet.tar "${HPCDIST_STAGE:?}"/.hpcdist.imagenet.tar
# "${HPCDIST_STAGE:?}" (before, node).
# Only `hpcdist submit` also runs nvidia-smi -L || exit 1 (before, node).
# Only `hpcdist submit` also runs nvidia-smi dmon -d 10 (beside, node).
# Only `hpcdist submit` also runs echo "it ended with $HPCDIST_EXIT_CODE" (after, job).
# Only `hpcdist submit` also runs rm -rf -- "${HPCDIST_STAGE:?}" (after, node).

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${SLURM_JOB_ID:-} ]] || fail "submit this script by sbatch"
# Clear variables of the submitting shell, and of sbatch, that srun would read as options.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default
# The settings of testbed.
export GLOO_SOCKET_IFNAME=eth0  # site testbed: fabric.interface

# The nodes, in the order of the ranks.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + SLURM_JOB_ID % 750 * 16))
export HPCDIST_JOB_ID=${HPCDIST_JOB_ID:-$SLURM_JOB_ID}
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch
export HPCDIST_STAGE="/tmp/hpcdist-$HPCDIST_JOB_ID"  # site testbed: node_local

# The experiment's commands.
IFS= read -rd '' commands <<'COMMAND'
trap 'exit $(($? ? $? : 143))' TERM INT HUP
trap : USR1 USR2
case "$HPCDIST_ROLE $HPCDIST_INDEX" in
"worker 2")
python serve.py
;;
*)
python train.py --data "$HPCDIST_STAGE/imagenet"
;;
esac
COMMAND
[[ $commands ]] || fail "bash cannot write them to ${TMPDIR:-/tmp}; is the disk full?" # before 5.1

# Each task checks its place, sets its variables, and execs the program, which gets all signals.
task() {
  fail() { echo "hpcdist: rank ${SLURM_PROCID:-?} on $(uname -n): $*" >&2; exit 86; }
  ((SLURM_NTASKS == 4)) || fail "srun started $SLURM_NTASKS tasks, and 4 are needed"
  export HPCDIST_RANK=$SLURM_PROCID HPCDIST_SIZE=4 HPCDIST_LOCAL_SIZE=2
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 2)) HPCDIST_NODE=$((HPCDIST_RANK / 2))
  if ((HPCDIST_RANK < 1)); then
    export HPCDIST_ROLE=master HPCDIST_INDEX=0
  elif ((HPCDIST_RANK < 2)); then
    export HPCDIST_ROLE=worker HPCDIST_INDEX=0
  elif ((HPCDIST_RANK < 3)); then
    export HPCDIST_ROLE=worker HPCDIST_INDEX=1
  else
    export HPCDIST_ROLE=worker HPCDIST_INDEX=2
  fi
  ((SLURM_NODEID == HPCDIST_NODE)) || fail "it is on node $SLURM_NODEID of the job, and belongs on $HPCDIST_NODE"
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 4 are needed on its node"
  export CUDA_VISIBLE_DEVICES && CUDA_VISIBLE_DEVICES=$(IFS=, && echo "${gpus[*]:HPCDIST_LOCAL_RANK * 2:2}")
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=0  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  # Slurm's proctrack/cgroup signals this shell alone, in the group of a job; else all processes have the signal already.
  told=
  alone=$(grep -E '^[0-9]+:(freezer)?:.*/job_' /proc/self/cgroup)
  # shellcheck disable=SC2329 # the traps call it
  pass_on() {
    local shell below
    [[ $alone ]] || return
    until read -r shell <"/proc/$started/task/$started/children"; [[ $shell ]]; do
      kill -0 "$started" || return # it is over, or begins
      sleep 0.1
    done 2>/dev/null
    read -r below <"/proc/${shell% }/task/${shell% }/children"
    # shellcheck disable=SC2086 # these are words
    kill -s "$1" $shell $below
    [[ $1 != TERM ]] || told+=" $below"
  }
  exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
  started=
  trap 'pass_on TERM' TERM
  trap 'pass_on HUP' HUP
  trap 'pass_on USR1' USR1
  trap 'pass_on USR2' USR2
  (
    trap : TERM HUP USR1 USR2 # the program gets them, too
    bash -c "$1" 4>&-
    echo "$?" >&4
  ) <&0 &
  started=$!
  while kill -0 "$started" 2>/dev/null; do wait "$started"; done
  # A shell may end before what it has started, which Slurm would kill with this one.
  # shellcheck disable=SC2086 # these are words
  while kill -0 $told 2>/dev/null; do sleep 0.1; done
  echo 1 >&4 # the end of one that was killed, and could not tell
  read -r code <&4
  return "$code"
}

# srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=4 --distribution=plane=2 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
# --mpi=pmix: site testbed: launchers.srun.mpi
# the command: steps.yml run.cmd
# Start the tasks.
srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=4 --distribution=plane=2 --kill-on-bad-exit=1 --wait=0 \
  --label --mpi=pmix bash -c "$(declare -f task); task \"\$1\"" task "$commands"
