#!/bin/bash
# Made by hpcdist 0.1.0 for site local. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='quickstart: 2 tasks by mpirun, 1 node' [run_dir]=/scratch/me/runs/quickstart-1
  [scheduler]=local [walltime]=00:10:00
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=1 [tasks]=2 [tasks_per_node]=2 [hostfile]='%s slots=%s' [threads]=default
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   1    0   0    1       1"
  " worker 0     1    1     1           1        0    1          1   1    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/quickstart.py --lr=0.1 --epochs=20
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
  export POLYAXON_PARAMS='{"lr": 0.1, "epochs": 20}'
  export POLYAXON_DECLARATIONS='{"lr": 0.1, "epochs": 20}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.quickstart", "experiment_uuid": "quickstart", "framework": "mpi", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  exec mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
