#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-digits-1/logs/job.out
# horovod_digits.yml name
#SBATCH --job-name=horovod-digits
# default
#SBATCH --no-requeue
# site lumi: environment
#SBATCH --export=ALL
# horovod_digits.yml batch.account
#SBATCH --account=project_465000001
# site lumi: partitions.standard-g
#SBATCH --partition=standard-g
# horovod_digits.yml batch.walltime
#SBATCH --time=00:10:00
# site lumi: whole_nodes
#SBATCH --exclusive
# site lumi: partitions.standard-g
#SBATCH --nodes=4
# site lumi: partitions.standard-g
#SBATCH --ntasks-per-node=8
# site lumi: partitions.standard-g
#SBATCH --cpus-per-task=7
# site lumi: gpus
#SBATCH --gpus-per-node=8
# Made by hpcdist 0.1.0 for site lumi. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 32 tasks by srun, 4 nodes, 32 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1
  [nodes]=4 [tasks]=32 [tasks_per_node]='8(x4)' [threads]=default
  [gpus]=node [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   7    0   1    1       1"
  " worker 0     8    24    8           8        1    0          0   7    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# What is needed before anything starts.
setup() {
  export MIOPEN_CUSTOM_CACHE_DIR="/tmp/miopen-cache-$USER" MIOPEN_USER_DB_PATH="/tmp/miopen-config-$USER"  # site lumi: setup
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
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'  # polyaxon
}

# What each task does first.
task_setup() {
  mkdir -p "$MIOPEN_CUSTOM_CACHE_DIR" "$MIOPEN_USER_DB_PATH"  # site lumi: task_setup
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=7 --kill-on-bad-exit=1 --label: launcher srun
  # --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000: site lumi: node_types.mi250x.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod_digits.yml run.cmd
  exec srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=7 --kill-on-bad-exit=1 --label --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
