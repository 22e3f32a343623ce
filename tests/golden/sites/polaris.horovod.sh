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
# site polaris: partitions.debug
#PBS -q debug
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#PBS -l select=2:mpiprocs=4:system=polaris
# site polaris: whole_nodes
#PBS -l place=scatter
# horovod.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site polaris: pbs.keep
#PBS -k doe
# site polaris: environment
#PBS -V
# site polaris: directives.mandatory
#PBS -l filesystems=home:eagle
# Made by hpcdist 0.1.0 for site polaris. It needs no hpcdist on the nodes, and runs by hand as well: what is this
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

# What is needed before anything starts.
setup() {
  export TMPDIR=/tmp  # site polaris: setup
  export LD_LIBRARY_PATH="/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site polaris: setup
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! found "/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so" || export NCCL_NET='AWS Libfabric'  # site polaris: fabric.env.NCCL_NET (if /soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so is found)
  export NCCL_NET_GDR_LEVEL=PHB  # site polaris: fabric.env.NCCL_NET_GDR_LEVEL
  export NCCL_CROSS_NIC=1  # site polaris: fabric.env.NCCL_CROSS_NIC
  export NCCL_COLLNET_ENABLE=1  # site polaris: fabric.env.NCCL_COLLNET_ENABLE
  export FI_MR_CACHE_MONITOR=userfaultfd  # site polaris: fabric.env.FI_MR_CACHE_MONITOR
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site polaris: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site polaris: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
  ! linked "libmpi_gtl_cuda.so" MPICH_GPU_SUPPORT_ENABLED || export MPICH_GPU_SUPPORT_ENABLED=1  # site polaris: fabric.env.MPICH_GPU_SUPPORT_ENABLED (nccl, outside containers, if the program links libmpi_gtl_cuda.so)
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod", "experiment_uuid": "horovod", "framework": "horovod", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
  # --cpu-bind list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39: site polaris: node_types.a100.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod.yml run.cmd
  exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind list:24-31,56-63:16-23,48-55:8-15,40-47:0-7,32-39 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
