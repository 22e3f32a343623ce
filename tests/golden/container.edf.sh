#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/container-1/logs/job.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site clariden: environment
#SBATCH --export=ALL
# site clariden: partitions.normal
#SBATCH --partition=normal
# site clariden: whole_nodes
#SBATCH --exclusive
# site clariden: partitions.normal
#SBATCH --nodes=2
# site clariden: partitions.normal
#SBATCH --ntasks-per-node=1
# site clariden: partitions.normal
#SBATCH --cpus-per-task=288
# Made by hpcdist 0.1.0 for site clariden. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='container: 2 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/container-1
  [scheduler]=slurm [submit_environment]=inherit
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   288  0   4    1       4"
  " worker 0     1    1     1           1        1    0          0   288  0   4    1       4"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  export CUDA_CACHE_DISABLE=1  # site clariden: setup
  ulimit -c 0  # site clariden: setup (nccl, framework not mpi)
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container edf
  write_edf "$(environment; edf_text 'nvcr.io#nvidia/pytorch:24.08-py3' "$PWD" "$PWD:$PWD" "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" -- com.hooks.aws_ofi_nccl.enabled=true com.hooks.aws_ofi_nccl.variant=cuda-dl -- NVIDIA_VISIBLE_DEVICES=all PYTHONUNBUFFERED UCX_HANDLE_ERRORS TORCH_NCCL_ASYNC_ERROR_HANDLING MPICH_GPU_SUPPORT_ENABLED OMP_NUM_THREADS GREETING)"  # container edf
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export UCX_HANDLE_ERRORS=none  # site clariden: fabric.env.UCX_HANDLE_ERRORS (in a container)
  export TORCH_NCCL_ASYNC_ERROR_HANDLING=1  # site clariden: fabric.env.TORCH_NCCL_ASYNC_ERROR_HANDLING (nccl, framework pytorch/deepspeed/accelerate/lightning/none)
  export MPICH_GPU_SUPPORT_ENABLED=0  # site clariden: fabric.together.0: GPU-aware MPI beside NCCL can hang (CSCS) (nccl, framework not mpi/none)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=72  # framework pytorch
  export GREETING='it'"'"'s $HOME'  # container.yml environment.env_vars.GREETING
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
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=288 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site clariden: container.mpi
  # --environment="$HPCDIST_JOB_DIR/environment.toml": container.yml build.image
  # "${hpcdist_task[@]}": task wrapper
  # env: site clariden: container.env
  # PMIX_MCA_psec=^munge: site clariden: container.env.PMIX_MCA_psec
  # torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=288 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix --environment="$HPCDIST_JOB_DIR/environment.toml" \
    "${hpcdist_task[@]}" env 'PMIX_MCA_psec=^munge' torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
