#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#SBATCH --job-name=pytorch
# default
#SBATCH --no-requeue
# site gcp-a3-high: environment
#SBATCH --export=ALL
# pytorch.yml batch.account
#SBATCH --account=proj
# pytorch.yml batch.walltime
#SBATCH --time=01:00:00
# site gcp-a3-high: whole_nodes
#SBATCH --exclusive
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --nodes=2
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=8
# site gcp-a3-high: partitions.a3
#SBATCH --cpus-per-task=26
# site gcp-a3-high: gpus
#SBATCH --gpus-per-node=8
# Made by hpcdist 0.1.0 for site gcp-a3-high. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 16 tasks by srun, 2 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS
  [nodes]=2 [tasks]=16 [tasks_per_node]='8(x2)' [threads]=default
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    8     8           8        0    0          0   26   0   1    1       1"
  " worker 0     8    8     8           8        1    0          0   26   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX="/run/tcpx-$SLURM_JOB_ID"  # site gcp-a3-high: setup (multi_node)
  export LD_LIBRARY_PATH="/var/lib/tcpx/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site gcp-a3-high: setup (multi_node)
  fetch_image sqsh enroot import --output 'docker://nvcr.io#nvidia/pytorch:24.08-py3'  # container pyxis
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container pyxis
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=enp0s12  # site gcp-a3-high: fabric.env.NCCL_SOCKET_IFNAME
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_NET=GPUDirectTCPX_v7  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_GPUDIRECTTCPX_CTRL_DEV=enp0s12  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=enp6s0,enp12s0,enp134s0,enp140s0  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_GPUDIRECTTCPX_TX_BINDINGS='enp6s0:8-21,112-125;enp12s0:8-21,112-125;enp134s0:60-73,164-177;enp140s0:60-73,164-177'  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_GPUDIRECTTCPX_RX_BINDINGS='enp6s0:22-35,126-139;enp12s0:22-35,126-139;enp134s0:74-87,178-191;enp140s0:74-87,178-191'  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_CROSS_NIC=0  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_ALGO=Ring  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_PROTO=Simple  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_NSOCKS_PERTHREAD=4  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_SOCKET_NTHREADS=1  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_DYNAMIC_CHUNK_SIZE=524288  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_P2P_NET_CHUNKSIZE=524288  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_P2P_PCI_CHUNKSIZE=524288  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_P2P_NVL_CHUNKSIZE=1048576  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_BUFFSIZE=4194304  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_NET_GDR_LEVEL=PIX  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
  ! found "/var/lib/tcpx/lib64/libnccl-net*" || export NCCL_P2P_PXN_LEVEL=0  # site gcp-a3-high: fabric.together.0: GPUDirect-TCPX, whose plug-in the prolog installs for several nodes (multi_node, if /var/lib/tcpx/lib64/libnccl-net* is found)
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
  export GLOO_SOCKET_IFNAME=enp0s12  # site gcp-a3-high: fabric.interface
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
  # srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=26 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmi2: site gcp-a3-high: launchers.srun.mpi
  # --container-image="$hpcdist_image": pytorch.yml build.image
  # --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/var/lib/tcpx/lib64:/var/lib/tcpx/lib64,/run/tcpx-$SLURM_JOB_ID:/run/tcpx-$SLURM_JOB_ID" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_NET,NCCL_GPUDIRECTTCPX_CTRL_DEV,NCCL_GPUDIRECTTCPX_SOCKET_IFNAME,NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS,NCCL_GPUDIRECTTCPX_TX_BINDINGS,NCCL_GPUDIRECTTCPX_RX_BINDINGS,NCCL_CROSS_NIC,NCCL_ALGO,NCCL_PROTO,NCCL_NSOCKS_PERTHREAD,NCCL_SOCKET_NTHREADS,NCCL_DYNAMIC_CHUNK_SIZE,NCCL_P2P_NET_CHUNKSIZE,NCCL_P2P_PCI_CHUNKSIZE,NCCL_P2P_NVL_CHUNKSIZE,NCCL_BUFFSIZE,NCCL_NET_GDR_LEVEL,NCCL_P2P_PXN_LEVEL,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME: container pyxis
  # "${hpcdist_task[@]}": task wrapper
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "/var/lib/tcpx/lib64": site gcp-a3-high: container.library_path
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=26 --distribution=plane=8 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmi2 --container-image="$hpcdist_image" --container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/var/tmp:/var/tmp,/var/lib/tcpx/lib64:/var/lib/tcpx/lib64,/run/tcpx-$SLURM_JOB_ID:/run/tcpx-$SLURM_JOB_ID" --container-workdir="$PWD" --container-env=PYTHONUNBUFFERED,NCCL_SOCKET_IFNAME,NCCL_NET,NCCL_GPUDIRECTTCPX_CTRL_DEV,NCCL_GPUDIRECTTCPX_SOCKET_IFNAME,NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS,NCCL_GPUDIRECTTCPX_TX_BINDINGS,NCCL_GPUDIRECTTCPX_RX_BINDINGS,NCCL_CROSS_NIC,NCCL_ALGO,NCCL_PROTO,NCCL_NSOCKS_PERTHREAD,NCCL_SOCKET_NTHREADS,NCCL_DYNAMIC_CHUNK_SIZE,NCCL_P2P_NET_CHUNKSIZE,NCCL_P2P_PCI_CHUNKSIZE,NCCL_P2P_NVL_CHUNKSIZE,NCCL_BUFFSIZE,NCCL_NET_GDR_LEVEL,NCCL_P2P_PXN_LEVEL,MASTER_ADDR,MASTER_PORT,GLOO_SOCKET_IFNAME \
    "${hpcdist_task[@]}" bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "/var/lib/tcpx/lib64" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
