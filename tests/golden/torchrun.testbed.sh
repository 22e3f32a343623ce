#!/bin/bash
#SBATCH --output=/scratch/me/runs/torchrun-1/logs/job.out
#SBATCH --job-name=torchrun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=500M
#SBATCH --gres=gpu:a100:4
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='torchrun: 2 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/torchrun-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)'
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   16   0   4    1       1"
  " worker 0     1    1     1           1        1    0          0   16   0   4    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
torchrun --nnodes="$HPCDIST_NODES" --nproc-per-node=4 --node-rank="$HPCDIST_NODE" \
  --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py

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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.torchrun", "experiment_uuid": "torchrun", "framework": "pytorch", "user": null}'
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"
  export MASTER_PORT="$HPCDIST_PORT"
  export GLOO_SOCKET_IFNAME=eth0
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
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
