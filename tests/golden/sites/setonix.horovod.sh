#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-1/logs/job.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site setonix: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=abcd-delta-gpu
# site setonix: partitions.gpu
#SBATCH --partition=gpu
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# site setonix: gpus
#SBATCH --gres=gpu:8
# Made by hpcdist 0.1.0 for site setonix. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod: 16 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/horovod-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1
  [nodes]=2 [tasks]=16 [tasks_per_node]='8(x2)' [threads]=default
  [gpus]=node [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   8    0   1    1       1"
  " worker 0     8    8     8           8        1    0          0   8    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  export MIOPEN_USER_DB_PATH="/tmp/$USER-miopen-$SLURM_JOB_ID" MIOPEN_CUSTOM_CACHE_DIR="/tmp/$USER-miopen-$SLURM_JOB_ID"  # site setonix: setup (rccl)
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! linked "libmpi_gtl_hsa.so" MPICH_GPU_SUPPORT_ENABLED || export MPICH_GPU_SUPPORT_ENABLED=1  # site setonix: fabric.env.MPICH_GPU_SUPPORT_ENABLED (rccl, outside containers, if the program links libmpi_gtl_hsa.so)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod", "experiment_uuid": "horovod", "framework": "horovod", "user": null}'  # polyaxon
}

# What each task does first.
task_setup() {
  mkdir -p "$MIOPEN_USER_DB_PATH"  # site setonix: task_setup (rccl)
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=8 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --cpu-bind=mask_cpu:0xff000000000000,0xff00000000000000,0xff0000,0xff000000,0xff,0xff00,0xff00000000,0xff0000000000: site setonix: node_types.mi250x.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod.yml run.cmd
  exec srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=8 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label --cpu-bind=mask_cpu:0xff000000000000,0xff00000000000000,0xff0000,0xff000000,0xff,0xff00,0xff00000000,0xff0000000000 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
