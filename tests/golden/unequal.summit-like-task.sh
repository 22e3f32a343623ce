#!/bin/bash
# bsub reads it by its name: bsub job.sh
#BSUB -o /scratch/me/runs/unequal-1/logs/lsf.report
#BSUB -J unequal
#BSUB -P proj
#BSUB -q batch
#BSUB -W 0:30
#BSUB -nnodes 1
#BSUB -alloc_flags "gpumps smt4"
#BSUB -rn
# Made by hpcdist 0.1.0 for site summit-like-task. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='unequal: 6 tasks by jsrun, 1 node, 6 GPUs' [run_dir]=/scratch/me/runs/unequal-1
  [scheduler]=lsf [submit_environment]=inherit [walltime]=00:30:00
  [launcher]=jsrun [program]=jsrun [mode]=tasks [rank]=JSM_NAMESPACE_RANK [size]=JSM_NAMESPACE_SIZE [label]=1
  [nodes]=1 [tasks]=6 [tasks_per_node]=6 [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [launch_node]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   8    0   1    1       1"
  " worker 0     1    5     1           5        0    1          8   4    1   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{}'
  export POLYAXON_DECLARATIONS='{}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.unequal", "experiment_uuid": "unequal", "framework": "mpi", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  exec jsrun --erf_input="$(resource_file 4 allow)" --exit_on_error=1 --smpiargs=-gpu "${hpcdist_unset[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
