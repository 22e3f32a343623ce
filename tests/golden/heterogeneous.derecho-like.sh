#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -o /scratch/me/runs/heterogeneous-1/logs/job.out
#PBS -N heterogeneous
#PBS -A proj
#PBS -q main
#PBS -l select=1:ncpus=28:mpiprocs=3:ngpus=4:gpu_type=a100:mem=65792mb+1:ncpus=8:mpiprocs=2:ngpus=4:gpu_type=a100:mem=57600mb
#PBS -l place=scatter
#PBS -r n
#PBS -k oed
#PBS -V
# Made by hpcdist 0.1.0 for site derecho-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='heterogeneous: 5 tasks by mpirun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/heterogeneous-1
  [scheduler]=pbs [submit_environment]=inherit
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=2 [tasks]=5 [tasks_per_node]='3,2' [hostfile]='%s slots=%s' [threads]=own
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30 [shared_gpus]=1 [gpu_hook]='PBS'"'"'s cgroups hook'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   20   0   0    1       1"
  " worker 0     1    2     1           2        0    1          20  4    0   2    1       1"
  " worker 2     3    2     1           2        1    0          0   4    0   2    1       1"
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.heterogeneous", "experiment_uuid": "heterogeneous", "framework": "pytorch", "user": null}'
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"
  export MASTER_PORT="$HPCDIST_PORT"
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  export WORLD_SIZE="$HPCDIST_SIZE"
  export RANK="$HPCDIST_RANK"
  export LOCAL_RANK="0"
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"
  export NODE_RANK="$HPCDIST_NODE"
}

# What starts them.
launch() {
  exec mpirun -np 5 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
