#!/bin/bash
#SBATCH --output=/scratch/me/runs/parameter-servers-1/logs/job.out
#SBATCH --job-name=parameter-servers
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=10
#SBATCH --cpus-per-task=1
#SBATCH --mem=1500M
#SBATCH --gres=gpu:a100:2
#SBATCH hetjob
#SBATCH --partition=cpu
#SBATCH --time=00:10:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=500M
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='parameter-servers: 4 tasks by srun, 2 nodes, 2 GPUs' [run_dir]=/scratch/me/runs/parameter-servers-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=4 [tasks_per_node]='3,1' [components]='1 1' [uneven]=0 [threads]=default
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [required_roles]=master [required_tasks]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   2    0   0    1       1"
  " worker 0     1    2     1           2        0    1          2   4    0   1    1       1"
  " ps     0     3    1     1           1        1    0          0   1    0   0    1       1"
)

# The command.
program() {
  write_program <<<'python train.py'
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.parameter-servers", "experiment_uuid": "parameter-servers", "framework": "tensorflow", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  export TF_CONFIG="{\"cluster\": {\"chief\": [$(peers master)], \"worker\": [$(peers worker)], \"ps\": [$(peers ps)]}, \"task\": {\"type\": \"${HPCDIST_ROLE/master/chief}\", \"index\": $HPCDIST_INDEX}, \"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\"}"
}

# What starts them.
launch() {
  exec srun --het-group=0 --ntasks=3 --distribution=arbitrary --cpu-bind=none --nodelist="$HPCDIST_JOB_DIR/ranks.0" --kill-on-bad-exit=1 --wait=0 --label --mpi=none : --het-group=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --mpi=none \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
