#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# rule run directory
#PBS -o /scratch/me/runs/horovod-1/logs/job.out
# horovod.yml name
#PBS -N horovod
# horovod.yml batch.account
#PBS -A proj
# site derecho: partitions.main
#PBS -q main
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4:gpu_type=a100
# site derecho: whole_nodes
#PBS -l place=scatter
# horovod.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site derecho: pbs.keep
#PBS -k oed
# site derecho: environment
#PBS -V
# Made by hpcdist 0.1.0 for site derecho. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod: 8 tasks by pals, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/horovod-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE [label]=1
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [hostfile]=%s%.0s [threads]=own
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   16   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   16   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export NCCL_SOCKET_IFNAME=hsn  # site derecho: fabric.env.NCCL_SOCKET_IFNAME (nccl)
  export NCCL_IB_DISABLE=1  # site derecho: fabric.env.NCCL_IB_DISABLE (nccl)
  export NCCL_CROSS_NIC=1  # site derecho: fabric.env.NCCL_CROSS_NIC (nccl)
  export NCCL_NCHANNELS_PER_NET_PEER=4  # site derecho: fabric.env.NCCL_NCHANNELS_PER_NET_PEER (nccl)
  export FI_MR_CACHE_MONITOR=userfaultfd  # site derecho: fabric.env.FI_MR_CACHE_MONITOR (nccl)
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site derecho: fabric.env.FI_CXI_DISABLE_HOST_REGISTER (nccl)
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site derecho: fabric.env.FI_CXI_DEFAULT_CQ_SIZE (nccl)
  export FI_CXI_OPTIMIZED_MRS=false  # site derecho: fabric.env.FI_CXI_OPTIMIZED_MRS (nccl)
  ! linked "libmpi_gtl_cuda.so" MPICH_GPU_SUPPORT_ENABLED || export MPICH_GPU_SUPPORT_ENABLED=1  # site derecho: fabric.env.MPICH_GPU_SUPPORT_ENABLED (nccl, outside containers, if the program links libmpi_gtl_cuda.so)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod", "experiment_uuid": "horovod", "framework": "horovod", "user": null}'  # polyaxon
}

# What each task does first.
task_setup() {
  if [[ -n ${SCRATCH:-} ]]; then export TMPDIR="$SCRATCH/tmp"; mkdir -p "$TMPDIR"; fi  # site derecho: task_setup
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth: launcher pals
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod.yml run.cmd
  exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
