#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site azure-gb200: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site azure-gb200: partitions.gpu
#SBATCH --partition=gpu
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site azure-gb200: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site azure-gb200: partitions.gpu
#SBATCH --cpus-per-task=32
# site azure-gb200: gpus
#SBATCH --gpus-per-node=4
# site azure-gb200: directives.mandatory
#SBATCH --mem=0
# Made by hpcdist 0.1.0 for site azure-gb200. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 8 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
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

# What is needed before anything starts.
setup() {
  # shellcheck source=/dev/null # the site's own file
  if [[ -r /etc/profile.d/modules.sh ]]; then source /etc/profile.d/modules.sh; else fail "there is no /etc/profile.d/modules.sh on $(uname -n)"; fi  # site azure-gb200: source
  load_module mpi/hpcx 'site azure-gb200: modules'  # site azure-gb200: modules
  export LD_LIBRARY_PATH="/usr/local/nccl-rdma-sharp-plugins/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site azure-gb200: setup
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export CUDA_DEVICE_ORDER=PCI_BUS_ID  # site azure-gb200: fabric.env.CUDA_DEVICE_ORDER
  export NCCL_DEBUG=WARN  # site azure-gb200: fabric.env.NCCL_DEBUG (nccl)
  export NCCL_SOCKET_IFNAME=eth0  # site azure-gb200: fabric.env.NCCL_SOCKET_IFNAME
  export NCCL_IGNORE_CPU_AFFINITY=1  # site azure-gb200: fabric.env.NCCL_IGNORE_CPU_AFFINITY
  export NCCL_MNNVL_ENABLE=1  # site azure-gb200: fabric.env.NCCL_MNNVL_ENABLE
  export NCCL_NVLS_ENABLE=1  # site azure-gb200: fabric.env.NCCL_NVLS_ENABLE
  export NCCL_SHM_DISABLE=1  # site azure-gb200: fabric.env.NCCL_SHM_DISABLE
  export NCCL_DMABUF_ENABLE=1  # site azure-gb200: fabric.env.NCCL_DMABUF_ENABLE
  export NCCL_P2P_NET_CHUNKSIZE=2097152  # site azure-gb200: fabric.env.NCCL_P2P_NET_CHUNKSIZE
  export NCCL_IB_QPS_PER_CONNECTION=4  # site azure-gb200: fabric.env.NCCL_IB_QPS_PER_CONNECTION
  export NCCL_IB_SL=1  # site azure-gb200: fabric.env.NCCL_IB_SL
  export NCCL_NET_GDR_LEVEL=PHB  # site azure-gb200: fabric.env.NCCL_NET_GDR_LEVEL
  export NCCL_NET_GDR_C2C=1  # site azure-gb200: fabric.env.NCCL_NET_GDR_C2C
  export UCX_NET_DEVICES=mlx5_ib0:1  # site azure-gb200: fabric.env.UCX_NET_DEVICES
  export MELLANOX_VISIBLE_DEVICES=all  # site azure-gb200: fabric.env.MELLANOX_VISIBLE_DEVICES (in a container)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
  export GLOO_SOCKET_IFNAME=eth0  # site azure-gb200: fabric.interface
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="$HPCDIST_LOCAL_RANK"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=32 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site azure-gb200: launchers.srun.mpi
  # --cpu-bind=none: site azure-gb200: launchers.srun.binding
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,CUDA_DEVICE_ORDER,NCCL_DEBUG,NCCL_SOCKET_IFNAME,NCCL_IGNORE_CPU_AFFINITY,NCCL_MNNVL_ENABLE,NCCL_NVLS_ENABLE,NCCL_SHM_DISABLE,NCCL_DMABUF_ENABLE,NCCL_P2P_NET_CHUNKSIZE,NCCL_IB_QPS_PER_CONNECTION,NCCL_IB_SL,NCCL_NET_GDR_LEVEL,NCCL_NET_GDR_C2C,UCX_NET_DEVICES,MELLANOX_VISIBLE_DEVICES,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=32 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix --cpu-bind=none --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,CUDA_DEVICE_ORDER,NCCL_DEBUG,NCCL_SOCKET_IFNAME,NCCL_IGNORE_CPU_AFFINITY,NCCL_MNNVL_ENABLE,NCCL_NVLS_ENABLE,NCCL_SHM_DISABLE,NCCL_DMABUF_ENABLE,NCCL_P2P_NET_CHUNKSIZE,NCCL_IB_QPS_PER_CONNECTION,NCCL_IB_SL,NCCL_NET_GDR_LEVEL,NCCL_NET_GDR_C2C,UCX_NET_DEVICES,MELLANOX_VISIBLE_DEVICES,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
