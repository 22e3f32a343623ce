#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/container-1/logs/job.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site lumi: environment
#SBATCH --export=ALL
# container.yml batch.account
#SBATCH --account=project_465000001
# site lumi: partitions.standard-g
#SBATCH --partition=standard-g
# site lumi: whole_nodes
#SBATCH --exclusive
# site lumi: partitions.standard-g
#SBATCH --nodes=2
# site lumi: partitions.standard-g
#SBATCH --ntasks-per-node=1
# site lumi: partitions.standard-g
#SBATCH --cpus-per-task=56
# site lumi: gpus
#SBATCH --gpus-per-node=8
# site lumi: fabric.together.0: the LUMI AI guide asks for all memory that jobs may have of these whole nodes
#SBATCH --mem=480G
# Made by hpcdist 0.1.0 for site lumi. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='container: 2 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/container-1
  [scheduler]=slurm [submit_environment]=inherit
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [processes]=1
  [gpus]=task [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   56   0   8    1       8"
  " worker 0     1    1     1           1        1    0          0   56   0   8    1       8"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  unload_modules purge 'site lumi: modules (in a container)'  # site lumi: modules (in a container)
  export TORCH_HOME="${TORCH_HOME:-/scratch/$SLURM_JOB_ACCOUNT/$USER/torch_home}"  # site lumi: setup (rccl)
  export MIOPEN_CUSTOM_CACHE_DIR="/tmp/miopen-cache-$USER" MIOPEN_USER_DB_PATH="/tmp/miopen-config-$USER"  # site lumi: setup (rccl)
  module use /appl/local/laifs/modules  # site lumi: container.setup
  module load lumi-aif-singularity-bindings  # site lumi: container.setup
  type singularity >/dev/null 2>&1 || fail "there is no singularity on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container singularity
  [[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container singularity
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container singularity
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # site lumi: fabric.env.NCCL_SOCKET_IFNAME (rccl)
  export NCCL_NET_GDR_LEVEL=3  # site lumi: fabric.env.NCCL_NET_GDR_LEVEL (rccl)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export GLOO_SOCKET_IFNAME=hsn0  # site lumi: fabric.interface
  export OMP_NUM_THREADS=7  # framework pytorch
  export GREETING='it'"'"'s $HOME'  # container.yml environment.env_vars.GREETING
}

# What each task does first.
task_setup() {
  mkdir -p "$MIOPEN_CUSTOM_CACHE_DIR" "$MIOPEN_USER_DB_PATH"  # site lumi: task_setup (rccl)
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export PET_LOCAL_ADDR="$HPCDIST_ADDRESS"  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=56 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # "${hpcdist_task[@]}": task wrapper
  # singularity exec: container singularity
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --pwd "$PWD": container singularity
  # /images/torch.sif: container.yml build.image
  # torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=56 --kill-on-bad-exit=1 --wait=0 --label \
    "${hpcdist_task[@]}" \
    singularity exec --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --pwd "$PWD" /images/torch.sif torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
