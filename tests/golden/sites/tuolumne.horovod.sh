#!/bin/bash
# rule run directory
#flux: --output=horovod-{{id}}.out
# horovod.yml name
#flux: --job-name=horovod
# horovod.yml batch.account
#flux: --bank=proj
# site tuolumne: partitions.pbatch
#flux: --queue=pbatch
# horovod.yml batch.walltime
#flux: --time-limit=3600s
# site tuolumne: whole_nodes
#flux: --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#flux: --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#flux: --nslots=2
# site tuolumne: partitions.pbatch
#flux: --cores-per-slot=84
# site tuolumne: gpus
#flux: --setopt=gpu-affinity=off
# site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off
#flux: --setattr=rdzv_get_en=0
# horovod: 8 tasks by flux, 2 nodes, 8 GPUs, for site tuolumne. Written by hpcdist 0.1.0.

set +efu +o pipefail # undo options that the login shell may have exported as SHELLOPTS
fail() { echo "hpcdist: $*" >&2; exit 86; } # a check of this script has failed

[[ ${FLUX_ENCLOSING_ID:-} ]] || fail "submit this script by flux batch"

export LD_LIBRARY_PATH="${CRAY_LD_LIBRARY_PATH:+$CRAY_LD_LIBRARY_PATH:}${LD_LIBRARY_PATH:-}"  # site tuolumne: setup
export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}/MIOpen_user_db" MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}/MIOpen_custom_cache"  # site tuolumne: setup

export PYTHONUNBUFFERED=1  # default
# The settings of tuolumne.
# shellcheck disable=SC2086 # these are folders
if find ${LD_LIBRARY_PATH//:/ } /dev/null -maxdepth 1 -name librccl-net.so 2>/dev/null | grep -q .; then
  export NCCL_NET_PLUGIN=librccl-net.so  # site tuolumne: fabric.env.NCCL_NET_PLUGIN (if librccl-net.so is found)
fi
export NCCL_NET_GDR_LEVEL=3  # site tuolumne: fabric.env.NCCL_NET_GDR_LEVEL
export NCCL_MIN_NCHANNELS=24  # site tuolumne: fabric.env.NCCL_MIN_NCHANNELS
export NCCL_CROSS_NIC=1  # site tuolumne: fabric.env.NCCL_CROSS_NIC
export NCCL_SOCKET_IFNAME=hsi0  # site tuolumne: fabric.env.NCCL_SOCKET_IFNAME
export FI_MR_CACHE_MONITOR=userfaultfd  # site tuolumne: fabric.env.FI_MR_CACHE_MONITOR
export FI_CXI_DEFAULT_TX_SIZE=1024  # site tuolumne: fabric.env.FI_CXI_DEFAULT_TX_SIZE
export FI_CXI_DISABLE_HOST_REGISTER=1  # site tuolumne: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
export FI_CXI_DEFAULT_CQ_SIZE=131072  # site tuolumne: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
export FI_CXI_RX_MATCH_MODE=hybrid  # site tuolumne: fabric.env.FI_CXI_RX_MATCH_MODE
export PYTORCH_MIOPEN_SUGGEST_NHWC=1  # site tuolumne: fabric.env.PYTORCH_MIOPEN_SUGGEST_NHWC
export PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM=1  # site tuolumne: fabric.env.PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM
export TENSILE_SOLUTION_SELECTION_METHOD=2  # site tuolumne: fabric.env.TENSILE_SOLUTION_SELECTION_METHOD
export FI_CXI_RDZV_PROTO=alt_read  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_EAGER_SIZE=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_THRESHOLD=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
export FI_CXI_RDZV_GET_MIN=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)

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
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-}"
  ((${#gpus[@]} >= 1)) ||
    fail "it sees ${#gpus[@]} GPUs (CUDA_VISIBLE_DEVICES), and 1 are needed"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-21}
  # Raise the soft limits of open files and pinned memory, which NCCL and RDMA need.
  ulimit -S -n hard
  ulimit -S -l hard
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

# flux run --nodes=2 --ntasks=8 --cores-per-task=21 --gpus-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none: launcher flux
# --setopt=gpu-affinity=per-task: site tuolumne: gpus.bound_by
# --setopt=cpu-affinity=per-task: site tuolumne: launchers.flux.binding
# --setopt=mpibind=off --setopt=fastload=on: site tuolumne: launchers.flux.args
# the command: horovod.yml run.cmd
# Start the tasks.
exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
(
  trap : TERM HUP ALRM USR1 USR2
  flux run --nodes=2 --ntasks=8 --cores-per-task=21 --gpus-per-task=1 --label-io --setopt=exit-on-error \
    --setopt=exit-timeout=none --setopt=gpu-affinity=per-task --setopt=cpu-affinity=per-task --setopt=mpibind=off \
    --setopt=fastload=on bash -c "$(declare -f task); task" 4>&-
  echo "$?" >&4
) <&0 &
started=$!
while kill -0 "$started" 2>/dev/null; do wait "$started"; done
echo 1 >&4 # the end of one that was killed, and could not tell
read -r code <&4
exit "$code"
