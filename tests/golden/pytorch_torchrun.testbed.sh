#!/bin/bash
#SBATCH --output=/scratch/me/runs/pytorch-torchrun-1/logs/job.out
#SBATCH --job-name=pytorch-torchrun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --mem=1000M
#SBATCH --gres=gpu:a100:4
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch-torchrun: 2 tasks by srun, 2 nodes, 6 GPUs' [run_dir]=/scratch/me/runs/pytorch-torchrun-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1 [checks_program]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [uneven]=0 [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   4    0   4    1       4"
  " worker 0     1    1     1           1        1    0          0   2    0   2    1       2"
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch-torchrun", "experiment_uuid": "pytorch-torchrun", "framework": "pytorch", "user": null}'
  export GLOO_SOCKET_IFNAME=eth0
  export OMP_NUM_THREADS=1
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  export PET_LOCAL_ADDR="$HPCDIST_ADDRESS"
  export PET_NPROC_PER_NODE="$HPCDIST_PROCESSES"
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"
  [[ $HPCDIST_ROLE != master ]] || export PET_RDZV_CONF="is_host=1"
  [[ $HPCDIST_ROLE != worker ]] || export PET_RDZV_CONF="is_host=0"
}

# What starts them.
launch() {
  exec srun --ntasks=2 --distribution=arbitrary --cpu-bind=none --nodelist="$HPCDIST_JOB_DIR/ranks.0" --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
    "${hpcdist_task[@]}" torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=2 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
