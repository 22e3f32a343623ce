#!/bin/bash
# rule run directory
#flux: --output=pytorch-{{id}}.out
# pytorch.yml name
#flux: --job-name=pytorch
# pytorch.yml batch.account
#flux: --bank=proj
# pytorch.yml batch.walltime
#flux: --time-limit=3600s
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#flux: --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#flux: --nslots=2
# site flux: no partitions
#flux: --cores-per-slot=1
# pytorch: 2 tasks by flux, 2 nodes, for site flux. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${FLUX_ENCLOSING_ID:-} ]] || fail "submit this script by flux batch"

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the ranks.
read -ra nodes < <(flux hostlist --expand local)
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"
# The rendezvous address: the first node.
export HPCDIST_HEAD_ADDRESS=${nodes[0]}
# A port below the ephemeral ones; other jobs have others.
export HPCDIST_PORT=$((20000 + $(flux job id --to=dec "$FLUX_ENCLOSING_ID") % 750 * 16))
export MASTER_ADDR=$HPCDIST_HEAD_ADDRESS  # framework pytorch
export MASTER_PORT=$HPCDIST_PORT  # framework pytorch

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
# shellcheck disable=SC2329 # the end of the script sends it
task() {
  fail() { echo "hpcdist: rank ${FLUX_TASK_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((FLUX_JOB_SIZE == 2)) || fail "flux started $FLUX_JOB_SIZE tasks, and 2 are needed"
  export HPCDIST_RANK=$FLUX_TASK_RANK HPCDIST_SIZE=2 HPCDIST_LOCAL_SIZE=1
  export HPCDIST_LOCAL_RANK=0 HPCDIST_NODE=$HPCDIST_RANK
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  export WORLD_SIZE=$HPCDIST_SIZE  # framework pytorch
  export RANK=$HPCDIST_RANK  # framework pytorch
  export LOCAL_RANK=$HPCDIST_LOCAL_RANK  # framework pytorch
  export LOCAL_WORLD_SIZE=$HPCDIST_LOCAL_SIZE  # framework pytorch
  export NODE_RANK=$HPCDIST_NODE  # framework pytorch
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec python train.py)
  code=$?
  if ((code != 0)) && [[ ! $over ]]; then
    echo "hpcdist: rank $HPCDIST_RANK on $(uname -n) failed, with exit code $code" >&2
    sleep 1 # flux run drops what was said in the half second before
  fi
  return "$code"
}

# A signal to flux run would end it and leave its tasks running. Flux itself passes on USR1 and USR2.
# shellcheck disable=SC2329 # the traps call it
signal_tasks() { for id in $(flux jobs -n -f running -o '{id.dec}'); do flux job kill --signal="$1" "$id"; done; }
trap 'signal_tasks TERM' TERM
trap 'signal_tasks HUP' HUP
trap : ALRM USR1 USR2

# flux run --nodes=2 --ntasks=2 --cores-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=cpu-affinity=per-task: launcher flux
# the command: pytorch.yml run.cmd
# Start the tasks.
exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
(
  trap : TERM HUP ALRM USR1 USR2
  flux run --nodes=2 --ntasks=2 --cores-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none \
    --setopt=cpu-affinity=per-task bash -c "$(declare -f task); task" 4>&-
  echo "$?" >&4
) <&0 &
started=$!
while kill -0 "$started" 2>/dev/null; do wait "$started"; done
echo 1 >&4 # the end of one that was killed, and could not tell
read -r code <&4
exit "$code"
