#!/bin/bash
#SBATCH --output=/scratch/me/runs/mxnet-1/logs/job.out
#SBATCH --job-name=mxnet
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=13
#SBATCH --cpus-per-task=1
#SBATCH --mem=2000M
#SBATCH --gres=gpu:a100:3
#SBATCH hetjob
#SBATCH --partition=cpu
#SBATCH --time=00:10:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --mem=1000M
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='mxnet: 6 tasks by srun, 2 nodes, 3 GPUs' [run_dir]=/scratch/me/runs/mxnet-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=6 [tasks_per_node]='4,2' [components]='1 1' [uneven]=0 [threads]=default
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16 [by_address]=1
  [required_roles]=worker [required_tasks]=3
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   1    0   0    1       1"
  " worker 0     1    3     1           3        0    1          1   4    0   1    1       1"
  " ps     0     4    2     1           2        1    0          0   2    0   0    1       1"
)

# The command.
program() {
  write_program <<<'python train.py --kv-store dist_sync'
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.mxnet", "experiment_uuid": "mxnet", "framework": "mxnet", "user": null}'
  export DMLC_PS_ROOT_URI="$HPCDIST_HEAD_ADDRESS"
  export DMLC_PS_ROOT_PORT="$HPCDIST_PORT"
  export DMLC_NUM_WORKER=3
  export DMLC_NUM_SERVER=2
  export DMLC_INTERFACE=eth0
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  [[ $HPCDIST_ROLE != master ]] || export DMLC_ROLE="scheduler"
  [[ $HPCDIST_ROLE != worker ]] || export DMLC_ROLE="worker"
  [[ $HPCDIST_ROLE != ps ]] || export DMLC_ROLE="server"
  [[ $HPCDIST_ROLE != ps ]] || export DMLC_SERVER_ID="$HPCDIST_INDEX"
}

# What starts them.
launch() {
  exec srun --het-group=0 --ntasks=4 --distribution=arbitrary --cpu-bind=none --nodelist="$HPCDIST_JOB_DIR/ranks.0" --kill-on-bad-exit=1 --wait=0 --label --mpi=none : --het-group=1 --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=2 --mpi=none \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
