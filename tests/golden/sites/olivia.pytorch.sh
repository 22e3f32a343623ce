#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site olivia: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# site olivia: partitions.accel
#SBATCH --partition=accel
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=1
# site olivia: partitions.accel
#SBATCH --cpus-per-task=288
# site olivia: request_memory
#SBATCH --mem=827392M
# site olivia: gpus
#SBATCH --gpus-per-node=4
# Made by hpcdist 0.1.0 for site olivia. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 2 tasks by srun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
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
  module load NRIS/GPU  # site olivia: container.setup (nccl)
  module load NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0  # site olivia: container.setup (nccl)
  type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
  [[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_CROSS_NIC=1  # site olivia: fabric.env.NCCL_CROSS_NIC (nccl)
  export NCCL_NET_GDR_LEVEL=PHB  # site olivia: fabric.env.NCCL_NET_GDR_LEVEL (nccl)
  export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # site olivia: fabric.env.NCCL_SOCKET_IFNAME (nccl)
  export FI_MR_CACHE_MONITOR=userfaultfd  # site olivia: fabric.env.FI_MR_CACHE_MONITOR (nccl)
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site olivia: fabric.env.FI_CXI_DISABLE_HOST_REGISTER (nccl)
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site olivia: fabric.env.FI_CXI_DEFAULT_CQ_SIZE (nccl)
  export FI_CXI_DEFAULT_TX_SIZE=2048  # site olivia: fabric.env.FI_CXI_DEFAULT_TX_SIZE (nccl)
  export FI_CXI_RX_MATCH_MODE=hybrid  # site olivia: fabric.env.FI_CXI_RX_MATCH_MODE (nccl)
  export FI_CXI_RDZV_PROTO=alt_read  # site olivia: fabric.env.FI_CXI_RDZV_PROTO (nccl)
  export FI_CXI_RDZV_EAGER_SIZE=0  # site olivia: fabric.env.FI_CXI_RDZV_EAGER_SIZE (nccl)
  export FI_CXI_RDZV_THRESHOLD=0  # site olivia: fabric.env.FI_CXI_RDZV_THRESHOLD (nccl)
  export FI_CXI_RDZV_GET_MIN=0  # site olivia: fabric.env.FI_CXI_RDZV_GET_MIN (nccl)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export GLOO_SOCKET_IFNAME=hsn0  # site olivia: fabric.interface
  export OMP_NUM_THREADS=72  # framework pytorch
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
  # "${hpcdist_task[@]}": task wrapper
  # apptainer exec --nv: container apptainer
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --bind "$EBROOTLIBFABRIC/lib:/opt/libfabric/lib" --bind "$EBROOTNCCL:/opt/nccl" --bind "$EBROOTAWSMINOFIMINNCCL/lib:/opt/aws-ofi-nccl/lib" --bind "/usr/lib64:/usr/lib64": site olivia: container.binds (nccl)
  # --pwd "$PWD": container apptainer
  # /images/torch.sif: pytorch.yml build.image
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "/opt/libfabric/lib:/opt/nccl/lib:/opt/aws-ofi-nccl/lib:/usr/lib64": site olivia: container.library_path
  # torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=288 --kill-on-bad-exit=1 --wait=0 --label \
    "${hpcdist_task[@]}" \
    apptainer exec --nv --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --bind "$EBROOTLIBFABRIC/lib:/opt/libfabric/lib" --bind "$EBROOTNCCL:/opt/nccl" --bind "$EBROOTAWSMINOFIMINNCCL/lib:/opt/aws-ofi-nccl/lib" --bind "/usr/lib64:/usr/lib64" --pwd "$PWD" /images/torch.sif bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "/opt/libfabric/lib:/opt/nccl/lib:/opt/aws-ofi-nccl/lib:/usr/lib64" torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
