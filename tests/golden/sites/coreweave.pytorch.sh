#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site coreweave: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site coreweave: partitions.h100
#SBATCH --partition=h100
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site coreweave: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=1
# site coreweave: partitions.h100
#SBATCH --cpus-per-task=128
# site coreweave: whole_nodes
#SBATCH --mem=0
# site coreweave: gpus
#SBATCH --gpus-per-node=8
# site coreweave: directives.mandatory
#SBATCH --distribution=block:block
# Made by hpcdist 0.1.0 for site coreweave. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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
  " master 0     0    1     1           1        0    0          0   128  0   8    1       8"
  " worker 0     1    1     1           1        1    0          0   128  0   8    1       8"
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
  export NCCL_SOCKET_IFNAME=eth0  # site coreweave: fabric.env.NCCL_SOCKET_IFNAME (nccl)
  export NCCL_IB_HCA=ibp  # site coreweave: fabric.env.NCCL_IB_HCA (nccl)
  export NCCL_NET_PLUGIN=none  # site coreweave: fabric.env.NCCL_NET_PLUGIN (nccl)
  export UCX_TLS=tcp  # site coreweave: fabric.env.UCX_TLS (nccl, framework not mpi)
  export UCX_NET_DEVICES=eth0  # site coreweave: fabric.env.UCX_NET_DEVICES (nccl, framework not mpi)
  export OMPI_MCA_coll_hcoll_enable=0  # site coreweave: fabric.env.OMPI_MCA_coll_hcoll_enable
  export PMIX_MCA_gds='^ds12'  # site coreweave: fabric.env.PMIX_MCA_gds
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export GLOO_SOCKET_IFNAME=eth0  # site coreweave: fabric.interface
  export OMP_NUM_THREADS=16  # framework pytorch
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
  # --mpi=pmix: site coreweave: launchers.srun.mpi
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_HCA,NCCL_NET_PLUGIN,UCX_TLS,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,PMIX_MCA_gds,GLOO_SOCKET_IFNAME,OMP_NUM_THREADS: container pyxis
  # --no-container-remap-root --no-container-mount-home: site coreweave: container.args
  # "${hpcdist_task[@]}": task wrapper
  # torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_IB_HCA,NCCL_NET_PLUGIN,UCX_TLS,UCX_NET_DEVICES,OMPI_MCA_coll_hcoll_enable,PMIX_MCA_gds,GLOO_SOCKET_IFNAME,OMP_NUM_THREADS --no-container-remap-root --no-container-mount-home \
    "${hpcdist_task[@]}" torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
