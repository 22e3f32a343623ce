#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/horovod-1/logs/job.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site perlmutter: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site perlmutter: partitions
#SBATCH --qos=regular
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site perlmutter: partitions.gpu
#SBATCH --constraint=gpu
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site perlmutter: partitions.gpu
#SBATCH --cpus-per-task=32
# site perlmutter: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site perlmutter. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod: 8 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/horovod-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   32   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   32   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export HDF5_USE_FILE_LOCKING=FALSE  # site perlmutter: fabric.env.HDF5_USE_FILE_LOCKING
  export NCCL_SOCKET_IFNAME=hsn  # site perlmutter: fabric.env.NCCL_SOCKET_IFNAME (nccl)
  export NCCL_CROSS_NIC=1  # site perlmutter: fabric.env.NCCL_CROSS_NIC (nccl)
  export NCCL_NET_GDR_LEVEL=PHB  # site perlmutter: fabric.env.NCCL_NET_GDR_LEVEL (nccl)
  export FI_MR_CACHE_MONITOR=userfaultfd  # site perlmutter: fabric.env.FI_MR_CACHE_MONITOR
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site perlmutter: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
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
  # srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=32 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=cray_shasta: site perlmutter: launchers.srun.mpi
  # --cpu-bind=mask_cpu:0xffff000000000000ffff000000000000,0xffff000000000000ffff00000000,0xffff000000000000ffff0000,0xffff000000000000ffff: site perlmutter: node_types.a100.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod.yml run.cmd
  exec srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=32 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label --mpi=cray_shasta --cpu-bind=mask_cpu:0xffff000000000000ffff000000000000,0xffff000000000000ffff00000000,0xffff000000000000ffff0000,0xffff000000000000ffff \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
