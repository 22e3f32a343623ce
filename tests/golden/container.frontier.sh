#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/container-1/logs/job.out
# container.yml name
#SBATCH --job-name=container
# default
#SBATCH --no-requeue
# site frontier: environment
#SBATCH --export=ALL
# container.yml batch.account
#SBATCH --account=proj
# site frontier: partitions.batch
#SBATCH --partition=batch
# site frontier: whole_nodes
#SBATCH --exclusive
# site frontier: partitions.batch
#SBATCH --nodes=2
# site frontier: partitions.batch
#SBATCH --ntasks-per-node=1
# site frontier: partitions.batch
#SBATCH --cpus-per-task=56
# site frontier: fabric.together.0: alt_read needs the driver's get protocol off
#SBATCH --network=disable_rdzv_get
# Made by hpcdist 0.1.0 for site frontier. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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
  [gpus]=launcher [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16 [by_address]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   56   0   8    1       8"
  " worker 0     1    1     1           1        1    0          0   56   0   8    1       8"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  load_module PrgEnv-gnu/8.7.0 'site frontier: modules'  # site frontier: modules
  load_module cpe/26.03 'site frontier: modules'  # site frontier: modules
  load_module rocm/7.1.1 'site frontier: modules'  # site frontier: modules
  load_module rccl-net-plugin 'site frontier: modules (rccl)'  # site frontier: modules (rccl)
  load_module craype-accel-amd-gfx90a 'site frontier: modules'  # site frontier: modules
  export LD_LIBRARY_PATH="$CRAY_LD_LIBRARY_PATH${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site frontier: setup
  export MIOPEN_USER_DB_PATH="/tmp/$USER-miopen-$SLURM_JOB_ID" MIOPEN_CUSTOM_CACHE_DIR="/tmp/$USER-miopen-$SLURM_JOB_ID"  # site frontier: setup
  module load cray-mpich-abi  # site frontier: container.setup
  export APPTAINER_CONTAINLIBS=/usr/lib64/libcxi.so.1,/usr/lib64/libjson-c.so.5,/lib64/libtinfo.so.6,/usr/lib64/libnl-3.so.200,/usr/lib64/libgfortran.so.5,/usr/lib64/libjansson.so.4,/usr/lib64/libxpmem.so.0  # site frontier: container.setup
  type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
  [[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_NET=OFI  # site frontier: fabric.env.NCCL_NET (multi_node, rccl)
  export NCCL_CROSS_NIC=1  # site frontier: fabric.env.NCCL_CROSS_NIC
  export NCCL_NET_GDR_LEVEL=PHB  # site frontier: fabric.env.NCCL_NET_GDR_LEVEL
  export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3  # site frontier: fabric.env.NCCL_SOCKET_IFNAME
  export HSA_FORCE_FINE_GRAIN_PCIE=1  # site frontier: fabric.env.HSA_FORCE_FINE_GRAIN_PCIE
  export FI_MR_CACHE_MONITOR=kdreg2  # site frontier: fabric.env.FI_MR_CACHE_MONITOR
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site frontier: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site frontier: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
  export FI_CXI_DEFAULT_TX_SIZE=2048  # site frontier: fabric.env.FI_CXI_DEFAULT_TX_SIZE
  export FI_CXI_RX_MATCH_MODE=hybrid  # site frontier: fabric.env.FI_CXI_RX_MATCH_MODE
  export FI_CXI_RDZV_PROTO=alt_read  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_EAGER_SIZE=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_THRESHOLD=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_GET_MIN=0  # site frontier: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=7  # framework pytorch
  export GREETING='it'"'"'s $HOME'  # container.yml environment.env_vars.GREETING
}

# What each task does first.
task_setup() {
  mkdir -p "$MIOPEN_USER_DB_PATH"  # site frontier: task_setup
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
  # srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=56 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --gpus-per-task=8: site frontier: gpus.bound_by
  # --mpi=cray_shasta: site frontier: launchers.srun.mpi
  # --gpu-bind=closest: site frontier: launchers.srun.binding
  # "${hpcdist_task[@]}": task wrapper
  # apptainer exec --rocm: container apptainer
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --bind "/usr/share/libdrm:/usr/share/libdrm" --bind "/var/spool/slurmd:/var/spool/slurmd" --bind "/opt/cray:/opt/cray": site frontier: container.binds
  # --pwd "$PWD": container apptainer
  # /images/torch.sif: container.yml build.image
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "$CRAY_MPICH_ROOTDIR/gtl/lib:/opt/rocm/lib:/opt/rocm/lib64:$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/lib64": site frontier: container.library_path
  # torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=56 --kill-on-bad-exit=1 --wait=0 --label --gpus-per-task=8 --mpi=cray_shasta --gpu-bind=closest \
    "${hpcdist_task[@]}" \
    apptainer exec --rocm --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --bind "/usr/share/libdrm:/usr/share/libdrm" --bind "/var/spool/slurmd:/var/spool/slurmd" --bind "/opt/cray:/opt/cray" --pwd "$PWD" /images/torch.sif bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "$CRAY_MPICH_ROOTDIR/gtl/lib:/opt/rocm/lib:/opt/rocm/lib64:$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/lib64" torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
