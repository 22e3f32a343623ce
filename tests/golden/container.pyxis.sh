#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/container-1/logs/job.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site gcp-a3-ultra: environment
#SBATCH --export=ALL
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --partition=a3ultra
# site gcp-a3-ultra: whole_nodes
#SBATCH --exclusive
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --nodes=2
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --ntasks-per-node=1
# site gcp-a3-ultra: partitions.a3ultra
#SBATCH --cpus-per-task=224
# site gcp-a3-ultra: gpus
#SBATCH --gpus-per-node=8
# site gcp-a3-ultra: directives.mandatory
#SBATCH --mem=0
# Made by hpcdist 0.1.0 for site gcp-a3-ultra. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='container: 2 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/container-1
  [scheduler]=slurm [submit_environment]=inherit
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   224  0   8    1       8"
  " worker 0     1    1     1           1        1    0          0   224  0   8    1       8"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  # shellcheck source=/dev/null # the site's own file
  if [[ -r /usr/local/gib/scripts/set_nccl_env.sh ]]; then source /usr/local/gib/scripts/set_nccl_env.sh; else fail "there is no /usr/local/gib/scripts/set_nccl_env.sh on $(uname -n)"; fi  # site gcp-a3-ultra: source
  export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a3-ultra: setup
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! found "/usr/local/gib/lib64/libnccl-net*" || export NCCL_NET=gIB  # site gcp-a3-ultra: fabric.env.NCCL_NET (if /usr/local/gib/lib64/libnccl-net* is found)
  export NCCL_SOCKET_IFNAME=enp0s19,enp192s20  # site gcp-a3-ultra: fabric.env.NCCL_SOCKET_IFNAME
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=28  # framework pytorch
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
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=224 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmi2: site gcp-a3-ultra: launchers.srun.mpi
  # --container-image="$hpcdist_image": container.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS,GREETING: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "/usr/local/gib/lib64:/usr/lib/x86_64-linux-gnu": site gcp-a3-ultra: container.library_path
  # torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=224 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmi2 --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS,GREETING \
    "${hpcdist_task[@]}" bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "/usr/local/gib/lib64:/usr/lib/x86_64-linux-gnu" torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
