#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site lumi: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=project_465000001
# site lumi: partitions.standard-g
#SBATCH --partition=standard-g
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site lumi: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site lumi: partitions.standard-g
#SBATCH --cpus-per-task=7
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
  [job]='pytorch: 16 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=16 [tasks_per_node]='8(x2)' [threads]=default
  [gpus]=node [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   7    0   1    1       1"
  " worker 0     8    8     8           8        1    0          0   7    0   1    1       1"
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
  export GLOO_SOCKET_IFNAME=hsn0  # site lumi: fabric.interface
}

# What each task does first.
task_setup() {
  mkdir -p "$MIOPEN_CUSTOM_CACHE_DIR" "$MIOPEN_USER_DB_PATH"  # site lumi: task_setup (rccl)
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
  # srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000: site lumi: node_types.mi250x.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # singularity exec: container singularity
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --pwd "$PWD": container singularity
  # /images/torch.sif: pytorch.yml build.image
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    "${hpcdist_task[@]}" \
    singularity exec --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --pwd "$PWD" /images/torch.sif \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
