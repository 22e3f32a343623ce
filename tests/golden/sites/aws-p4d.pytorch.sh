#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site aws-p4d: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site aws-p4d: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=1
# site aws-p4d: partitions.p4d
#SBATCH --cpus-per-task=96
# site aws-p4d: gpus
#SBATCH --gpus-per-node=8
# site aws-p4d: directives.mandatory
#SBATCH --wait-all-nodes=1
# Made by hpcdist 0.1.0 for site aws-p4d. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 2 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   96   0   8    1       8"
  " worker 0     1    1     1           1        1    0          0   96   0   8    1       8"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export FI_EFA_USE_HUGE_PAGE=0  # site aws-p4d: fabric.env.FI_EFA_USE_HUGE_PAGE
  export NCCL_SOCKET_IFNAME=en  # site aws-p4d: fabric.env.NCCL_SOCKET_IFNAME
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=12  # framework pytorch
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
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=96 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site aws-p4d: launchers.srun.mpi
  # --cpu-bind=none: site aws-p4d: launchers.srun.binding
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,FI_EFA_USE_HUGE_PAGE,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=96 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix --cpu-bind=none --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,FI_EFA_USE_HUGE_PAGE,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS \
    "${hpcdist_task[@]}" torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
