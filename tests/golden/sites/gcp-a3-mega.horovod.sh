#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-1/logs/job.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site gcp-a3-mega: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site gcp-a3-mega: partitions.a3mega
#SBATCH --partition=a3mega
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site gcp-a3-mega: whole_nodes
#SBATCH --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site gcp-a3-mega: partitions.a3mega
#SBATCH --cpus-per-task=26
# site gcp-a3-mega: gpus
#SBATCH --gpus-per-node=8
# site gcp-a3-mega: directives.mandatory
#SBATCH --mem=0
# Made by hpcdist 0.1.0 for site gcp-a3-mega. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod: 16 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/horovod-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1 [mpi]=pmi2
  [nodes]=2 [tasks]=16 [tasks_per_node]='8(x2)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   26   0   1    1       1"
  " worker 0     8    8     8           8        1    0          0   26   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  [[ -r /var/lib/tcpxo/lib64/nccl-env-profile.sh ]] || fail "there is no GPUDirect-TCPXO on $(uname -n)"  # site gcp-a3-mega: setup (multi_node)
  # shellcheck source=/dev/null # the site's own file
  NCCL_LIB_DIR=/var/lib/tcpxo/lib64 source /var/lib/tcpxo/lib64/nccl-env-profile.sh  # site gcp-a3-mega: setup (multi_node)
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=enp0s12  # site gcp-a3-mega: fabric.env.NCCL_SOCKET_IFNAME
  export NCCL_FASTRAK_CTRL_DEV=enp0s12  # site gcp-a3-mega: fabric.env.NCCL_FASTRAK_CTRL_DEV (multi_node)
  export NCCL_FASTRAK_IFNAME=enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0  # site gcp-a3-mega: fabric.env.NCCL_FASTRAK_IFNAME (multi_node)
  export NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=/dev/aperture_devices  # site gcp-a3-mega: fabric.env.NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY (multi_node)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod", "experiment_uuid": "horovod", "framework": "horovod", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=26 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmi2: site gcp-a3-mega: launchers.srun.mpi
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod.yml run.cmd
  exec srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=26 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmi2 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
