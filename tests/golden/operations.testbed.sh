#!/bin/bash
#SBATCH --output=/scratch/me/runs/operations-1/logs/job-%a.out
#SBATCH --job-name=operations
#SBATCH --array=0-7%2
#SBATCH --dependency=afterok:4711
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --mail-user=me@example.org
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --time=1-12:00:00
#SBATCH --constraint="a100&nvlink"
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=500M
#SBATCH --gres=gpu:a100:1
#SBATCH --reservation="winter school"
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='operations: 1 task by srun, 1 node, 1 GPU' [run_dir]=/scratch/me/runs/operations-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=1-12:00:00 [array]=0-7%2
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=1 [tasks]=1 [tasks_per_node]=1 [threads]=default
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [max_restarts]=2
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   2    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
mkdir -p "$HPCDIST_RUN_DIR/outputs/$SLURM_ARRAY_TASK_ID" && python train.py --element="$SLURM_ARRAY_TASK_ID"
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.operations", "experiment_uuid": "operations", "framework": "pytorch", "user": null}'
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"
  export MASTER_PORT="$HPCDIST_PORT"
  export GLOO_SOCKET_IFNAME=eth0
  export MESSAGE='it'"'"'s $5 & `more`'
  export DEBUG=true
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
  exec srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --kill-on-bad-exit=1 --wait=0 --mpi=pmix \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
