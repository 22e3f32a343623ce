#!/bin/bash
#flux: --output=packed-{{id}}.out
#flux: --job-name=packed
#flux: --bank=proj
#flux: --queue=pbatch
#flux: --time-limit=7200s
#flux: --exclusive
#flux: --nodes=4
#flux: --nslots=4
#flux: --cores-per-slot=96
#flux: --setopt=gpu-affinity=off
#flux: --setattr=rdzv_get_en=0
# packed: 200 trials, 16 at once by flux, 4 nodes, 16 GPUs, for site tuolumne-like. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${FLUX_ENCLOSING_ID:-} ]] || fail "submit this script by flux batch"
# Each trial has its program and variables of a table of the run.
[[ ${HPCDIST_PYTHON:-} ]] || fail "only 'hpcdist submit' starts a search; 'hpcdist render --trial N' prints the script of a trial"

export PYTHONUNBUFFERED=1
# The settings of tuolumne-like; `hpcdist render --annotate` shows where each comes from.
export NCCL_NET_GDR_LEVEL=3 NCCL_MIN_NCHANNELS=24 NCCL_CROSS_NIC=1 NCCL_SOCKET_IFNAME=hsi0 GLOO_SOCKET_IFNAME=hsi0

# The nodes, in the order of the ranks.
read -ra nodes < <(flux hostlist --expand local)
((${#nodes[@]} == 4)) || fail "this job has ${#nodes[@]} nodes, and 4 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + $(flux job id --to=dec "$FLUX_ENCLOSING_ID") % 187 * 64))
export HPCDIST_RUN_DIR=${HPCDIST_RUN_DIR:-$PWD}

# What a worker runs for each trial, which is a job of one task.
# shellcheck disable=SC2329 # the worker gets its text
trial() {
  fail() { echo "hpcdist: trial $HPCDIST_TRIAL on $(uname -n): $*" >&2; exit 86; }
  export HPCDIST_RANK=0 HPCDIST_SIZE=1 HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0
  export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS MASTER_PORT=$HPCDIST_PORT
  eval "${HPCDIST_VARIABLES:-}" # the trial's own
  export WORLD_SIZE=$HPCDIST_SIZE RANK=$HPCDIST_RANK LOCAL_RANK=0 LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE
  export NODE_RANK=$HPCDIST_NODE
  exec bash -c "$HPCDIST_PROGRAM"
}

# Each task checks its place, sets its variables, and execs a worker, which runs one trial after another.
# shellcheck disable=SC2329 # the end of the script sends it
task() {
  fail() { echo "hpcdist: rank ${FLUX_TASK_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((FLUX_JOB_SIZE == 16)) || fail "flux started $FLUX_JOB_SIZE tasks, and 16 are needed"
  export HPCDIST_RANK=$FLUX_TASK_RANK HPCDIST_SIZE=16 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export HPCDIST_ADDRESS=${nodes[HPCDIST_NODE]}
  mapfile -t gpus < <(compgen -G "/dev/dri/renderD*") && gpus=("${!gpus[@]}")
  [[ ! -v ROCR_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$ROCR_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) ||
    fail "it sees ${#gpus[@]} GPUs (ROCR_VISIBLE_DEVICES), and 4 are needed on its node"
  export ROCR_VISIBLE_DEVICES=${gpus[HPCDIST_LOCAL_RANK]}
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-24}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export HPCDIST_HEAD_ADDRESS=$HPCDIST_ADDRESS
  export HPCDIST_PORT=$((HPCDIST_PORT + 16 * HPCDIST_LOCAL_RANK))
  exec "$HPCDIST_PYTHON" -ISB "$HPCDIST_RUN_DIR/runtime/packed.py" "$1"
}

unset CUDA_VISIBLE_DEVICES # Flux's are those of the first node, and HIP would use them
# A signal to flux run would end it and leave its tasks running. Flux itself passes on USR1 and USR2.
# shellcheck disable=SC2329 # the traps call it
signal_tasks() { for id in $(flux jobs -n -f running -o '{id.dec}'); do flux job kill --signal="$1" "$id"; done; }
trap 'signal_tasks TERM' TERM
trap 'signal_tasks HUP' HUP
trap : ALRM USR1 USR2

# Start the tasks.
exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
(
  trap : TERM HUP ALRM USR1 USR2
  flux run --nodes=4 --ntasks=16 --cores-per-task=24 --setopt=exit-on-error --setopt=exit-timeout=none \
    --setopt=gpu-affinity=off --setopt=cpu-affinity=per-task --setopt=mpibind=off \
    bash -c "$(declare -f task); task \"\$1\"" task "$(declare -f trial); trial" 4>&-
  echo "$?" >&4
) <&0 &
started=$!
while kill -0 "$started" 2>/dev/null; do wait "$started"; done
echo 1 >&4 # the end of one that was killed, and could not tell
read -r code <&4
exit "$code"
