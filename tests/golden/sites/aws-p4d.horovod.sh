#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-digits-1/logs/job.out
# horovod_digits.yml name
#SBATCH --job-name=horovod-digits
# default
#SBATCH --no-requeue
# site aws-p4d: environment
#SBATCH --export=ALL
# horovod_digits.yml batch.account
#SBATCH --account=proj
# horovod_digits.yml batch.walltime
#SBATCH --time=00:10:00
# site aws-p4d: whole_nodes
#SBATCH --exclusive
# site aws-p4d: partitions.p4d
#SBATCH --nodes=4
# site aws-p4d: partitions.p4d
#SBATCH --ntasks-per-node=8
# site aws-p4d: partitions.p4d
#SBATCH --cpus-per-task=12
# site aws-p4d: gpus
#SBATCH --gpus-per-node=8
# Made by hpcdist 0.1.0 for site aws-p4d. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 32 tasks by srun, 4 nodes, 32 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1 [mpi]=pmix
  [nodes]=4 [tasks]=32 [tasks_per_node]='8(x4)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   12   0   1    1       1"
  " worker 0     8    24    8           8        1    0          0   12   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export FI_EFA_USE_HUGE_PAGE=0  # site aws-p4d: fabric.env.FI_EFA_USE_HUGE_PAGE
  export NCCL_SOCKET_IFNAME=en  # site aws-p4d: fabric.env.NCCL_SOCKET_IFNAME
  ! found "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so" || export NCCL_TUNER_PLUGIN=/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so  # site aws-p4d: fabric.env.NCCL_TUNER_PLUGIN (if /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so is found)
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
  # srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=12 --kill-on-bad-exit=1 --label: launcher srun
  # --mpi=pmix: site aws-p4d: launchers.srun.mpi
  # --cpu-bind=none: site aws-p4d: launchers.srun.binding
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod_digits.yml run.cmd
  exec srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=12 --kill-on-bad-exit=1 --label --mpi=pmix --cpu-bind=none \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
