#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-digits-1/logs/job.out
# horovod_digits.yml name
#SBATCH --job-name=horovod-digits
# default
#SBATCH --no-requeue
# site jureca-dc: environment
#SBATCH --export=ALL
# horovod_digits.yml batch.account
#SBATCH --account=proj
# site jureca-dc: partitions.dc-gpu
#SBATCH --partition=dc-gpu
# horovod_digits.yml batch.walltime
#SBATCH --time=00:10:00
# site jureca-dc: whole_nodes
#SBATCH --exclusive
# site jureca-dc: partitions.dc-gpu
#SBATCH --nodes=4
# site jureca-dc: partitions.dc-gpu
#SBATCH --ntasks-per-node=4
# site jureca-dc: partitions.dc-gpu
#SBATCH --cpus-per-task=32
# site jureca-dc: gpus
#SBATCH --gres=gpu:4
# Made by hpcdist 0.1.0 for site jureca-dc. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 16 tasks by srun, 4 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1
  [nodes]=4 [tasks]=16 [tasks_per_node]='4(x4)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*'
  [ports]=16 [suffix]=i [by_address]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   32   0   1    1       1"
  " worker 0     4    12    4           4        1    0          0   32   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# What is needed before anything starts.
setup() {
  export CUDA_VISIBLE_DEVICES=0,1,2,3  # site jureca-dc: setup
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=ib0  # site jureca-dc: fabric.env.NCCL_SOCKET_IFNAME
  export UCX_RC_TIMEOUT=4s  # site jureca-dc: fabric.env.UCX_RC_TIMEOUT
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=4 --ntasks=16 --ntasks-per-node=4 --cpus-per-task=32 --kill-on-bad-exit=1 --label: launcher srun
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod_digits.yml run.cmd
  exec srun --nodes=4 --ntasks=16 --ntasks-per-node=4 --cpus-per-task=32 --kill-on-bad-exit=1 --label \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
