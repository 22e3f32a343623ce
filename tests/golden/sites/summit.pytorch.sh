#!/bin/bash
# site summit: lsf.submit
# bsub reads it by its name: bsub job.sh
# rule run directory
#BSUB -o /scratch/me/runs/pytorch-1/logs/lsf.report
# pytorch.yml name
#BSUB -J pytorch
# pytorch.yml batch.account
#BSUB -P proj
# site summit: partitions.batch
#BSUB -q batch
# pytorch.yml batch.walltime
#BSUB -W 1:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#BSUB -nnodes 2
# site summit: lsf.alloc_flags
#BSUB -alloc_flags "gpumps smt4"
# default
#BSUB -rn
# Made by hpcdist 0.1.0 for site summit. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 12 tasks by jsrun, 2 nodes, 12 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=lsf [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=jsrun [program]=jsrun [mode]=tasks [rank]=JSM_NAMESPACE_RANK [size]=JSM_NAMESPACE_SIZE [label]=1 [orders_nodes]=1
  [nodes]=2 [tasks]=12 [tasks_per_node]='6(x2)' [threads]=default
  [gpus]=launcher [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [launch_node]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    6     6           6        0    0          0   7    0   1    1       1"
  " worker 0     6    6     6           6        1    0          0   7    0   1    1       1"
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
  export LOCAL_RANK="0"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1: launcher jsrun
  # --smpiargs=-gpu: site summit: launchers.jsrun.args
  # "${hpcdist_unset[@]}": rule jsrun: OMP_NUM_THREADS is the plan's
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec jsrun --nrs=12 --tasks_per_rs=1 --cpu_per_rs=7 --gpu_per_rs=1 --rs_per_host=6 --launch_distribution=packed --latency_priority=gpu-cpu --bind=packed:7 --exit_on_error=1 --smpiargs=-gpu "${hpcdist_unset[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
