#!/bin/bash
# Made by hpcdist 0.1.0 for site local. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 4 tasks by horovodrun, 1 node' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=local [walltime]=00:10:00
  [launcher]=horovodrun [program]=horovodrun [mode]=tasks [rank]=HOROVOD_RANK [size]=HOROVOD_SIZE [remote_shell]=ssh
  [nodes]=1 [tasks]=4 [tasks_per_node]=4 [hostfile]='%s slots=%s' [threads]=default
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   1    0   0    1       1"
  " worker 0     1    3     1           3        0    1          1   1    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export OMPI_MCA_btl_tcp_if_include=lo
  export OMPI_MCA_oob_tcp_if_include=lo
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'
  export HOROVOD_START_TIMEOUT=300
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  exec horovodrun --gloo -np 4 --hostfile "$HPCDIST_HOSTFILE" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
