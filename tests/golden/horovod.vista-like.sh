#!/bin/bash
#SBATCH --output=/scratch/me/runs/horovod-digits-1/logs/job.out
#SBATCH --job-name=horovod-digits
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=gh
#SBATCH --time=00:10:00
#SBATCH --exclusive
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=72
# Made by hpcdist 0.1.0 for site vista-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 4 tasks by ibrun, 4 nodes, 4 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=ibrun [program]=ibrun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1
  [nodes]=4 [tasks]=4 [tasks_per_node]='1(x4)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   72   0   1    1       1"
  " worker 0     1    3     1           1        1    0          0   72   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# What is needed before anything starts.
setup() {
  load_module gcc 'site vista-like: modules'
  load_module cuda 'site vista-like: modules'
  load_module python3 'site vista-like: modules'
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  exec ibrun -n 4 -o 0 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
