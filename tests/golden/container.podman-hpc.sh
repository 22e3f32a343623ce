#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/container-1/logs/job.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site podman-like: environment
#SBATCH --export=ALL
# site podman-like: partitions.gpu
#SBATCH --constraint=gpu
# site podman-like: partitions.gpu
#SBATCH --nodes=2
# site podman-like: partitions.gpu
#SBATCH --ntasks-per-node=1
# site podman-like: partitions.gpu
#SBATCH --cpus-per-task=128
# site podman-like: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site podman-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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
  " master 0     0    1     1           1        0    0          0   128  0   4    1       4"
  " worker 0     1    1     1           1        1    0          0   128  0   4    1       4"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  type podman-hpc >/dev/null 2>&1 || fail "there is no podman-hpc on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container podman-hpc
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container podman-hpc
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{"imagenet": "/global/data/imagenet"}'  # polyaxon
  export POLYAXON_DATA_PATHS='{"imagenet": "/global/data/imagenet"}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=32  # framework pytorch
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
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # "${hpcdist_task[@]}": task wrapper
  # podman-hpc run --rm --net=host --ipc=host --pid=host --gpu: container podman-hpc
  # --volume="$PWD:$PWD" --volume="$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --volume="/global/data/imagenet:/global/data/imagenet": site podman-like: volumes.imagenet
  # --volume="/var/spool/slurmd:/var/spool/slurmd" --volume="/opt/fabric:/opt/fabric:ro" --volume="/run/job-$SLURM_JOB_ID:/run/job-$SLURM_JOB_ID": site podman-like: container.binds
  # --workdir="$PWD" --env=HPCDIST_* --env=SLURM_* --env=PMI_* --env=PMIX_* --env=PALS_* --env=OMPI_* --env=HOROVOD_* --env=POLYAXON_* --env=PYTHONUNBUFFERED --env=OMP_NUM_THREADS --env=GREETING --env=PET_LOCAL_ADDR --env=TORCHELASTIC_ERROR_FILE --env=PET_NODE_RANK --env=CUDA_VISIBLE_DEVICES: container podman-hpc
  # --nccl: site podman-like: container.gpu_args
  # nvcr.io/nvidia/pytorch:24.08-py3: container.yml build.image
  # env: site podman-like: container.env
  # NCCL_NET=AWS Libfabric: site podman-like: container.env.NCCL_NET
  # FLAG=true: site podman-like: container.env.FLAG
  # torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=0 --label \
    "${hpcdist_task[@]}" \
    podman-hpc run --rm --net=host --ipc=host --pid=host --gpu --volume="$PWD:$PWD" --volume="$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --volume="/global/data/imagenet:/global/data/imagenet" --volume="/var/spool/slurmd:/var/spool/slurmd" --volume="/opt/fabric:/opt/fabric:ro" --volume="/run/job-$SLURM_JOB_ID:/run/job-$SLURM_JOB_ID" --workdir="$PWD" '--env=HPCDIST_*' '--env=SLURM_*' '--env=PMI_*' '--env=PMIX_*' '--env=PALS_*' '--env=OMPI_*' '--env=HOROVOD_*' '--env=POLYAXON_*' --env=PYTHONUNBUFFERED --env=OMP_NUM_THREADS --env=GREETING --env=PET_LOCAL_ADDR --env=TORCHELASTIC_ERROR_FILE --env=PET_NODE_RANK --env=CUDA_VISIBLE_DEVICES --nccl nvcr.io/nvidia/pytorch:24.08-py3 env 'NCCL_NET=AWS Libfabric' FLAG=true torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
