#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site leonardo: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site leonardo: partitions.boost_usr_prod
#SBATCH --partition=boost_usr_prod
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site leonardo: partitions.boost_usr_prod
#SBATCH --cpus-per-task=8
# site leonardo: gpus
#SBATCH --gres=gpu:4
# Made by hpcdist 0.1.0 for site leonardo. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 8 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   8    0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   8    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  type singularity >/dev/null 2>&1 || fail "there is no singularity on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container singularity
  [[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container singularity
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container singularity
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=ib0  # site leonardo: fabric.env.NCCL_SOCKET_IFNAME (nccl)
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
  export GLOO_SOCKET_IFNAME=ib0  # site leonardo: fabric.interface
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="$HPCDIST_LOCAL_RANK"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # "${hpcdist_task[@]}": task wrapper
  # singularity exec --nv: container singularity
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --pwd "$PWD": container singularity
  # /images/torch.sif: pytorch.yml build.image
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label \
    "${hpcdist_task[@]}" \
    singularity exec --nv --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --pwd "$PWD" /images/torch.sif \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
