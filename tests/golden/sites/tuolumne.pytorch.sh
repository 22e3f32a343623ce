#!/bin/bash
# rule run directory
#flux: --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#flux: --job-name=pytorch
# pytorch.yml batch.account
#flux: --bank=proj
# site tuolumne: partitions.pbatch
#flux: --queue=pbatch
# pytorch.yml batch.walltime
#flux: --time-limit=3600s
# site tuolumne: whole_nodes
#flux: --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#flux: --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#flux: --nslots=2
# site tuolumne: partitions.pbatch
#flux: --cores-per-slot=84
# site tuolumne: gpus
#flux: --setopt=gpu-affinity=off
# site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off
#flux: --setattr=rdzv_get_en=0
# Made by hpcdist 0.1.0 for site tuolumne. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 8 tasks by flux, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=flux [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=flux [mode]=tasks [rank]=FLUX_TASK_RANK [size]=FLUX_JOB_SIZE
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [threads]=default
  [gpus]=launcher [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   21   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   21   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  export LD_LIBRARY_PATH="${CRAY_LD_LIBRARY_PATH:+$CRAY_LD_LIBRARY_PATH:}${LD_LIBRARY_PATH:-}"  # site tuolumne: setup
  export MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}/MIOpen_user_db" MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}/MIOpen_custom_cache"  # site tuolumne: setup
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! found "librccl-net.so" || export NCCL_NET_PLUGIN=librccl-net.so  # site tuolumne: fabric.env.NCCL_NET_PLUGIN (if librccl-net.so is found)
  export NCCL_NET_GDR_LEVEL=3  # site tuolumne: fabric.env.NCCL_NET_GDR_LEVEL
  export NCCL_MIN_NCHANNELS=24  # site tuolumne: fabric.env.NCCL_MIN_NCHANNELS
  export NCCL_CROSS_NIC=1  # site tuolumne: fabric.env.NCCL_CROSS_NIC
  export NCCL_SOCKET_IFNAME=hsi0  # site tuolumne: fabric.env.NCCL_SOCKET_IFNAME
  export FI_MR_CACHE_MONITOR=userfaultfd  # site tuolumne: fabric.env.FI_MR_CACHE_MONITOR
  export FI_CXI_DEFAULT_TX_SIZE=1024  # site tuolumne: fabric.env.FI_CXI_DEFAULT_TX_SIZE
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site tuolumne: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site tuolumne: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
  export FI_CXI_RX_MATCH_MODE=hybrid  # site tuolumne: fabric.env.FI_CXI_RX_MATCH_MODE
  export PYTORCH_MIOPEN_SUGGEST_NHWC=1  # site tuolumne: fabric.env.PYTORCH_MIOPEN_SUGGEST_NHWC
  export PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM=1  # site tuolumne: fabric.env.PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM
  export TENSILE_SOLUTION_SELECTION_METHOD=2  # site tuolumne: fabric.env.TENSILE_SOLUTION_SELECTION_METHOD
  export FI_CXI_RDZV_PROTO=alt_read  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_EAGER_SIZE=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_THRESHOLD=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
  export FI_CXI_RDZV_GET_MIN=0  # site tuolumne: fabric.together.0: alt_read needs the driver's get protocol off (rccl, framework not mpi)
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
  export GLOO_SOCKET_IFNAME=hsi0  # site tuolumne: fabric.interface
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="0"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # start_flux flux run --nodes=2 --ntasks=8 --cores-per-task=21 --gpus-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none: launcher flux
  # --setopt=gpu-affinity=per-task: site tuolumne: gpus.bound_by
  # --setopt=cpu-affinity=per-task: site tuolumne: launchers.flux.binding
  # --setopt=mpibind=off --setopt=fastload=on: site tuolumne: launchers.flux.args
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  start_flux flux run --nodes=2 --ntasks=8 --cores-per-task=21 --gpus-per-task=1 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=gpu-affinity=per-task --setopt=cpu-affinity=per-task --setopt=mpibind=off --setopt=fastload=on \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
