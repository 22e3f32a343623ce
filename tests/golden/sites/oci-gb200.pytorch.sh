#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site oci-gb200: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site oci-gb200: partitions.compute
#SBATCH --partition=compute
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site oci-gb200: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site oci-gb200: partitions.compute
#SBATCH --cpus-per-task=36
# site oci-gb200: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site oci-gb200. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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
  " master 0     0    4     4           4        0    0          0   36   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   36   0   1    1       1"
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
  for mpivars in /usr/mpi/gcc/openmpi-*/bin/mpivars.sh /opt/openmpi-*/bin/mpivars.sh; do if [[ -e $mpivars ]]; then source "$mpivars"; break; fi; done  # site oci-gb200: setup
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=eth0  # site oci-gb200: fabric.env.NCCL_SOCKET_IFNAME (nccl)
  export NCCL_MNNVL_ENABLE=1  # site oci-gb200: fabric.env.NCCL_MNNVL_ENABLE (nccl)
  export NCCL_CUMEM_ENABLE=1  # site oci-gb200: fabric.env.NCCL_CUMEM_ENABLE (nccl)
  export NCCL_NVLS_ENABLE=1  # site oci-gb200: fabric.env.NCCL_NVLS_ENABLE (nccl)
  export NCCL_NET_GDR_C2C=1  # site oci-gb200: fabric.env.NCCL_NET_GDR_C2C (nccl)
  export OMPI_MCA_coll='^hcoll'  # site oci-gb200: fabric.env.OMPI_MCA_coll (nccl)
  export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_3,mlx5_4'  # site oci-gb200: fabric.together.0: the network cards of the GB200 machines (nccl, nodes gb200)
  export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1  # site oci-gb200: fabric.together.0: the network cards of the GB200 machines (nccl, nodes gb200)
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
  export GLOO_SOCKET_IFNAME=eth0  # site oci-gb200: fabric.interface
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
  # srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=36 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix_v3: site oci-gb200: launchers.srun.mpi
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_MNNVL_ENABLE,NCCL_CUMEM_ENABLE,NCCL_NVLS_ENABLE,NCCL_NET_GDR_C2C,OMPI_MCA_coll,NCCL_IB_HCA,UCX_NET_DEVICES,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=36 --distribution=plane=4 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix_v3 --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_MNNVL_ENABLE,NCCL_CUMEM_ENABLE,NCCL_NVLS_ENABLE,NCCL_NET_GDR_C2C,OMPI_MCA_coll,NCCL_IB_HCA,UCX_NET_DEVICES,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
