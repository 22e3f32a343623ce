#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/ray-1/logs/job.out
# ray.yml name
#SBATCH --job-name=ray
# default
#SBATCH --no-requeue
# site snellius: environment
#SBATCH --export=ALL
# site snellius: partitions.gpu_h100
#SBATCH --partition=gpu_h100
# site snellius: partitions.gpu_h100
#SBATCH --nodes=3
# site snellius: partitions.gpu_h100
#SBATCH --ntasks-per-node=1
# site snellius: partitions.gpu_h100
#SBATCH --cpus-per-task=16
# site snellius: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site snellius. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='ray: 3 tasks by srun, 3 nodes, 12 GPUs' [run_dir]=/scratch/me/runs/ray-1
  [scheduler]=slurm [submit_environment]=inherit
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=3 [tasks]=3 [tasks_per_node]='1(x3)' [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16 [by_address]=1
  [required_roles]=master [required_tasks]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   16   0   4    1       4"
  " worker 0     1    2     1           1        1    0          0   16   0   4    1       4"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  module load 2024  # site snellius: container.setup (multi_node, nccl)
  module load NCCL/2.22.3-GCCcore-13.3.0-CUDA-12.6.0  # site snellius: container.setup (multi_node, nccl)
  type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
  [[ -e /images/ray.sif ]] || fail there is no image /images/ray.sif on "$(uname -n)"  # container apptainer
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer
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
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.ray", "experiment_uuid": "ray", "framework": "ray", "user": null}'  # polyaxon
  export RAY_ADDRESS="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"  # framework ray
  export RAY_USAGE_STATS_ENABLED=0  # framework ray
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # "${hpcdist_task[@]}": task wrapper
  # apptainer exec --nv: container apptainer
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --pwd "$PWD": container apptainer
  # /images/ray.sif: ray.yml build.image
  # python3 "$HPCDIST_RUN_DIR/python/hpcdist_ray.py" --nodes=3 --wait=300 --start=--object-store-memory=21474836480 --head=--include-dashboard=true --head=--dashboard-port=8265: framework ray
  # --start=--resources={"fast": 1}: ray.yml ray.args
  # --head=--log-style=record: ray.yml ray.head_args
  # --: framework ray
  # bash "$HPCDIST_JOB_DIR/command.sh": ray.yml run.cmd
  exec srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=0 --label \
    "${hpcdist_task[@]}" \
    apptainer exec --nv --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --pwd "$PWD" /images/ray.sif python3 "$HPCDIST_RUN_DIR/python/hpcdist_ray.py" --nodes=3 --wait=300 --start=--object-store-memory=21474836480 --head=--include-dashboard=true --head=--dashboard-port=8265 '--start=--resources={"fast": 1}' --head=--log-style=record -- \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
