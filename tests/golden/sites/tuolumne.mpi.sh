#!/bin/bash
#flux: --output=mpi-{{id}}.out
#flux: --job-name=mpi
#flux: --bank=proj
#flux: --queue=pbatch
#flux: --time-limit=3600s
#flux: --exclusive
#flux: --nodes=2
#flux: --nslots=2
#flux: --cores-per-slot=84
# Made by hpcdist 0.1.0 for site tuolumne. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='mpi: 8 tasks by flux, 2 nodes'
  [scheduler]=flux [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=flux [mode]=tasks [rank]=FLUX_TASK_RANK [size]=FLUX_JOB_SIZE
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [threads]=default
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   21   0   0    1       1"
  " worker 0     1    3     1           3        0    1          21  21   0   0    1       1"
  " worker 3     4    4     1           4        1    0          0   21   0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
./simulate
COMMAND
}

# What is needed before anything starts.
setup() {
  export LD_LIBRARY_PATH="${CRAY_LD_LIBRARY_PATH:+$CRAY_LD_LIBRARY_PATH:}${LD_LIBRARY_PATH:-}"
  export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}/MIOpen_user_db" MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}/MIOpen_custom_cache"
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export FI_MR_CACHE_MONITOR=userfaultfd
  export FI_CXI_DEFAULT_TX_SIZE=1024
  export FI_CXI_DISABLE_HOST_REGISTER=1
  export FI_CXI_DEFAULT_CQ_SIZE=131072
  export FI_CXI_RX_MATCH_MODE=hybrid
  export PYTORCH_MIOPEN_SUGGEST_NHWC=1
  export PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM=1
  export TENSILE_SOLUTION_SELECTION_METHOD=2
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{}'
  export POLYAXON_DECLARATIONS='{}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.mpi", "experiment_uuid": "mpi", "framework": "mpi", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  start_flux flux run --nodes=2 --ntasks=8 --cores-per-task=21 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=cpu-affinity=per-task --setopt=mpibind=off --setopt=fastload=on \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
