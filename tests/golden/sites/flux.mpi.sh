#!/bin/bash
#flux: --output=mpi-{{id}}.out
#flux: --job-name=mpi
#flux: --bank=proj
#flux: --time-limit=3600s
#flux: --nodes=2
#flux: --nslots=2
#flux: --cores-per-slot=4
# mpi: 8 tasks by flux, 2 nodes, for site flux. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${FLUX_ENCLOSING_ID:-} ]] || fail "submit this script by flux batch"

export PYTHONUNBUFFERED=1

# The nodes, in the order of the ranks.
read -ra nodes < <(flux hostlist --expand local)
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, and 2 are needed"
export HPCDIST_HOSTS="${nodes[*]}"

# Each task checks its place, sets its variables, and runs the program, with which it gets all signals.
# shellcheck disable=SC2329 # the end of the script sends it
task() {
  fail() { echo "hpcdist: rank ${FLUX_TASK_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((FLUX_JOB_SIZE == 8)) || fail "flux started $FLUX_JOB_SIZE tasks, and 8 are needed"
  export HPCDIST_RANK=$FLUX_TASK_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -r HOSTNAME </proc/sys/kernel/hostname # that of the first node may be passed on
  read -ra nodes <<<"$HPCDIST_HOSTS"
  [[ ${HOSTNAME%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "it belongs on ${nodes[HPCDIST_NODE]}"
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-} # the GPUs of this node, if any, are other jobs'
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
  trap : HUP USR1 USR2 # the program gets them, too
  over='' && trap over=1 TERM
  (exec ./simulate)
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

# Start the tasks.
exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
(
  trap : TERM HUP ALRM USR1 USR2
  flux run --nodes=2 --ntasks=8 --cores-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none \
    --setopt=cpu-affinity=per-task bash -c "$(declare -f task); task" 4>&-
  echo "$?" >&4
) <&0 &
started=$!
while kill -0 "$started" 2>/dev/null; do wait "$started"; done
echo 1 >&4 # the end of one that was killed, and could not tell
read -r code <&4
exit "$code"
