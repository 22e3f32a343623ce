#!/bin/bash
#SBATCH --output=/scratch/me/runs/own-mpirun-1/logs/job.out
#SBATCH --job-name=own-mpirun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --mem=2000M
#SBATCH --gres=gpu:a100:4
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='own-mpirun: 8 tasks by the command, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/own-mpirun-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=once [mode]=once
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [hostfile]='%s slots=%s'
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   4    0   1    1       1"
  " worker 0     1    3     1           3        0    1          4   4    1   1    1       1"
  " worker 3     4    4     1           4        1    0          0   4    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" -x NCCL_DEBUG=INFO python train.py
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.own-mpirun", "experiment_uuid": "own-mpirun", "framework": "horovod", "user": null}'
}

# What starts them.
launch() {
  exec \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
