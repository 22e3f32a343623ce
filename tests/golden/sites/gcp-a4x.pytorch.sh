#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site gcp-a4x: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site gcp-a4x: partitions.a4x
#SBATCH --partition=a4x
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site gcp-a4x: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site gcp-a4x: partitions.a4x
#SBATCH --cpus-per-task=35
# site gcp-a4x: whole_nodes
#SBATCH --mem=0
# site gcp-a4x: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site gcp-a4x. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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
  " master 0     0    4     4           4        0    0          0   35   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   35   0   1    1       1"
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
  if [[ -r /usr/local/gib/scripts/set_nccl_env.sh ]]; then source /usr/local/gib/scripts/set_nccl_env.sh; else fail "there is no /usr/local/gib/scripts/set_nccl_env.sh on $(uname -n)"; fi  # site gcp-a4x: source
  export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a4x: setup
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! found "/usr/local/gib/lib64/libnccl-net*" || export NCCL_NET=gIB  # site gcp-a4x: fabric.env.NCCL_NET (if /usr/local/gib/lib64/libnccl-net* is found)
  export NCCL_SOCKET_IFNAME=enp0s3,enp192s2  # site gcp-a4x: fabric.env.NCCL_SOCKET_IFNAME
  export OMPI_MCA_btl_tcp_if_include=enp0s3,enp192s2  # site gcp-a4x: fabric.env.OMPI_MCA_btl_tcp_if_include
  export PMIX_MCA_gds='^ds12'  # site gcp-a4x: fabric.env.PMIX_MCA_gds
  export PMIX_MCA_psec=native  # site gcp-a4x: fabric.env.PMIX_MCA_psec
  export UCX_NET_DEVICES=gpu0rdma0,gpu1rdma0,gpu2rdma0,gpu3rdma0  # site gcp-a4x: fabric.env.UCX_NET_DEVICES
  export UCX_IB_FORK_INIT=n  # site gcp-a4x: fabric.env.UCX_IB_FORK_INIT
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
  export GLOO_SOCKET_IFNAME=enp0s3  # site gcp-a4x: fabric.interface
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
  # srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=35 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site gcp-a4x: launchers.srun.mpi
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMPI_MCA_btl_tcp_if_include,PMIX_MCA_gds,PMIX_MCA_psec,UCX_NET_DEVICES,UCX_IB_FORK_INIT,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "/usr/local/gib/lib64": site gcp-a4x: container.library_path
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=35 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/usr/local/gib:/usr/local/gib" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_NET,NCCL_SOCKET_IFNAME,OMPI_MCA_btl_tcp_if_include,PMIX_MCA_gds,PMIX_MCA_psec,UCX_NET_DEVICES,UCX_IB_FORK_INIT,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
    "${hpcdist_task[@]}" bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "/usr/local/gib/lib64" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
