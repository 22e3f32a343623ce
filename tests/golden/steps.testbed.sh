#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/steps-1/logs/job.out
# steps.yml name
#SBATCH --job-name=steps
# default
#SBATCH --no-requeue
# site testbed: environment
#SBATCH --export=ALL
# steps.yml batch.account
#SBATCH --account=proj
# site testbed: partitions.gpu
#SBATCH --partition=gpu
# steps.yml batch.walltime
#SBATCH --time=01:00:00
# site testbed: partitions.gpu
#SBATCH --constraint=a100
# site testbed: partitions.gpu
#SBATCH --nodes=2
# site testbed: partitions.gpu
#SBATCH --ntasks-per-node=2
# site testbed: partitions.gpu
#SBATCH --cpus-per-task=4
# site testbed: partitions.gpu
#SBATCH --mem=1000M
# site testbed: gpus
#SBATCH --gres=gpu:a100:4
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='steps: 4 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/steps-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=4 [tasks_per_node]='2(x2)' [threads]=default
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [steps]=srun [beside]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   4    0   2    1       1"
  " worker 0     1    1     1           1        0    1          4   4    2   2    1       1"
  " worker 1     2    1     1           1        1    0          0   4    0   2    1       1"
  " worker 2     3    1     1           1        1    1          4   4    2   2    1       1"
)
# What runs before the command, beside it and after it.
hpcdist_steps=(
  # steps.yml stage
  before node 'rm -rf -- "${HPCDIST_STAGE:?}" && mkdir -p -m 700 -- "${HPCDIST_STAGE:?}"'
  # steps.yml stage.0
  before job 'stage_broadcast /proj/data/imagenet.tar "${HPCDIST_STAGE:?}"/.hpcdist.imagenet.tar'
  # steps.yml stage.0
  before node 'stage_unpack /proj/data/imagenet.tar "${HPCDIST_STAGE:?}"/.hpcdist.imagenet.tar "${HPCDIST_STAGE:?}"'
  # steps.yml run.prepare
  before node 'nvidia-smi -L || exit 1'
  # steps.yml run.beside.0
  beside node 'nvidia-smi dmon -d 10'
  # steps.yml run.finish
  after job 'echo "it ended with $HPCDIST_EXIT_CODE"'
  # steps.yml stage
  after node 'rm -rf -- "${HPCDIST_STAGE:?}"'
)

# The command.
program() {
  write_program <<'COMMAND'
case "$HPCDIST_ROLE $HPCDIST_INDEX" in
"worker 2")
python serve.py
;;
*)
python train.py --data "$HPCDIST_STAGE/imagenet"
;;
esac
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.steps", "experiment_uuid": "steps", "framework": "pytorch", "user": null}'  # polyaxon
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
  export GLOO_SOCKET_IFNAME=eth0  # site testbed: fabric.interface
  export HPCDIST_STAGE="/tmp/hpcdist-$HPCDIST_JOB_ID"  # site testbed: node_local
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
  # srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=4 --distribution=plane=2 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site testbed: launchers.srun.mpi
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": steps.yml run.cmd
  exec srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=4 --distribution=plane=2 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
