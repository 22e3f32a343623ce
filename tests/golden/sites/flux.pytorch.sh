#!/bin/bash
# rule run directory
#flux: --output=/scratch/me/runs/pytorch-1/logs/job.out
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
# Made by hpcdist 0.1.0 for site flux. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 2 tasks by flux, 2 nodes' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=flux [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=flux [mode]=tasks [rank]=FLUX_TASK_RANK [size]=FLUX_JOB_SIZE
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [threads]=default
  [gpus]=hidden [gpu_variable]=CUDA_VISIBLE_DEVICES
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   1    0   0    1       1"
  " worker 0     1    1     1           1        1    0          0   1    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="$HPCDIST_LOCAL_RANK"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # start_flux flux run --nodes=2 --ntasks=2 --cores-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=cpu-affinity=per-task: launcher flux
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  start_flux flux run --nodes=2 --ntasks=2 --cores-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=cpu-affinity=per-task \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
